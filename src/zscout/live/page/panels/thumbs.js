// Thumbs while a body is watched: a press is about the last second, a held thumb about all that is shown meanwhile.

import { byId, mark, show, slider, write } from "../dom.js";
import { answerable } from "./person.js";
import { speak } from "../sides/speech.js";

const AGAIN_MS = 150; // a held thumb is sent so often: the windows of two messages overlap
const LATEST = 50; // steps back at which a thumb still counts

export class Thumbs {
  constructor(session) {
    this.session = session;
    this.held = 0;
    for (const [id, sign] of [["hold-up", 1], ["hold-down", -1]]) {
      const button = byId(id);
      button.addEventListener("pointerdown", (event) => event.button === 0 && this.press(sign));
      button.addEventListener("keydown", (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        if (!event.repeat) this.press(sign);
      });
      button.addEventListener("click", (event) => event.detail || this.#tap(sign)); // by assistive technology
    }
    for (const end of ["pointerup", "pointercancel", "keyup", "blur"]) addEventListener(end, () => this.release());
    this.strength = slider("hold-strength", (x) => x.toFixed(1));
    byId("learn-on").addEventListener("click", () => this.learnOn());
    byId("hold-silence").addEventListener("change", ({ target }) => session.send({ do: "silence", value: target.value }));
  }

  /** @returns {boolean} false if there is nobody to answer */
  press(sign) {
    return answerable(this.session, LATEST, () => {
      this.release();
      this.held = sign;
      this.credited = 0;
      this.#send();
      this.timer = setInterval(() => this.#send(), AGAIN_MS);
      this.#mark();
    });
  }

  release() {
    clearInterval(this.timer);
    this.held = 0;
    this.#mark();
  }

  #tap(sign) {
    this.press(sign);
    this.release();
  }

  #send() {
    const { session } = this;
    const { history, status } = session;
    const pace = Math.min(50, Math.max(0.5, session.pace ?? status.speed));
    session.send({ do: "thumb", step: history.shown, value: this.held * this.strength(), pace });
  }

  #mark() {
    mark(byId("hold-up"), "aria-pressed", this.held > 0);
    mark(byId("hold-down"), "aria-pressed", this.held < 0);
  }

  /** The server's answer: the steps that got a reward. */
  told({ steps, value }) {
    if (value === 0) return; // silence
    this.credited = (this.credited ?? 0) + steps.length;
    speak(byId("credited"), `You said ${value > 0 ? "good" : "bad"} for ${this.credited} steps.`);
  }

  begun() {
    this.release();
    this.credited = 0;
    write(byId("credited"), "No thumb yet.");
  }

  /** It is sure and asks no more: let it go on. @returns {boolean} false if it is not */
  learnOn() {
    return this.sure && this.session.send({ do: "learn" });
  }

  show({ hidden, status, frame, world }) {
    if (hidden || world.kind !== "stage") return;
    byId("hold-silence").value = status.silence;
    this.sure = frame.sides[0].sure;
    write(byId("done-text"), this.sure ? `${frame.sides[0].knows} I ask no more.` : "");
    show(byId("done"), this.sure);
  }
}
