// Everything that a drawing needs, collected once per drawing.

import { always } from "../dom.js";
import { ghostAt } from "../draw/ghost.js";
import { continues, wayOf } from "../draw/places.js";
import { UNNOTICED_MS } from "../panels/toasts.js";

const PATH_STEPS = 400;

export class Views {
  constructor(session, brush) {
    this.session = session;
    this.brush = brush;
    this.showReward = true;
    this.known = {}; // values by name, each with the key that it was computed for
    this.showGhost = always.get("ghost") ?? true;
  }

  now() {
    const { session, brush } = this;
    const { history, setup, painted } = session;
    const hidden = session.hidden;
    const step = history.shown;
    const past = hidden && !history.live;
    const values = past ? session.paintings.at(step) : hidden ? painted.values : this.#answers(step);
    return {
      key: session.key,
      connected: session.connected,
      started: session.started,
      away: session.lostAt !== null && performance.now() - session.lostAt > UNNOTICED_MS,
      hello: session.hello,
      limit: (session.hello?.limits.steps ?? 1000) * (session.world?.length ?? 1),
      setup,
      world: session.world,
      status: session.status,
      pace: session.pace ?? session.status.speed,
      hidden,
      frame: history.at(step),
      frames: history.frames,
      step,
      first: history.first,
      newest: history.newest,
      live: history.live,
      version: history.version,
      sides: setup?.methods.length ?? 1,
      mostDoubt: history.mostDoubt,
      values,
      scale: Math.max(1, largest(values)),
      blank: hidden && painted.blank,
      showReward: this.showReward || !hidden,
      tableVersion: hidden && !past ? painted.version : `${history.version}-${session.paintings.version}-${step}`,
      expressed: session.expressed,
      attainable: hidden && history.live ? session.attainable : null, // for the present painting
      truth: hidden && history.live ? session.truth : null, // of the present reward
      constants: session.constants,
      refused: session.refused,
      theme: document.documentElement.dataset.theme,
      looking: brush.looking,
      brush: brush.under,
      fresh: this.showReward ? [] : brush.fresh(),
      cursorStrong: brush.cursor !== null,
      path: (number) => this.#path(number, step),
      showGhost: this.showGhost,
      ghost: (number) => (this.showGhost ? ghostAt(history, number, step, session.constants) : null),
    };
  }

  /** The answers so far, by place, shown instead of a hidden reward. */
  #answers(step) {
    const { history, world } = this.session;
    if (!world || world.kind === "stage") return null;
    return this.#once("answers", step, () => {
      const answered = new Array(world.cells.length).fill(0);
      for (const { step: k, sides: [side] } of history.frames) {
        if (k <= step && side.reward !== null) answered[side.at] = side.reward;
      }
      return answered;
    });
  }

  #path(number, step) {
    const { history, world } = this.session;
    return this.#once(`path ${number}`, step, () => {
      const end = step - history.first + 1;
      const frames = history.frames.slice(Math.max(0, end - (world.horizon ?? PATH_STEPS)), end);
      return frames.flatMap(({ sides }, i) => {
        // No line is drawn to a new start. Of the last way only its ends are drawn: the agent may still be on it.
        const jumped = i > 0 && !continues(frames[i - 1].sides[number], sides[number], world);
        const all = wayOf(sides[number], world);
        const way = i === frames.length - 1 && all.length > 1 ? [all[0], all.at(-1)] : all;
        const later = way.length > 1 && !jumped && i > 0 ? way.slice(1) : way;
        return later.map((at, k) => ({ at, jumped: jumped && k === 0 }));
      });
    });
  }

  /** Computes a value again only if the frames or the step shown changed. */
  #once(name, step, compute) {
    const key = `${this.session.history.version}-${step}`;
    if (this.known[name]?.key !== key) this.known[name] = { key, value: compute() };
    return this.known[name].value;
  }
}

function largest(values) {
  return values ? values.reduce((most, x) => Math.max(most, Math.abs(x)), 0) : 0;
}
