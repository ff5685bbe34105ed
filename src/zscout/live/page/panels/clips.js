// Which of two clips is better: both loop side by side until one is chosen.

import { Panel, byId, calm, mark, show, write } from "../dom.js";
import { inWords } from "../draw/ghost.js";
import { Screen } from "../draw/screen.js";
import { drawStage, torsoAt } from "../draw/stage.js";
import { toast } from "./toasts.js";

const SIDES = ["left", "right"];
const REST_MS = 500; // at the end of each loop
const CALM_MS = 500; // of each of a few pictures, with reduced motion

export class Clips extends Panel {
  constructor(session) {
    super("clips");
    this.session = session;
    byId("compare-clips").addEventListener("click", () => this.open());
    byId("clip-left").addEventListener("click", () => this.answer(0));
    byId("clip-right").addEventListener("click", () => this.answer(1));
    byId("clip-neither").addEventListener("click", () => this.answer(null));
    byId("clips-more").addEventListener("click", () => this.more());
    byId("clips-close").addEventListener("click", () => this.close());
  }

  /** The run pauses meanwhile. */
  open() {
    if (!this.session.connected) return toast("Not connected right now.");
    this.session.send({ do: "pause" });
    this.turn(true, "clips-close");
    this.screens ??= SIDES.map((name) => new Screen(byId(`clip-${name}-view`), () => {}));
    write(byId("clips-count"), "Choose the one you like more.");
    this.#ask();
  }

  close() {
    if (!this.isOpen) return;
    this.turn(false, null, "compare-clips");
    this.pair = null;
    cancelAnimationFrame(this.drawing);
  }

  #ask() {
    this.pair = null;
    this.#rest(false);
    mark(this.panel, "data-number", "");
    this.session.send({ do: "clips" });
  }

  /** @param {number | null} better 0 left, 1 right, null neither */
  answer(better) {
    if (!this.isOpen || !this.pair) return;
    this.session.send({ do: "prefer", number: this.pair.number, better });
    this.pair = null; // the last pictures stay until the next pair comes
  }

  /** It is sure, but the person wants to say more. @returns {boolean} false if it asks anyway */
  more() {
    if (!this.isOpen || !this.done) return false;
    this.session.send({ do: "learn" });
    this.#ask();
    byId("clips-close").focus();
    return true;
  }

  received(pair) {
    if (!this.isOpen) return;
    this.pair = pair;
    this.began = performance.now();
    pair.clips.forEach((clip, i) => mark(byId(`clip-${SIDES[i]}-view`), "aria-label", `The ${SIDES[i]} clip: it ${inWords(clip, this.session.constants)}`));
    mark(this.panel, "data-number", pair.number);
    cancelAnimationFrame(this.drawing);
    this.#draw();
  }

  preferred({ answers, done }) {
    if (!this.isOpen) return;
    const learned = `It has learned from ${answers} ${answers === 1 ? "answer" : "answers"}.`;
    write(byId("clips-count"), `${learned} ${done ? "It is sure now and asks no more." : "Another pair:"}`);
    if (!done) return this.#ask();
    this.#rest(true);
    byId("clips-more").focus();
  }

  /** Asks no more, or again. */
  #rest(done) {
    this.done = done;
    show(byId("clips-more"), done);
    for (const id of ["clip-left", "clip-right", "clip-neither"]) byId(id).disabled = done;
  }

  #draw() {
    if (!this.pair || !this.isOpen) return;
    const { constants } = this.session;
    this.pair.clips.forEach((clip, i) => {
      const screen = this.screens[i];
      if (!screen.visible) return;
      const ends = clip[this.#at(clip.length, constants.seconds)];
      drawStage(screen.clean(), screen.width, screen.height, { ends, camera: torsoAt(ends), ...constants });
    });
    this.drawing = requestAnimationFrame(() => this.#draw());
  }

  /** The step shown now: at half of real time, so that it can be followed. */
  #at(length, seconds) {
    const since = performance.now() - this.began;
    if (calm()) return Math.floor((Math.floor(since / CALM_MS) % 5) * 0.25 * (length - 1));
    const lasts = 2000 * seconds * length;
    return Math.min(length - 1, Math.floor(((since % (lasts + REST_MS)) / lasts) * length));
  }
}
