// A short tour: four callouts, each beside what it explains.

import { Panel, always, byId, calm, show, write } from "../dom.js";

const MARGIN = 16;

const TOUR = [
  {
    at: "#world",
    title: "Hide a reward",
    text: "Paint good and bad places on the map, or take a random task. The agent cannot see it.",
    onStage: { at: "#tasks", text: "Choose a task or move the sliders. The agent cannot see it." },
  },
  {
    at: "#play",
    title: "Let it search",
    text: "It has a behaviour for every task, but does not know your task. It only gets a reward for the place it enters.",
    onStage: { text: "It has a behaviour for every task, but does not know your task. It only gets a reward for each step." },
  },
  {
    at: ".lenses",
    title: "See what it knows",
    text: "The reward it expects, where it is uncertain, and the goal it tries. Fog clears where it has been, and in similar places.",
    onStage: { at: ".likes", text: "Bars show what seems to pay: how the expected reward goes with speed, height and posture." },
  },
  {
    at: ".who",
    title: "Or be the reward",
    text: "It moves, you say good or bad. It asks only where your answer would teach it something.",
    onStage: { text: "It moves, you hold a thumb up or down. A thumb counts for what you saw in the last second." },
  },
];

/** A callout, as it is for the kind of world that is shown. */
function callout(index) {
  const { onStage, ...plain } = TOUR[index];
  return byId("stage").dataset.kind === "stage" ? { ...plain, ...onStage } : plain;
}

export class Hints extends Panel {
  constructor() {
    super("hint");
    this.index = 0;
    byId("hint-next").addEventListener("click", () => this.next());
    byId("hint-close").addEventListener("click", () => this.close());
    for (const name of ["resize", "scroll"]) addEventListener(name, () => this.isOpen && this.#place(), { passive: true });
  }

  firstTime() {
    if (!always.get("toured")) this.open();
  }

  open() {
    this.index = 0;
    this.turn(true);
    this.#tell();
  }

  /** Opens it on request, with the focus. */
  again() {
    this.open();
    byId("hint-next").focus();
  }

  /** Goes on when the person does what a callout explains. */
  done(at) {
    if (this.isOpen && callout(this.index).at === at) this.next();
  }

  next() {
    this.index += 1;
    if (this.index < TOUR.length) this.#tell();
    else this.close();
  }

  close() {
    if (!this.isOpen) return;
    this.turn(false, null, "help");
    this.#point(null);
    always.set("toured", true);
  }

  #tell() {
    const { at, title, text } = callout(this.index);
    write(byId("hint-title"), title);
    write(byId("hint-text"), text);
    write(byId("hint-count"), `${this.index + 1} of ${TOUR.length}`);
    write(byId("hint-close"), "Skip");
    show(byId("hint-close"), this.index < TOUR.length - 1);
    write(byId("hint-next"), this.index < TOUR.length - 1 ? "Next" : "Done");
    document.querySelector(at).scrollIntoView({ block: "nearest", behavior: calm() ? "auto" : "smooth" });
    this.#place();
  }

  #point(target) {
    this.target?.classList.remove("pointed");
    this.target = target;
    target?.classList.add("pointed");
  }

  /** Puts the callout beside its target if there is room, else above or below, always inside the window. */
  #place() {
    const target = document.querySelector(callout(this.index).at);
    this.#point(target);
    const box = target.getBoundingClientRect();
    const { offsetWidth: w, offsetHeight: h } = this.panel;
    const foot = document.querySelector(".transport").offsetHeight;
    const [right, bottom] = [innerWidth - w - MARGIN, innerHeight - foot - h - MARGIN];
    let [x, y] = [box.left, box.bottom + MARGIN];
    if (box.right + MARGIN <= right) [x, y] = [box.right + MARGIN, box.top];
    else if (box.bottom + MARGIN > bottom) y = box.top - h - MARGIN;
    this.panel.style.left = `${Math.max(MARGIN, Math.min(right, x))}px`;
    this.panel.style.top = `${Math.max(MARGIN, Math.min(bottom, y))}px`;
  }
}
