// Short messages that go by themselves, and the banner about the connection.

import { byId, make, show, write } from "./dom.js";

const MOST = 3;
const SHORT_MS = 6000;
const LONG_MS = 15000; // with something to press

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
  // Whoever reads it or is about to press keeps it.
  for (const stay of ["pointerenter", "focusin"]) element.addEventListener(stay, () => clearTimeout(timer));
  for (const go of ["pointerleave", "focusout"]) element.addEventListener(go, () => (timer = setTimeout(close, SHORT_MS)));
  return close;
}

const CLOSED = {
  4401: ["This link has expired. Open the one that zscout live printed last.", "Try again"],
  4403: ["The server does not take this address. Open the link that zscout live printed.", "Try again"],
  4409: ["This run was opened in another tab.", "Use it here"],
  4429: ["Too many visitors or messages right now.", "Try again"],
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

  /** A loss of half a second is nobody's business. */
  show(connected, now) {
    if (connected) this.closed = this.lostAt = null;
    else this.lostAt ??= now;
    const visible = !connected && (this.closed !== null || now - this.lostAt > 500);
    show(this.element, visible);
    if (visible) {
      write(this.text, this.closed?.[0] ?? "Reconnecting…");
      show(this.button, this.closed !== null);
      if (this.closed) write(this.button, this.closed[1]);
    } else if (!connected) return true; // look again soon
    return false;
  }
}
