// Small words for the page: find, write only what changed, make.

export const byId = (id) => document.getElementById(id);

/** Text is written only where it differs: at thirty steps a second most of it does not. */
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

export function make(tag, text = "", className = "") {
  const element = document.createElement(tag);
  if (text) element.textContent = text;
  if (className) element.className = className;
  return element;
}

/** A real minus sign, and a plus where the sign is what counts. */
export function signed(x, digits = 2) {
  const text = Math.abs(x).toFixed(digits);
  if (Number(text) === 0) return text;
  return (x < 0 ? "−" : "+") + text;
}

/** An estimate can overshoot; what is shown of it does not go beyond what is possible. */
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
      // A browser that keeps nothing (private mode, full disk): the page works, it only forgets.
    }
  },
});

export const always = remembered(() => localStorage);
export const thisTab = remembered(() => sessionStorage);

export const calm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;
