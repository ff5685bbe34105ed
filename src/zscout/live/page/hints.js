// A short tour in four callouts beside what they are about; nothing waits for it.

import { always, byId, calm, show, write } from "./dom.js";

const MARGIN = 16;

const TOUR = [
  {
    at: "#world",
    title: "Hide something you like",
    text: "Paint good and bad places on the map, or take a random task. The agent cannot see any of it.",
  },
  {
    at: "#play",
    title: "Let it look",
    text: "It has a ready-made behaviour for every task, but does not know yours. It only gets a reward where it stands.",
  },
  {
    at: ".lenses",
    title: "Watch it think",
    text: "What it expects, what it does not know, and the goal it tries. Fog lifts where it has been, and in places like it.",
  },
  {
    at: ".who",
    title: "Or be the reward",
    text: "It moves, you say good or bad. It asks only where your answer would teach it something.",
  },
];

export class Hints {
  constructor() {
    this.card = byId("hint");
    this.index = 0;
    byId("hint-next").addEventListener("click", () => this.next());
    byId("hint-close").addEventListener("click", () => this.close());
    for (const name of ["resize", "scroll"]) addEventListener(name, () => this.isOpen && this.#place(), { passive: true });
  }

  get isOpen() {
    return !this.card.hidden;
  }

  firstTime() {
    if (!always.get("toured")) this.open();
  }

  open() {
    this.index = 0;
    show(this.card, true);
    this.#tell();
  }

  /** Asked for: it may have the focus. */
  again() {
    this.open();
    byId("hint-next").focus();
  }

  /** Whoever does what a callout speaks of has no more need of it. */
  done(at) {
    if (this.isOpen && TOUR[this.index].at === at) this.next();
  }

  next() {
    this.index += 1;
    if (this.index < TOUR.length) this.#tell();
    else this.close();
  }

  close() {
    if (!this.isOpen) return;
    const inside = this.card.contains(document.activeElement);
    show(this.card, false);
    this.#point(null);
    always.set("toured", true);
    if (inside) byId("help").focus();
  }

  #tell() {
    const { title, text } = TOUR[this.index];
    write(byId("hint-title"), title);
    write(byId("hint-text"), text);
    write(byId("hint-count"), `${this.index + 1} of ${TOUR.length}`);
    write(byId("hint-close"), "Skip");
    show(byId("hint-close"), this.index < TOUR.length - 1);
    write(byId("hint-next"), this.index < TOUR.length - 1 ? "Next" : "Done");
    document.querySelector(TOUR[this.index].at).scrollIntoView({ block: "nearest", behavior: calm() ? "auto" : "smooth" });
    this.#place();
  }

  #point(target) {
    this.target?.classList.remove("pointed");
    this.target = target;
    target?.classList.add("pointed");
  }

  /** Beside its target where there is room, else above or below it, always inside the window. */
  #place() {
    const target = document.querySelector(TOUR[this.index].at);
    this.#point(target);
    const box = target.getBoundingClientRect();
    const { offsetWidth: w, offsetHeight: h } = this.card;
    const foot = document.querySelector(".transport").offsetHeight;
    const [right, bottom] = [innerWidth - w - MARGIN, innerHeight - foot - h - MARGIN];
    let [x, y] = [box.left, box.bottom + MARGIN];
    if (box.right + MARGIN <= right) [x, y] = [box.right + MARGIN, box.top];
    else if (box.bottom + MARGIN > bottom) y = box.top - h - MARGIN;
    this.card.style.left = `${Math.max(MARGIN, Math.min(right, x))}px`;
    this.card.style.top = `${Math.max(MARGIN, Math.min(bottom, y))}px`;
  }
}
