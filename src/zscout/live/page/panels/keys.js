// The keyboard shortcuts, and the panel that lists them.

import { Panel, byId, make } from "../dom.js";

const TYPING = "input:not([type=range]):not([type=checkbox]):not([type=radio]), select, textarea";
const CONTROL = "button, input, select, textarea, a, [tabindex]";
const WANTS_ARROWS = "input:not([type=checkbox]), select, textarea, [tabindex]";

const LIST = {
  "The run": [
    ["p or space", "play, pause"],
    ["s or →", "one step"],
    ["r", "reset"],
    ["l", "back to live"],
    ["g", "ghost on or off (bodies)"],
  ],
  "Hide a reward": [
    ["g, b, e", "brush: good, bad, erase"],
    ["arrows", "on the map: move"],
    ["Enter or space", "on the map: paint"],
  ],
  "Be the reward": [
    ["↑ k +", "good; of a body: hold"],
    ["↓ j −", "bad; of a body: hold"],
    ["n", "skip: no answer"],
    ["← →", "the better of two clips"],
    ["m", "ask me more, when it is sure"],
  ],
  "The page": [
    ["?", "these keys"],
    ["Esc", "close a panel"],
  ],
};

export class Keys extends Panel {
  /** @param {{opens: () => void, showTour: () => void}} outside */
  constructor({ opens, showTour }) {
    super("keys");
    this.opens = opens;
    for (const [title, keys] of Object.entries(LIST)) {
      const list = make("dl");
      for (const [key, meaning] of keys) list.append(make("dt", key), make("dd", meaning));
      byId("keys-list").append(make("h3", title), list);
    }
    byId("help").addEventListener("click", () => this.open(!this.isOpen));
    byId("keys-close").addEventListener("click", () => this.open(false));
    byId("keys-tour").addEventListener("click", () => (this.open(false), showTour()));
  }

  open(visible) {
    if (visible) this.opens();
    byId("help").setAttribute("aria-expanded", visible);
    this.turn(visible, "keys-close", "help");
  }
}

/**
 * Letters work except in text fields; arrows and space only if the focused control does not use them.
 * @param {{[key: string]: (() => void) | undefined}} acts
 */
export function listenToKeys(acts) {
  addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest?.(TYPING)) return;
    if (event.key === " " && event.target.closest?.(CONTROL)) return;
    if (event.key.startsWith("Arrow") && event.target.closest?.(WANTS_ARROWS)) return;
    const act = acts[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!act || (event.repeat && event.key !== "s" && event.key !== "ArrowRight")) return;
    if (act() !== false) event.preventDefault();
  });
}
