// The brush: painting with mouse, touch or keyboard.

import { byId, mark, plain, show, signed, slider, write } from "../dom.js";
import { cellOf } from "../draw/places.js";

const ARROWS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
const KINDS = { good: 1, bad: -1, erase: 0 };
const FRESH_MS = 1200;

export class Brush {
  /**
   * @param {{painted: object, changed: () => void, enabled: () => boolean, toLive: () => void, stroked: () => void}} outside
   */
  constructor(outside) {
    this.outside = outside;
    this.kind = "good";
    this.size = 1; // which of the world's three sizes
    this.looking = null; // the place under the pointer or the cursor
    this.under = []; // the places that the brush would paint
    this.cursor = null; // [row, column] of the keyboard cursor
    this.dabs = new Map(); // state → {value, time}: just painted
    for (const kind of Object.keys(KINDS)) byId(`brush-${kind}`).addEventListener("click", () => this.choose(kind));
    this.sizes = [...document.querySelectorAll("[data-size]")];
    for (const button of this.sizes) button.addEventListener("click", () => this.#resize(Number(button.dataset.size)));
    this.strength = slider("strength", (x) => x.toFixed(1));
  }

  /** A new run: in another world the places under the brush are others. */
  begun(world) {
    this.dabs.clear();
    if (world !== this.world) [this.looking, this.under, this.cursor] = [null, [], null];
    this.world = world;
  }

  choose(kind) {
    this.kind = kind;
    for (const other of Object.keys(KINDS)) mark(byId(`brush-${other}`), "aria-pressed", other === kind);
  }

  #resize(size) {
    this.size = size;
    for (const button of this.sizes) mark(button, "aria-pressed", Number(button.dataset.size) === size);
  }

  get value() {
    return KINDS[this.kind] * this.strength() || 0; // no −0
  }

  attach(side) {
    const { canvas } = side;
    const on = (name, act) => canvas.addEventListener(name, (event) => side.view?.world.kind === "map" && act(event, side));
    on("pointerdown", (event) => this.#down(event, side));
    on("pointermove", (event) => this.#move(event, side));
    on("pointerup", () => this.#up());
    on("pointercancel", () => this.#up());
    on("pointerleave", () => this.#leave());
    on("keydown", (event) => this.#key(event, side));
    on("blur", () => ((this.cursor = null), this.#leave()));
    on("focus", () => canvas.matches(":focus-visible") && this.#moveCursor(side, 0, 0));
  }

  /** Sets role, label and tab order: the map is a control only if it can be painted. */
  describe(canvas, world, hidden) {
    if (world.kind === "stage") {
      mark(canvas, "role", "img"); // with a label that says what the body does
      return canvas.removeAttribute("tabindex");
    }
    const paintable = hidden;
    mark(canvas, "role", paintable ? "application" : "img");
    const use = paintable ? " Arrow keys move, Enter or Space paints." : "";
    const [rows, columns] = cellOf(world, [world.rows - 1, world.columns - 1]);
    mark(canvas, "aria-label", `Map of ${world.title}, ${rows} rows, ${columns} columns.${use}`);
    if (paintable) mark(canvas, "tabindex", 0);
    else canvas.removeAttribute("tabindex");
    for (const button of this.sizes) {
      const cells = world.brush[button.dataset.size - 1];
      write(button, String(cells));
      mark(button, "aria-label", cells === 1 ? "1 cell" : `${cells} cells`);
    }
  }

  #point(event, side) {
    const box = side.canvas.getBoundingClientRect();
    return side.grid.place(event.clientX - box.left, event.clientY - box.top);
  }

  #down(event, side) {
    if (!this.outside.enabled() || event.button !== 0 || !event.isPrimary) return;
    side.canvas.setPointerCapture(event.pointerId);
    this.last = this.#point(event, side);
    this.#dab(side, this.last);
  }

  #move(event, side) {
    if (!event.isPrimary) return;
    const place = this.#point(event, side);
    this.#hover(side, place);
    if (!this.last) return;
    const points = event.getCoalescedEvents?.().map((e) => this.#point(e, side)) ?? [];
    for (const next of [...points, place]) this.#line(side, next);
  }

  /** Paints every place between two pointer events. */
  #line(side, to) {
    const [row, column] = this.last;
    const pieces = Math.max(1, Math.ceil(3 * Math.max(Math.abs(to[0] - row), Math.abs(to[1] - column))));
    for (let i = 1; i <= pieces; i++) {
      this.#dab(side, [row + ((to[0] - row) * i) / pieces, column + ((to[1] - column) * i) / pieces]);
    }
    this.last = to;
  }

  #up() {
    this.last = null;
  }

  #leave() {
    this.looking = null;
    this.under = [];
    this.outside.changed();
  }

  #hover(side, place) {
    const state = side.grid.stateAt(Math.floor(place[0]), Math.floor(place[1]));
    this.looking = state < 0 ? null : state;
    this.under = this.outside.enabled() ? this.#covered(side, place) : [];
    this.outside.changed();
  }

  #covered(side, [row, column]) {
    const { brush, per_cell } = side.view.world;
    const size = brush[this.size - 1] * per_cell;
    const top = Math.floor(row - (size - 1) / 2);
    const left = Math.floor(column - (size - 1) / 2);
    const states = [];
    for (let r = top; r < top + size; r++) {
      for (let c = left; c < left + size; c++) {
        const state = side.grid.stateAt(r, c);
        if (state >= 0) states.push(state);
      }
    }
    return states;
  }

  #dab(side, place) {
    this.outside.toLive(); // only the present can be painted
    const states = this.#covered(side, place);
    const time = performance.now();
    for (const state of states) this.dabs.set(state, { value: this.value, time });
    if (this.outside.painted.paint(states, this.value)) this.outside.stroked();
    this.outside.changed();
  }

  /** Places painted just now. @returns {{state: number, value: number, left: number}[]} left: 1 … 0 */
  fresh() {
    const now = performance.now();
    for (const [state, { time }] of this.dabs) if (now - time > FRESH_MS) this.dabs.delete(state);
    return [...this.dabs].map(([state, { value, time }]) => ({ state, value, left: 1 - (now - time) / FRESH_MS }));
  }

  #key(event, side) {
    if (!this.outside.enabled() || event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.key in ARROWS) this.#moveCursor(side, ...ARROWS[event.key]);
    else if (event.key === "Enter" || event.key === " ") {
      this.cursor ?? this.#moveCursor(side, 0, 0);
      this.#dab(side, this.#middle(side));
      this.#announce(side, "painted ", this.outside.painted.values);
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }

  #moveCursor(side, down, right) {
    const { world, frame } = side.view;
    const per = world.per_cell;
    const [row, column] = this.cursor ?? world.cells[frame.sides[side.number].at].map((x) => x - (x % per));
    const within = (x, most) => Math.max(0, Math.min(most - per, x));
    this.cursor = [within(row + down * per, world.rows), within(column + right * per, world.columns)];
    this.#hover(side, this.#middle(side));
    this.#announce(side, "", side.view.values);
  }

  /** The middle of the cell at the cursor. */
  #middle(side) {
    return this.cursor.map((x) => x + side.view.world.per_cell / 2);
  }

  #announce(side, before, values) {
    const [row, column] = cellOf(side.view.world, this.cursor);
    const state = side.grid.stateAt(...this.cursor);
    const what = state < 0 ? "wall" : signed(values?.[state] ?? 0, 1);
    write(byId("announce"), `${before}row ${row}, column ${column}: ${what}`);
  }
}

/** Shows how much of the painting the features can express, if it is little. */
export function showExpressed({ hidden, expressed, world }) {
  const partly = hidden && expressed !== null && expressed < 0.5;
  show(byId("expressed"), partly);
  if (!partly) return;
  const percent = Math.round(100 * Math.max(0, expressed));
  const what = world.kind === "stage" ? "this reward: it may find only a part" : "your painting: it may miss small patches";
  write(byId("expressed"), `These features can express only ${percent} % of ${what}.`);
}

/** Shows the largest mean reward per step, if it is less than the largest reward: only a move into a wall stays in place. */
export function showAttainable({ hidden, values, attainable }) {
  const most = values && hidden ? values.reduce((a, b) => Math.max(a, b), -Infinity) : 0;
  const less = hidden && attainable !== null && most > attainable + 0.005;
  show(byId("attainable"), less);
  if (!less) return;
  const text = `It cannot stand still except at a wall, so the best it can collect is ${plain(attainable)} a step, not ${plain(most)}.`;
  write(byId("attainable"), text);
}
