// Every painting of a run and since when it holds, so that looking back shows what was hidden then.

const MOST = 200; // changes of mind held; the oldest go first

export class Paintings {
  constructor() {
    this.clear();
  }

  clear() {
    this.list = []; // [{since, values}] by step: values hold from step since + 1 on
    this.version = (this.version ?? 0) + 1;
  }

  put(since, values) {
    while (this.list.length && this.list.at(-1).since >= since) this.list.pop(); // nothing happened under those
    this.list.push({ since, values });
    if (this.list.length > MOST) this.list.shift();
    this.version += 1;
  }

  /** As this tab kept them over a reload. */
  restore(list, places) {
    if (!Array.isArray(list)) return;
    this.clear();
    for (const { since, values } of list.slice(-MOST)) if (values?.length === places) this.put(since, values);
  }

  /** @returns {number[] | null} null where nobody remembers */
  at(step) {
    return this.list.findLast(({ since }) => since < Math.max(1, step))?.values ?? null;
  }
}
