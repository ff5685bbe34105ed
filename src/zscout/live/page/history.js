// The frames held, and which of them is looked at.

const MAPS = ["estimate", "doubt", "after", "eigen"];

/** Thousands of lists of numbers: as 32-bit arrays they take a quarter of the room. */
function packed(frame) {
  for (const side of frame.sides) {
    for (const name of MAPS) if (side[name]) side[name] = Float32Array.from(side[name]);
  }
  return frame;
}

export class History {
  constructor() {
    this.most = 1001; // frames: as many as a run may have, which the server says
    this.clear();
  }

  clear() {
    this.frames = [];
    this.first = 0; // the step of frames[0]
    this.pinned = null; // the step looked at; null: the newest
    this.mostDoubt = 1e-9; // fog is drawn on one scale for the whole run, so that one sees it lift
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
      // A hole would draw a path that was never walked: begin again after it.
      this.frames = [];
      this.first = frame.step;
    }
    this.frames[frame.step - this.first] = frame;
    if (this.frames.length > this.most) {
      this.frames.shift();
      this.first += 1;
    }
    for (const side of frame.sides) for (const x of side.doubt) if (x > this.mostDoubt) this.mostDoubt = x;
    this.version += 1;
  }

  look(step) {
    this.pinned = step >= this.newest ? null : Math.max(this.first, step);
  }
}
