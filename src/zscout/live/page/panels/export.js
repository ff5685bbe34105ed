// Exports: a picture, every step, a link.

import { currentInk } from "../draw/colours.js";
import { curvesFor, drawCurve } from "../sides/curves.js";
import { Panel, byId, make, mark, show, signed } from "../dom.js";
import { Grid, drawReward, drawSigns } from "../draw/maps.js";
import { wayOf } from "../draw/places.js";
import { LENSES, paintScene } from "../sides/side.js";
import { paintStage, stageAnimation } from "../draw/stage_export.js";
import { toast } from "./toasts.js";

const MARGIN = 48;
const WORLD = 640;
const BARS = 230; // width, beside a body
const LABEL = 26; // above each small map
const GAP = 32;
const RATIO = 2; // pixels per unit of the picture

export class Export extends Panel {
  constructor(session, view) {
    super("export-menu");
    this.button = byId("export-open");
    this.button.addEventListener("click", () => this.open(!this.isOpen));
    addEventListener("pointerdown", (event) => event.target.closest("#export-menu, #export-open") || this.open(false));
    const choose = (id, act) => byId(id).addEventListener("click", () => (this.open(false), act()));
    choose("export-json", () => session.send({ do: "export" }) || toast("Not connected right now."));
    choose("export-png", () => view().frame && savePicture(view()));
    choose("export-gif", () => saveAnimation(view()));
    choose("export-link", () => session.setup && copyLink(`${location.origin}/#${session.link}`));
  }

  open(visible) {
    show(this.panel, visible);
    mark(this.button, "aria-expanded", visible);
  }
}

export function saveSteps({ name, content }) {
  save(new Blob([JSON.stringify(content)], { type: "application/json" }), String(name));
}

function saveAnimation(view) {
  if (!view.frame || view.step < 1) return toast("There is no step yet. Press play first.");
  save(stageAnimation(view), `zscout-${view.world.name}-${view.step}.gif`);
}

export function save(blob, name) {
  const link = make("a");
  link.href = URL.createObjectURL(blob);
  link.download = name.replaceAll(/[^\w.-]/g, "-");
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

async function copyLink(link) {
  try {
    await navigator.clipboard.writeText(link);
    toast("Link copied.");
  } catch {
    // No permission for the clipboard: show the link so that it can be copied.
    const field = make("input");
    field.type = "text";
    field.readOnly = true;
    field.value = link;
    field.setAttribute("aria-label", "Link to this set-up");
    toast("Copy this link:", [], field);
    field.select();
  }
}

function savePicture(view) {
  const columns = view.sides;
  const stage = view.world.kind === "stage";
  const shape = stage ? 9 / 16 : view.world.rows / view.world.columns;
  const lens = stage ? BARS : (WORLD * shape - 3 * LABEL + 6) / 3 / shape; // three are as high as the world
  const column = WORLD + GAP + lens;
  const width = 2 * MARGIN + columns * column + (columns - 1) * GAP;
  const curvesAt = MARGIN + 150 + WORLD * shape + GAP;
  const height = curvesAt + 170 + MARGIN;
  const canvas = make("canvas");
  canvas.width = width * RATIO;
  canvas.height = height * RATIO;
  const ctx = canvas.getContext("2d");
  ctx.scale(RATIO, RATIO);
  ctx.fillStyle = currentInk().page;
  ctx.fillRect(0, 0, width, height);
  drawText(ctx, "zscout", MARGIN, MARGIN + 18, 24, "ink", 700);
  drawText(ctx, about(view), MARGIN, MARGIN + 44, 14, "soft");
  view.frame.sides.forEach((side, i) => {
    drawSide(ctx, view, side, i, { x: MARGIN + i * (column + GAP), y: MARGIN + 74, width: column, lens });
  });
  drawCurves(ctx, view, curvesAt, width);
  canvas.toBlob((blob) => save(blob, `zscout-step-${view.step}.png`), "image/png");
}

function about({ setup, world, step }) {
  const task = setup.may_change ? "the task may change" : "the task stays";
  const parts = [world.title, setup.features, setup.model, `noise ${setup.noise}`, task, `seed ${setup.seed}`, `step ${step}`];
  return parts.join(" · ");
}

function drawSide(ctx, view, side, number, { x, y, width, lens }) {
  drawText(ctx, `${view.setup.methods[number]} · ${side.mode}`, x, y + 6, 13, view.sides > 1 ? `side${number}` : "soft", 600);
  wrapped(ctx, side.says, x, y + 34, width, view.sides > 1 ? 20 : 22);
  const top = y + 76;
  const { world, scale } = view;
  if (world.kind === "stage") return drawBody(ctx, view, number, x, top);
  place(ctx, x, top, new Grid(world, WORLD, (WORLD * world.rows) / world.columns), (grid) => {
    const values = view.showReward ? view.values : null;
    drawReward(ctx, grid, values, scale);
    const signs = () => drawSigns(ctx, grid, values, scale, view.hidden);
    paintScene(ctx, grid, view, side, number, wayOf(side, world).at(-1), null, signs);
  });
  LENSES.forEach(([, title, draw], i) => {
    const height = (lens * world.rows) / world.columns;
    const at = top + i * (height + LABEL);
    drawText(ctx, title, x + WORLD + GAP, at + 12, 13, "ink", 600);
    place(ctx, x + WORLD + GAP, at + 20, new Grid(world, lens, height), (grid) => draw(ctx, grid, view, side));
  });
}

/** The body, and beside it what seems to pay. */
function drawBody(ctx, view, number, x, top) {
  const side = view.frame.sides[number];
  const height = (WORLD * 9) / 16;
  place(ctx, x, top, { width: WORLD, height }, () => paintStage(ctx, view, number, WORLD, height));
  const left = x + WORLD + GAP;
  drawText(ctx, view.hidden ? "What seems to pay" : "You seem to like", left, top + 12, 13, "ink", 600);
  view.world.goals.forEach(({ title }, i) => {
    const at = top + 42 + 30 * i;
    const r = side.pays[i];
    drawText(ctx, title, left, at, 13, "ink");
    ctx.fillStyle = currentInk().line;
    ctx.fillRect(left + 64, at - 11, 130, 14);
    ctx.fillStyle = r < 0 ? currentInk().bad : currentInk().good;
    ctx.fillRect(left + 129 + 65 * Math.min(0, r), at - 11, 65 * Math.abs(r), 14);
    drawText(ctx, signed(r, 1), left + 202, at, 13, "ink");
  });
}

function place(ctx, x, y, grid, draw) {
  ctx.save();
  ctx.translate(x, y);
  ctx.beginPath();
  ctx.roundRect(0, 0, grid.width, grid.height, 6);
  ctx.clip();
  draw(grid);
  ctx.restore();
}

function drawCurves(ctx, view, y, width) {
  const curves = curvesFor(view);
  const each = (width - 2 * MARGIN - (curves.length - 1) * GAP) / curves.length;
  curves.forEach((curve, i) => {
    const x = MARGIN + i * (each + GAP);
    drawText(ctx, curve.title, x, y + 12, 13, "ink", 600);
    ctx.save();
    ctx.translate(x, y + 22);
    drawCurve(curve, ctx, each, 146, view);
    ctx.restore();
  });
}

function drawText(ctx, text, x, y, size, colour, weight = 400) {
  const ink = currentInk();
  ctx.font = `${weight} ${size}px ${ink.font}`;
  ctx.fillStyle = ink[colour];
  ctx.textAlign = "left";
  ctx.textBaseline = "alphabetic";
  ctx.fillText(text, x, y);
}

/** The sentence, on at most two lines. */
function wrapped(ctx, text, x, y, width, size) {
  const lines = [""];
  ctx.font = `500 ${size}px ${currentInk().font}`;
  for (const word of text.split(" ")) {
    const longer = `${lines.at(-1)} ${word}`.trim();
    if (ctx.measureText(longer).width > width && lines.length < 2) lines.push(word);
    else lines[lines.length - 1] = longer;
  }
  lines.forEach((line, i) => drawText(ctx, line, x, y + i * size * 1.2, size, "ink", 500));
}
