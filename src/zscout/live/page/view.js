// What is to be seen, gathered once for each drawing from what is known.

import { UNNOTICED_MS } from "./toasts.js";

const PATH_STEPS = 400;

export class Views {
  constructor(session, painting) {
    this.session = session;
    this.painting = painting;
    this.showReward = true;
  }

  now() {
    const { session, painting } = this;
    const { history, setup, table } = session;
    const hidden = session.hidden;
    const step = history.shown;
    const past = hidden && !history.live;
    const values = past ? session.paintings.at(step) : hidden ? table.values : this.#answers(step);
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
      blank: hidden && table.blank,
      showReward: this.showReward || !hidden,
      tableVersion: hidden && !past ? table.version : `${history.version}-${session.paintings.version}-${step}`,
      expressed: session.expressed,
      attainable: hidden && history.live ? session.attainable : null, // of the painting as it is now
      refused: session.refused,
      theme: document.documentElement.dataset.theme,
      looking: painting.looking,
      brush: painting.under,
      fresh: this.showReward ? [] : painting.fresh(),
      cursorStrong: painting.cursor !== null,
      path: (number) => this.#path(number, step),
    };
  }

  /** In place of a hidden reward: what you have said so far, place by place. */
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
      // Put back to its start, it did not walk there.
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
