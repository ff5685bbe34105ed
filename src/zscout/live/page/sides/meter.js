// Drawings and steps in the last second, for measurements.

export class Meter {
  constructor() {
    this.draws = [];
    this.steps = [];
    this.before = 0;
  }

  drawn(now, received) {
    this.draws.push(now);
    for (; this.before < received; this.before++) this.steps.push(now);
    this.#report(now);
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.#report(performance.now()), 1050); // back to zero when nothing moves
  }

  #report(now) {
    const { dataset } = document.documentElement;
    for (const [name, times] of [["fps", this.draws], ["steps", this.steps]]) {
      while (times.length && times[0] < now - 1000) times.shift();
      const text = String(times.length);
      if (dataset[name] !== text) dataset[name] = text;
    }
  }
}
