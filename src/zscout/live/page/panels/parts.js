// The hidden reward of a body: one of its tasks, and a slider for each goal feature.

import { byId, make, mark, show, write } from "../dom.js";

export class Parts {
  /** @param {{painted: object, toLive: () => void, stroked: () => void}} outside */
  constructor({ painted, toLive, stroked }) {
    Object.assign(this, { painted, toLive, stroked });
    this.buttons = [];
    this.sliders = [];
  }

  show(view) {
    const { world, values } = view;
    if (world.kind !== "stage") return;
    if (this.world !== world.name) this.#build(world);
    if (!view.hidden || !values) return;
    const now = view.showReward ? values : values.map(() => 0);
    this.buttons.forEach((button, i) => {
      mark(button, "aria-pressed", now[i] !== 0);
      if (now[i] !== 0) button.closest("details")?.setAttribute("open", "");
    });
    this.sliders.forEach(({ input, output, name }, i) => {
      const value = now[world.tasks.length + i];
      const { title, low, high } = world.goals[i];
      const word = value < 0 ? low : high;
      if (Number(input.value) !== value) input.value = value;
      write(name, value === 0 ? title : word[0].toUpperCase() + word.slice(1));
      write(output, value === 0 ? "any" : Math.abs(value).toFixed(1));
      mark(input, "aria-valuetext", value === 0 ? "any" : `${word} ${Math.abs(value).toFixed(1)}`);
      mark(input, "aria-label", title);
    });
  }

  #build(world) {
    this.world = world.name;
    this.buttons = world.tasks.map(({ name, title }, i) => {
      const button = make("button", title, "task");
      button.type = "button";
      button.dataset.task = name;
      button.setAttribute("aria-pressed", "false");
      button.addEventListener("click", () => this.#choose(i));
      return button;
    });
    const some = (preset) => this.buttons.filter((_, i) => world.tasks[i].preset === preset);
    byId("tasks").replaceChildren(...some(true));
    byId("other-tasks").replaceChildren(...some(false));
    this.sliders = world.goals.map((goal, i) => this.#slider(goal, world.tasks.length + i));
    byId("wishes").replaceChildren(...this.sliders.map(({ field }) => field));
  }

  #slider(goal, entry) {
    const field = make("div", "", "field");
    const label = make("label");
    const name = make("span", goal.title);
    const output = make("output", "any");
    const input = make("input");
    Object.assign(input, { type: "range", id: `wish-${goal.name}`, min: -1, max: 1, step: 0.1, value: 0 });
    label.htmlFor = input.id;
    label.append(name, output);
    input.addEventListener("input", () => this.#set([[[entry], Math.round(10 * Number(input.value)) / 10 || 0]]));
    field.append(label, input);
    return { field, input, output, name };
  }

  /** One task at a time; pressing it again takes it away. */
  #choose(which) {
    const { values } = this.painted;
    if (!values) return;
    const others = this.buttons.map((_, i) => i).filter((i) => i !== which && values[i] !== 0);
    this.#set([...(others.length ? [[others, 0]] : []), [[which], values[which] ? 0 : 1]]);
  }

  #set(changes) {
    this.toLive();
    let changed = false;
    for (const [entries, value] of changes) changed = this.painted.paint(entries, value) || changed;
    if (changed) this.stroked();
  }
}

/** What differs in words and in visible controls between maps and stages. */
export function arrangeHand({ world, hidden }) {
  const stage = world.kind === "stage";
  write(byId("hand-title"), stage ? "Hide what you like" : "Paint what you like");
  const lead = stage
    ? "The agent cannot see your choice. It only gets a reward for each step of the body."
    : "The agent cannot see your painting. It only gets a reward for the place it enters.";
  write(byId("hand-lead"), lead);
  write(byId("about-link"), stage ? "Set-up and hidden reward" : "Set-up and painting");
  show(byId("export-gif"), stage);
}
