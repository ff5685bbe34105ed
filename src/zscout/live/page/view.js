// Everything that a drawing needs, collected once per drawing.

import { UNNOTICED_MS } from "./toasts.js";

const PATH_STEPS = 400;

export class Views {
  constructor(session, brush) {
    this.session = session;
    this.brush = brush;
    this.showReward = true;
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
      limit: session.hello?.limits.steps ?? 1000,
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
      refused: session.refused,
      theme: document.documentElement.dataset.theme,
      looking: brush.looking,
      brush: brush.under,
      fresh: this.showReward ? [] : brush.fresh(),
      cursorStrong: brush.cursor !== null,
      path: (number) => this.#path(number, step),
    };
  }

  /** The answers so far, by place, shown instead of a hidden reward. */
  #answers(step) {
    const { history, world } = this.session;
    if (!world) return null;
    const key = `${history.version}-${step}`;
    if (this.answersKey !== key) {
      this.answersKey = key;
      this.answered = new Array(world.cells.length).fill(0);
      for (const { step: k, sides: [side] } of history.frames) {
        if (k <= step && side.reward !== null) this.answered[side.at] = side.reward;
      }
    }
    return this.answered;
  }

  #path(number, step) {
    const { history } = this.session;
    const key = `${history.version}-${step}-${number}`;
    this.paths ??= [];
    if (this.paths[number]?.key !== key) {
      const end = step - history.first + 1;
      const frames = history.frames.slice(Math.max(0, end - PATH_STEPS), end);
      // A method may be reset to its start: no line is drawn there.
      const steps = frames.map(({ sides }, i) => {
        const { at, from } = sides[number];
        return { at, jumped: i > 0 && from !== frames[i - 1].sides[number].at };
      });
      this.paths[number] = { key, steps };
    }
    return this.paths[number].steps;
  }
}

function largest(values) {
  return values ? values.reduce((most, x) => Math.max(most, Math.abs(x)), 0) : 0;
}
