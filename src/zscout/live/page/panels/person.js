// Be the reward: the question, the answers, and two switches.

import { byId, mark, signed, slider, write } from "../dom.js";
import { toast } from "./toasts.js";

const LATEST = 5; // how many steps an answer may be late
const OWN_MS = 1000; // a switch moved within this time ignores older statuses

export class Person {
  constructor(session) {
    this.session = session;
    byId("thumb-up").addEventListener("click", () => this.give(1));
    byId("thumb-down").addEventListener("click", () => this.give(-1));
    const exact = slider("reward-slider", (x) => signed(x, 1));
    byId("give").addEventListener("click", () => this.give(exact()));
    byId("skip").addEventListener("click", () => this.skip());
    this.moved = {}; // switches moved just now: {wait: {value, time}, …}
    byId("wait").addEventListener("change", ({ target }) => this.#set("wait", target.checked));
    byId("silence").addEventListener("change", ({ target }) => this.#set("silence", target.value));
  }

  #set(name, value) {
    this.moved[name] = { value, time: performance.now() };
    this.session.send({ do: name, value });
  }

  /** The value that a switch shows: a status sent before it moved does not move it back. */
  #switch(name, status) {
    const moved = this.moved[name];
    return moved && performance.now() - moved.time < OWN_MS ? moved.value : status[name];
  }

  /** Answers for the place shown. @returns {boolean} false if no answer is possible */
  give(value) {
    return answerable(this.session, LATEST, ({ step, sides }) => {
      if (sides[0].reward === null) this.session.send({ do: "give", step, value });
      else toast("This step already has your answer.");
    });
  }

  skip() {
    return answerable(this.session, LATEST, () => this.session.send({ do: "skip", step: this.session.history.newest }));
  }

  show(view) {
    if (view.hidden || !view.frame || view.world.kind === "stage") return;
    const [side] = view.frame.sides;
    const hand = byId("hand");
    const begun = view.step > 0;
    mark(hand, "data-asks", side.asks || !begun);
    mark(hand, "data-waiting", view.status.waiting && view.live);
    write(byId("asks"), question(side, begun));
    write(byId("asks-more"), more(side, begun, view));
    byId("thumb-up").classList.toggle("given", side.reward > 0);
    byId("thumb-down").classList.toggle("given", side.reward !== null && side.reward < 0);
    byId("silence").value = this.#switch("silence", view.status);
    byId("wait").checked = this.#switch("wait", view.status);
  }
}

/** Answers the frame shown, if it is not too late. @returns {boolean} false if there is nobody to answer */
export function answerable({ hidden, history }, latest, answer) {
  if (hidden || history.newest < 0) return false;
  if (history.shown < 1) toast("It has not moved yet. Press play, or take one step.");
  else if (history.newest - history.shown > latest) toast("That was too long ago. Go back to live to answer.");
  else answer(history.at(history.shown));
  return true;
}

function question(side, begun) {
  if (!begun) return "Press play to begin.";
  if (side.reward !== null) return `You said ${signed(side.reward, 1)}.`;
  return side.asks ? "Is it good here?" : "I know this place.";
}

function more(side, begun, view) {
  if (!begun) return "Rate the place it is in, not its last move.";
  if (view.status.waiting && view.live) return "It waits for your answer.";
  return side.asks ? "It is uncertain here: your answer helps." : "No need to answer, but you can.";
}
