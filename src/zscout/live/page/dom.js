// Small DOM functions: find, create, and write only what changed.

export const byId = (id) => document.getElementById(id);

/** Writes text only if it differs: at thirty steps a second most does not. */
export function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function mark(element, name, value) {
  const text = String(value ?? "");
  if (element.getAttribute(name) !== text) element.setAttribute(name, text);
}

export function show(element, visible) {
  if (element.hidden === visible) element.hidden = !visible;
}

/** A part of the page that opens and closes. */
export class Panel {
  constructor(id) {
    this.panel = byId(id);
  }

  get isOpen() {
    return !this.panel.hidden;
  }

  /** The focus goes to a control inside, if one is named, and back to what opens it. */
  turn(visible, inside, opener) {
    const held = this.panel.contains(document.activeElement);
    show(this.panel, visible);
    if (visible && inside) byId(inside).focus();
    if (!visible && held) byId(opener).focus();
  }
}

/** A slider whose number is written beside it. @returns {() => number} the number */
export function slider(id, text) {
  const input = byId(id);
  const now = () => Number(input.value);
  input.addEventListener("input", () => write(input.labels[0].querySelector("output"), text(now())));
  return now;
}

/** Calls `act` with the newest value, at most every 80 ms. */
export function seldom(act) {
  let newest = null;
  let waiting = null;
  return (value) => {
    newest = value;
    waiting ??= setTimeout(() => ((waiting = null), act(newest)), 80);
  };
}

export function make(tag, text = "", className = "") {
  const element = document.createElement(tag);
  if (text) element.textContent = text;
  if (className) element.className = className;
  return element;
}

/** A number with its sign, + or a real minus. */
export function signed(x, digits = 2) {
  const text = Math.abs(x).toFixed(digits);
  if (Number(text) === 0) return text;
  return (x < 0 ? "−" : "+") + text;
}

/** Clips an estimate to the possible rewards. */
export const within = (x, limit) => Math.max(-limit, Math.min(limit, x));

export function plain(x, digits = 2) {
  return x.toFixed(digits).replace("-", "−");
}

const remembered = (store) => ({
  get(key) {
    try {
      return JSON.parse(store().getItem(`zscout-${key}`));
    } catch {
      return null;
    }
  },
  set(key, value) {
    try {
      store().setItem(`zscout-${key}`, JSON.stringify(value));
    } catch {
      // No storage (private mode, full disk): the page works, but forgets on reload.
    }
  },
});

export const always = remembered(() => localStorage);
export const thisTab = remembered(() => sessionStorage);

export const calm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;
