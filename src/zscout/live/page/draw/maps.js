// Draws a world: its places, signs and path. No state.

import { currentInk, diverging, fog } from "./colours.js";
import { agentDot, minus, plus, ring, segment, star } from "./marks.js";

const STRANDS = 8; // pieces of the recent path, from faint to strong
const STRAND_STEPS = 5;

/** Places of a world on a rectangle: cell (r, c) is centred at ((c + ½) width / columns, (r + ½) height / rows). */
export class Grid {
  constructor(world, width, height) {
    this.world = world;
    this.width = width;
    this.height = height;
    this.w = width / world.columns;
    this.h = height / world.rows;
    this.size = Math.min(this.w, this.h);
    this.cell = this.size * world.per_cell; // of the map; a place may be a part of it
  }

  centre(state) {
    return this.point(this.world.cells[state]);
  }

  /** Where a row and column are, with fractions; the centre of a place has whole numbers. */
  point([row, column]) {
    return [(column + 0.5) * this.w, (row + 0.5) * this.h];
  }

  /** @returns {[number, number]} row and column with fractions, for the brush */
  place(x, y) {
    return [y / this.h, x / this.w];
  }

  stateAt(row, column) {
    const { rows, columns, index } = this.world;
    return row < 0 || column < 0 || row >= rows || column >= columns ? -1 : index[row * columns + column];
  }
}

/** Floor, walls and one colour for each place. */
function tiles(ctx, grid, colour) {
  const ink = currentInk();
  const { rows, columns, index, per_cell } = grid.world;
  ctx.fillStyle = ink.grid;
  ctx.fillRect(0, 0, grid.width, grid.height);
  const gap = per_cell > 1 ? -1 : grid.size > 24 ? 1 : 0.5; // parts of a cell have no line between them
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) {
      const state = index[row * columns + column];
      const [x, y] = [column * grid.w, row * grid.h];
      ctx.fillStyle = state < 0 ? ink.wall : colour(state);
      if (state < 0) ctx.fillRect(x - 0.3, y - 0.3, grid.w + 0.6, grid.h + 0.6);
      else ctx.fillRect(x + gap / 2, y + gap / 2, grid.w - gap, grid.h - gap);
    }
  }
}

/** The reward as painted. */
export function drawReward(ctx, grid, values, scale) {
  tiles(ctx, grid, (state) => (values ? diverging(values[state], scale) : currentInk().floor));
}

/** A sign in each painted place, for people who cannot tell the colours apart; a star in the best ones. */
export function drawSigns(ctx, grid, values, scale, starred) {
  if (!values) return;
  const most = values.reduce((a, b) => Math.max(a, b), 0);
  values.forEach((value, state) => {
    const depth = Math.abs(value) / scale;
    if (depth < 0.1) return;
    const [x, y] = grid.centre(state);
    const dark = depth > 0.55;
    const colour = dark ? currentInk().floor : currentInk().ink;
    if (starred && value === most && most > 0) star(ctx, x, y, grid.size * 0.24, colour);
    else (value > 0 ? plus : minus)(ctx, x, y, grid.size * (0.07 + 0.07 * depth), colour, dark ? 0.85 : 0.5);
  });
}

/** Shows a freshly painted place for a moment while the reward is not shown. */
export function drawFlash(ctx, grid, state, value, scale, left) {
  const ink = currentInk();
  const [x, y] = grid.centre(state);
  ctx.save();
  ctx.globalAlpha = left;
  ctx.fillStyle = value ? diverging(value, scale) : ink.line;
  ctx.fillRect(x - grid.w / 2 + 0.5, y - grid.h / 2 + 0.5, grid.w - 1, grid.h - 1);
  ctx.restore();
  if (value) (value > 0 ? plus : minus)(ctx, x, y, grid.size * 0.12, ink.floor, left);
}

/** A small map of signed numbers, with a mark where `best` is. */
export function drawSigned(ctx, grid, values, scale, best, at) {
  const ink = currentInk();
  tiles(ctx, grid, (state) => (values ? diverging(values[state], scale) : ink.floor));
  values?.forEach((value, state) => {
    if (value > -0.15 * scale || grid.size < 8) return;
    const [x, y] = grid.centre(state);
    minus(ctx, x, y, grid.size * 0.13, ink.ink, 0.55);
  });
  if (at !== null) smallAgent(ctx, grid, at);
  if (values && best !== null) bestMark(ctx, grid, best);
}

export function drawFog(ctx, grid, values, scale, at) {
  tiles(ctx, grid, (state) => fog(values[state], scale));
  if (at !== null) smallAgent(ctx, grid, at);
}

function bestMark(ctx, grid, state) {
  const ink = currentInk();
  const [x, y] = grid.centre(state);
  star(ctx, x, y, grid.cell * 0.52, ink.floor);
  star(ctx, x, y, grid.cell * 0.36, ink.ink);
}

function smallAgent(ctx, grid, state) {
  const [x, y] = grid.centre(state);
  agentDot(ctx, x, y, grid.cell * 0.3, currentInk());
}

/** The path to the agent: its last part strong, the rest faint. */
export function drawPath(ctx, grid, way, tip) {
  const points = way.map(({ at, jumped }, i) => ({ at: i === way.length - 1 ? tip : grid.point(at), jumped }));
  const strongFrom = Math.max(0, points.length - 1 - STRANDS * STRAND_STEPS);
  ctx.save();
  ctx.strokeStyle = currentInk().ink;
  ctx.lineJoin = "round";
  strand(ctx, points.slice(0, strongFrom + 1), 0.12, grid.cell * 0.05);
  // Few pieces, each drawn at once: single steps would overlap and look darker.
  for (let from = strongFrom; from < points.length - 1; from += STRAND_STEPS) {
    const fresh = 1 - (points.length - 1 - from) / (STRANDS * STRAND_STEPS);
    strand(ctx, points.slice(from, from + STRAND_STEPS + 1), 0.18 + 0.5 * fresh, grid.cell * (0.045 + 0.03 * fresh));
  }
  ctx.restore();
}

function strand(ctx, points, alpha, width) {
  ctx.globalAlpha = alpha;
  ctx.lineWidth = Math.max(1, width);
  ctx.beginPath();
  points.forEach(({ at: [x, y], jumped }, i) => (i === 0 || jumped ? ctx.moveTo(x, y) : ctx.lineTo(x, y)));
  ctx.stroke();
}

export function drawHeading(ctx, grid, [x, y], heading) {
  const ink = currentInk();
  const [hx, hy] = grid.centre(heading);
  const far = Math.hypot(hx - x, hy - y);
  ring(ctx, hx, hy, grid.cell * 0.36, ink.floor, Math.max(3.5, grid.cell * 0.09));
  ring(ctx, hx, hy, grid.cell * 0.36, ink.ink, Math.max(1.5, grid.cell * 0.035));
  if (far < grid.cell * 0.8) return;
  ctx.save();
  ctx.strokeStyle = ink.ink;
  ctx.globalAlpha = 0.42;
  ctx.lineWidth = Math.max(1, grid.cell * 0.025);
  ctx.setLineDash([grid.cell * 0.09, grid.cell * 0.12]);
  const [ux, uy] = [(hx - x) / far, (hy - y) / far];
  const [from, to] = [grid.cell * 0.36, grid.cell * 0.38];
  segment(ctx, x + ux * from, y + uy * from, hx - ux * to, hy - uy * to);
  ctx.restore();
}

/** Outlines places: under the brush, the keyboard cursor or the pointer. */
export function drawOutline(ctx, grid, states, strong) {
  const ink = currentInk();
  ctx.save();
  for (const [width, colour] of strong ? [[4.5, ink.floor], [2.2, ink.ink]] : [[1.2, ink.ink]]) {
    ctx.lineWidth = width;
    ctx.strokeStyle = colour;
    for (const state of states) {
      const [x, y] = grid.centre(state);
      ctx.strokeRect(x - grid.w / 2 + 1.5, y - grid.h / 2 + 1.5, grid.w - 3, grid.h - 3);
    }
  }
  ctx.restore();
}

export function drawAgent(ctx, grid, [x, y], pulse) {
  const ink = currentInk();
  if (pulse) {
    ctx.globalAlpha = 1 - pulse.phase;
    ring(ctx, x, y, grid.cell * (0.3 + 0.32 * pulse.phase), pulse.value < 0 ? ink.bad : ink.good, grid.cell * 0.07);
    ctx.globalAlpha = 1;
  }
  agentDot(ctx, x, y, grid.cell * 0.24, ink);
}
