// One WebSocket that comes back: waits 0.3 s after the first loss, up to 5 s after many.

const FIRST_WAIT = 300;
const LONGEST_WAIT = 5000;
const FINAL = new Set([4401, 4403, 4409, 4429]); // coming back by itself would not help

export class Socket {
  /** @param {{message: (m: object) => void, lost: () => void, closed: (code: number) => void}} listener */
  constructor(listener) {
    this.listener = listener;
    this.wait = FIRST_WAIT;
    this.link = null;
    addEventListener("online", () => this.hurry());
    document.addEventListener("visibilitychange", () => document.hidden || this.hurry());
  }

  get open() {
    return this.link?.readyState === WebSocket.OPEN;
  }

  connect() {
    clearTimeout(this.timer);
    this.timer = null;
    const link = new WebSocket(location.origin.replace(/^http/, "ws") + "/ws");
    this.link = link;
    link.onmessage = (event) => {
      if (link === this.link) this.#receive(event.data);
    };
    link.onclose = (event) => {
      if (link === this.link) this.#closed(event.code);
    };
  }

  /** Whether it went out; what does not is the caller's to keep. */
  send(message) {
    if (!this.open) return false;
    this.link.send(JSON.stringify(message));
    return true;
  }

  /** Try at once: the network is back, or somebody looks at the page again. */
  hurry() {
    if (this.timer) this.connect();
  }

  #receive(text) {
    let message;
    try {
      message = JSON.parse(text);
    } catch {
      return;
    }
    this.wait = FIRST_WAIT; // only a server that speaks has come back
    this.listener.message(message);
  }

  #closed(code) {
    this.link = null;
    if (FINAL.has(code)) return this.listener.closed(code);
    this.listener.lost();
    this.timer = setTimeout(() => this.connect(), this.wait);
    this.wait = Math.min(LONGEST_WAIT, this.wait * 1.8);
  }
}
