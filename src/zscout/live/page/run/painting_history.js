// Every painting of a run and since which step, so that past steps show the reward of their time.

const MOST = 200; // paintings kept; the oldest go first

export class PaintingHistory {
  constructor() {
    this.clear();
  }

  clear() {
    this.list = []; // [{since, values}] by step: values hold from step since + 1 on
    this.version = (this.version ?? 0) + 1;
  }

  put(since, values) {
    while (this.list.length && this.list.at(-1).since >= since) this.list.pop(); // no step was taken under those
    this.list.push({ since, values });
    if (this.list.length > MOST) this.list.shift();
    this.version += 1;
  }

  /** Restores what this tab stored before a reload. */
  restore(list, places) {
    if (!Array.isArray(list)) return;
    this.clear();
    for (const { since, values } of list.slice(-MOST)) if (values?.length === places) this.put(since, values);
  }

  /** @returns {number[] | null} null: not stored */
  at(step) {
    return this.list.findLast(({ since }) => since < Math.max(1, step))?.values ?? null;
  }
}
