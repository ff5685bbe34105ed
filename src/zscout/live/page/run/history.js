// The frames of the run, and which one is shown.

const MAPS = ["estimate", "doubt", "after", "eigen"];
const MOST_GHOSTS = 50;

/** Stores maps as 32-bit arrays: a quarter of the memory. */
function packed(frame) {
  for (const side of frame.sides) {
    for (const name of MAPS) if (side[name]) side[name] = Float32Array.from(side[name]);
  }
  return frame;
}

export class History {
  constructor() {
    this.most = 1001; // frames that are kept; the server sends the number
    this.clear();
  }

  clear() {
    this.frames = [];
    this.ghosts = []; // what each method would keep, and since which step
    this.first = 0; // the step of frames[0]
    this.pinned = null; // the step shown; null: the newest
    this.mostDoubt = 1e-9; // one scale for the whole run, so that fog clears visibly
    this.version = (this.version ?? 0) + 1;
  }

  get newest() {
    return this.frames.length ? this.first + this.frames.length - 1 : -1;
  }

  get shown() {
    return this.pinned === null ? this.newest : Math.min(Math.max(this.pinned, this.first), this.newest);
  }

  get live() {
    return this.pinned === null;
  }

  /** @returns {object | undefined} */
  at(step) {
    return this.frames[step - this.first];
  }

  put(frame) {
    packed(frame);
    if (!this.frames.length) this.first = frame.step;
    const place = frame.step - this.first;
    if (place < 0) return;
    if (place > this.frames.length) {
      // A gap would draw a wrong path: start again after it.
      this.frames = [];
      this.first = frame.step;
    }
    this.frames[frame.step - this.first] = frame;
    if (this.frames.length > this.most) {
      this.frames.shift();
      this.first += 1;
    }
    for (const side of frame.sides) for (const x of side.doubt ?? []) if (x > this.mostDoubt) this.mostDoubt = x;
    this.version += 1;
  }

  /** @param {{side: number, since: number, poses: number[][]}} ghost */
  putGhost(ghost) {
    const others = this.ghosts.filter(({ side, since }) => side !== ghost.side || since !== ghost.since);
    this.ghosts = [...others, ghost].slice(-MOST_GHOSTS);
    this.version += 1;
  }

  look(step) {
    this.pinned = step >= this.newest ? null : Math.max(this.first, step);
  }
}
