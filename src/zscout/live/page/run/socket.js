// A WebSocket that reconnects: after 0.3 s at first, later up to 5 s.

const FIRST_WAIT = 300;
const LONGEST_WAIT = 5000;
const FINAL = new Set([4401, 4409, 4429]); // close codes after which reconnecting would not help

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

  /** @returns {boolean} whether it was sent; if not, the caller keeps it */
  send(message) {
    if (!this.open) return false;
    this.link.send(JSON.stringify(message));
    return true;
  }

  /** Reconnects at once: the network is back, or the page is visible again. */
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
    this.wait = FIRST_WAIT; // the server answers again
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
