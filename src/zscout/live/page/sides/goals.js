// What seems to pay, as bars: how the expected reward goes with each goal feature.

import { make, mark, show, signed, write } from "../dom.js";

export class GoalBars {
  /** @param {HTMLElement} element the panel of one method */
  constructor(element) {
    this.element = element;
    this.list = element.querySelector(".bars");
    this.rows = [];
  }

  /** @param {{world: object, hidden: boolean, showReward: boolean, truth: number[] | null}} view */
  draw(view, frame) {
    const { goals } = view.world;
    if (this.world !== view.world.name) this.#build(view.world);
    const person = !view.hidden;
    const known = frame.pays.some((r) => r);
    const title = person ? "You seem to like" : "What seems to pay";
    write(this.element.querySelector("h3"), title);
    write(this.element.querySelector(".likes-text"), known ? frame.likes || "nothing in particular" : "nothing yet");
    write(this.element.querySelector(".left"), frame.knows);
    const truth = view.hidden && view.showReward ? view.truth : null;
    goals.forEach((goal, i) => {
      const row = this.rows[i];
      place(row.estimate, frame.pays[i]);
      mark(row.estimate, "data-sign", frame.pays[i] < 0 ? "bad" : "good");
      show(row.tried, frame.goal !== null);
      if (frame.goal) point(row.tried, frame.goal[i]);
      show(row.truth, truth !== null);
      if (truth) point(row.truth, truth[i]);
      write(row.value, signed(frame.pays[i], 1));
    });
    show(this.element.querySelector(".key-truth"), truth !== null);
  }

  #build(world) {
    this.world = world.name;
    this.rows = world.goals.map((goal) => {
      const row = make("li");
      const bar = make("div", "", "bar");
      const [estimate, tried, truth] = ["level", "tried", "truth"].map((name) => make("i", "", name));
      bar.append(estimate, tried, truth);
      bar.setAttribute("aria-hidden", "true");
      const value = make("span", "", "value");
      row.append(make("span", goal.title, "unseen"), make("small", goal.low, "low"), bar, make("small", goal.high, "high"), value);
      return { element: row, estimate, tried, truth, value };
    });
    this.list.replaceChildren(...this.rows.map(({ element }) => element));
  }
}

/** A bar from the middle. */
function place(bar, r) {
  bar.style.left = `${50 + 50 * Math.min(0, r)}%`;
  bar.style.width = `${50 * Math.abs(r)}%`;
}

function point(sign, r) {
  sign.style.left = `${50 + 50 * r}%`;
}
