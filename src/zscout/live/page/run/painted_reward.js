// The painted reward: shown at once, sent in small batches, kept while the connection is lost.

const BATCH_MS = 50; // 20 messages a second
const OWN_MS = 1000; // a cell painted within this time overrides what the server sends

const rounded = (x) => Math.round(x * 1000) / 1000;

export class PaintedReward {
  /** @param {{send: (m: object) => boolean, changed: () => void}} outside */
  constructor({ send, changed }) {
    this.send = send;
    this.changed = changed;
    this.values = null;
    this.version = 0;
    this.kept = new Map(); // world → its painting, for when the person returns to that world
    this.#forgetStrokes();
  }

  #forgetStrokes() {
    this.waiting = []; // [{value, cells: Set}] in the order painted
    this.sent = new Map(); // state → {value, time}: on its way
    this.asked = null; // the random task whose table has not come yet
  }

  /** A new run: takes the reward from the server. */
  begin(world, values) {
    this.world = world;
    this.values = values ? [...values] : null;
    this.task = null;
    this.#forgetStrokes();
    this.#changed();
  }

  /** The same run after a lost connection: paints what was painted meanwhile on top. */
  resume(world, values) {
    const strokes = [...[...this.sent].map(([state, { value }]) => ({ value, cells: new Set([state]) })), ...this.waiting];
    this.begin(world, values);
    if (!this.values) return;
    for (const { value, cells } of strokes) this.paint([...cells], value);
  }

  /** Takes the server's reward, except for cells painted since. */
  confirm(values) {
    this.asked = null;
    const next = [...values];
    const now = performance.now();
    for (const [state, { value, time }] of this.sent) {
      if (Math.abs(next[state] - value) < 1e-6 || now - time > OWN_MS) this.sent.delete(state);
      else next[state] = value;
    }
    for (const { value, cells } of this.waiting) for (const state of cells) next[state] = value;
    this.values = next;
    this.#changed();
  }

  paint(states, value) {
    if (!this.values) return false;
    const fresh = states.filter((state) => this.values[state] !== value);
    if (!fresh.length) return false;
    for (const state of fresh) this.values[state] = value;
    this.task = null;
    const last = this.waiting.at(-1);
    if (last?.value === value) fresh.forEach((state) => last.cells.add(state));
    else this.waiting.push({ value, cells: new Set(fresh) });
    this.timer ??= setInterval(() => this.#flush(), BATCH_MS);
    this.#changed();
    return true;
  }

  /** @returns {(() => void) | null} undoes it; null: there was nothing to clear */
  clear() {
    if (this.blank) return null;
    const before = { world: this.world, values: [...this.values], task: this.task };
    this.task = null;
    this.#forgetStrokes();
    if (this.send({ do: "clear" })) {
      this.values.fill(0);
      this.#changed();
    } else this.paint(this.values.map((_, state) => state), 0);
    return () => this.#bring(before);
  }

  /** Restores a painting; what was painted since stays where it was empty. */
  #bring({ world, values, task }) {
    if (world !== this.world || !this.values) return;
    if (task !== null && this.blank && this.draw(task)) return; // one message instead of one per value
    const places = new Map();
    values.forEach((value, state) => value && places.set(value, [...(places.get(value) ?? []), state]));
    for (const [value, states] of places) this.paint(states, value);
  }

  /** Requests a random task. @returns {boolean} whether it was sent */
  draw(number) {
    if (!this.send({ do: "task", number })) return false;
    this.#forgetStrokes();
    this.task = this.asked = number; // the task until something is painted over it
    return true;
  }

  /** @returns {number[] | null} the painting of a world; null: nothing painted */
  tableFor(world) {
    const values = world === this.world ? this.values ?? this.kept.get(world) : this.kept.get(world);
    return values?.some((x) => x) ? values.map(rounded) : null;
  }

  /** @returns {object | null} the reward of a world for `begin` */
  rewardFor(world) {
    if (world === this.world && this.asked !== null) return { task: this.asked };
    const table = this.tableFor(world);
    return table && { table };
  }

  get blank() {
    return this.asked === null && !this.values?.some((x) => x);
  }

  /** The number of cells that the server has not confirmed. */
  get unsent() {
    return this.sent.size + this.waiting.reduce((sum, { cells }) => sum + cells.size, 0);
  }

  #flush() {
    const [next] = this.waiting;
    if (!next) {
      clearInterval(this.timer);
      this.timer = null;
      return;
    }
    if (!this.send({ do: "paint", cells: [...next.cells], value: next.value })) return; // offline: keep it
    this.waiting.shift();
    const time = performance.now();
    for (const state of next.cells) this.sent.set(state, { value: next.value, time });
  }

  #changed() {
    this.version += 1;
    if (this.values) this.kept.set(this.world, this.values);
    this.changed();
  }
}
