// Short messages that disappear, and the banner about the connection.

import { byId, make, show, write } from "../dom.js";

const MOST = 3;
const SHORT_MS = 6000;
export const LONG_MS = 15000; // with a button

/** @param {{name: string, act: () => void}[]} actions */
export function toast(text, actions = [], extra = null) {
  const box = byId("toasts");
  for (const other of box.children) if (other.dataset.text === text) other.remove();
  const element = make("div", "", "toast");
  element.dataset.text = text;
  element.append(make("p", text));
  if (extra) element.append(extra);
  const close = () => element.remove();
  for (const { name, act } of [...actions, { name: "Close", act: () => {} }]) {
    const button = make("button", name);
    button.type = "button";
    button.addEventListener("click", () => (close(), act()));
    element.append(button);
  }
  box.append(element);
  while (box.childElementCount > MOST) box.firstElementChild.remove();
  let timer = setTimeout(close, actions.length || extra ? LONG_MS : SHORT_MS);
  // It stays while the pointer or the focus is on it.
  for (const stay of ["pointerenter", "focusin"]) element.addEventListener(stay, () => clearTimeout(timer));
  for (const go of ["pointerleave", "focusout"]) element.addEventListener(go, () => (timer = setTimeout(close, SHORT_MS)));
  return close;
}

export const UNNOTICED_MS = 500; // a shorter loss of the connection is not shown
const STOPPED_MS = 10000;
const STOPPED =
  "zscout live seems to have stopped. Start it again and open the new link. This address keeps your painting.";
const CLOSED = {
  4401: ["This link has expired. Open the one that zscout live printed last.", "Try again"],
  4409: ["This page was opened in another tab.", "Use it here"],
  4429: ["Too many messages right now.", "Try again"],
};

export class Banner {
  constructor(retry) {
    this.element = byId("banner");
    [this.text, this.button] = this.element.children;
    this.button.addEventListener("click", () => {
      this.closed = null;
      retry();
    });
    this.closed = null;
  }

  stop(code) {
    this.closed = CLOSED[code];
  }

  /** @returns {boolean} whether to draw again soon */
  show({ connected, hello, lostAt }, now) {
    if (connected) this.closed = null;
    const away = lostAt === null ? 0 : now - lostAt;
    const text = this.closed?.[0] ?? this.#text(away, hello !== null);
    show(this.element, text !== "");
    write(this.text, text);
    show(this.button, this.closed !== null);
    if (this.closed) write(this.button, this.closed[1]);
    return lostAt !== null && !this.closed && away <= STOPPED_MS;
  }

  /** Before the first connection the page shows that it starts, so the banner is empty. */
  #text(away, ever) {
    if (away > STOPPED_MS) return STOPPED;
    return ever && away > UNNOTICED_MS ? "Reconnecting…" : "";
  }

  get visible() {
    return !this.element.hidden;
  }
}
