// Draws a body from the side: capsules, a camera that follows, and ground with a mark every metre.

import { currentInk, fog } from "./colours.js";
import { calm } from "../dom.js";
import { segment } from "./marks.js";

const BELOW = 0.17; // of the height above the ground, shown below it
const EASE_MS = 220; // how fast the camera follows
const LABEL = 44; // pixels that the words at a mark need
const JUMP = 2; // metres: further is a new start

/** The middle of the first capsule, the torso. */
export const torsoAt = (ends) => (ends[0] + ends[2]) / 2;

/** The body between two steps, and the camera. */
export class StageMotion {
  constructor() {
    this.camera = null;
  }

  /** Starts the move to a new frame; `glides`: it follows the one before in the same episode. */
  aim({ ends, glides, pace, now }) {
    const moves = glides && this.ends && this.ends.length === ends.length && !calm();
    this.from = moves ? this.ends : ends;
    this.to = ends;
    this.began = now;
    this.lasts = moves ? Math.min(500, 1000 / pace) : 0;
  }

  /** @returns {{ends: number[], camera: number, moving: boolean}} */
  at(now) {
    const t = this.lasts ? Math.min(1, Math.max(0, (now - this.began) / this.lasts)) : 1;
    this.ends = t < 1 ? this.from.map((a, i) => a + (this.to[i] - a) * t) : this.to;
    const x = torsoAt(this.ends);
    const since = now - (this.last ?? now);
    this.last = now;
    const far = this.camera === null || Math.abs(x - this.camera) > JUMP || calm();
    this.camera = far ? x : this.camera + (x - this.camera) * (1 - Math.exp(-since / EASE_MS));
    const moving = t < 1 || Math.abs(x - this.camera) > 0.005;
    if (!moving) this.last = null; // the next drawing is not late
    return { ends: this.ends, camera: this.camera, moving };
  }
}

/** @param {{ends: number[], camera: number, radii: number[], far: boolean[], above: number, colour?: string,
 *   ghost?: {ends: number[], strength: number} | null}} scene
 *   in metres; the limbs on the far side are drawn first, and paler */
export function drawStage(ctx, width, height, { ends, camera, radii, far, above, colour, ghost }) {
  const ink = currentInk();
  const ground = height / (1 + BELOW);
  const metre = ground / above;
  const x = (m) => width / 2 + (m - camera) * metre;
  const y = (m) => ground - m * metre;
  ctx.fillStyle = ink.floor;
  ctx.fillRect(0, 0, width, height);
  drawGround(ctx, width, height, { camera, metre, ground, x });
  const body = (poses, away, near) => drawBody(ctx, poses, { radii, far, metre, x, y }, away, near);
  if (ghost) body(ghost.ends, fog(0.22 * ghost.strength, 1), fog(0.34 * ghost.strength, 1));
  body(ends, ink.soft, colour ?? ink.ink);
}

/** Capsules with an outline, in one colour for the limbs on the far side and another for the rest. */
function drawBody(ctx, ends, { radii, far, metre, x, y }, away, near) {
  const sides = [[true, away], [false, near]];
  ctx.lineCap = "round";
  for (const [side, wider, stroke] of sides.flatMap(([side, stroke]) => [[side, 2.5, currentInk().floor], [side, 0, stroke]])) {
    ctx.strokeStyle = stroke;
    radii.forEach((radius, i) => {
      if (far[i] !== side) return;
      const [x0, z0, x1, z1] = ends.slice(4 * i, 4 * i + 4);
      ctx.lineWidth = 2 * radius * metre + wider;
      segment(ctx, x(x0), y(z0), x(x1), y(z1));
    });
  }
  ctx.lineCap = "butt";
}

function drawGround(ctx, width, height, { camera, metre, ground, x }) {
  const ink = currentInk();
  const reach = width / 2 / metre;
  ctx.strokeStyle = ink.grid;
  ctx.lineWidth = 1;
  ctx.fillStyle = ink.grid;
  ctx.fillRect(0, ground, width, height - ground);
  ctx.font = `12px ${ink.font}`;
  ctx.textAlign = "center";
  ctx.textBaseline = "middle";
  for (let half = Math.ceil(2 * (camera - reach)); half <= 2 * (camera + reach); half++) {
    const at = x(half / 2);
    const whole = half % 2 === 0;
    if (whole) line(ctx, at, 0, at, ground, ink.grid);
    line(ctx, at, ground, at, ground + (whole ? 7 : 4), ink.soft);
    ctx.fillStyle = ink.soft;
    const inside = Math.min(at, width - at) > LABEL / 2;
    if (whole && inside) ctx.fillText(`${half / 2} m`.replace("-", "−"), at, ground + (height - ground) * 0.62);
  }
  line(ctx, 0, ground, width, ground, ink.soft);
}

function line(ctx, x0, y0, x1, y1, colour) {
  ctx.strokeStyle = colour;
  ctx.lineWidth = 1.2;
  segment(ctx, x0, y0, x1, y1);
}
