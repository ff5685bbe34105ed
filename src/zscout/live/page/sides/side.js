// One method on the page: its sentence, and its map with three small ones, or its body with bars.

import { currentInk } from "../draw/colours.js";
import { byId, mark, plain, show, signed, within, write } from "../dom.js";
import { GoalBars } from "./goals.js";
import { Grid, drawAgent, drawFlash, drawFog, drawHeading, drawOutline, drawPath, drawReward, drawSigned, drawSigns } from "../draw/maps.js";
import { Motion } from "../draw/motion.js";
import { cellOf, continues, wayOf } from "../draw/places.js";
import { Screen } from "../draw/screen.js";
import { speak } from "./speech.js";
import { StageMotion, drawStage, torsoAt } from "../draw/stage.js";

/** The small maps: their titles in a picture, and how each is drawn. */
export const LENSES = [
  ["estimate", "What it expects", (ctx, grid, view, side) => drawSigned(ctx, grid, side.estimate, view.scale, favourite(side), side.at)],
  ["doubt", "What it does not know", (ctx, grid, view, side) => drawFog(ctx, grid, side.doubt, view.mostDoubt, side.at)],
  ["after", "The goal it tries now", (ctx, grid, view, side) => drawSigned(ctx, grid, side.after, 1, null, side.at)],
];
const MAPS = ["world", ...LENSES.map(([name]) => name)];

export class Side {
  constructor(number, onResize) {
    this.number = number;
    const suffix = number ? `-${number}` : "";
    this.element = byId("side-template").content.cloneNode(true).firstElementChild;
    this.element.id = `side-${number}`;
    this.find = (name) => this.element.querySelector(`.${name}`);
    for (const name of [...MAPS, "says"]) this.find(name).id = name + suffix;
    this.find("method").id = `method-${number}`;
    mark(this.element, "aria-labelledby", `method-${number}`);
    show(this.find("stop"), number > 0);
    if (number) this.find("ghost-on").closest("label").remove(); // one switch for both
    this.screens = {};
    this.onResize = onResize;
    this.motion = new Motion();
    this.stage = new StageMotion();
    this.ghost = new StageMotion(); // its camera is not used
    this.bars = new GoalBars(this.find("likes"));
    this.drawn = {};
    // Cached pictures of what changes seldom: the floor below the path, the signs above it.
    this.floor = document.createElement("canvas");
    this.signs = document.createElement("canvas");
  }

  /** Call when it is in the page: before, a canvas has no size. */
  attach() {
    for (const name of MAPS) this.screens[name] = new Screen(this.find(name), this.onResize);
  }

  remove() {
    for (const screen of Object.values(this.screens)) screen.close();
    this.element.remove();
  }

  get canvas() {
    return this.screens.world.canvas;
  }

  /** The grid of the world map at its present size. */
  get grid() {
    const { width, height } = this.screens.world;
    return new Grid(this.view.world, width, height);
  }

  /** Draws everything. @returns {boolean} whether it is still moving */
  draw(view, now) {
    this.view = view;
    const frame = view.frame?.sides[this.number];
    if (!frame) return false;
    if (view.world.kind === "stage") return this.#drawStage(view, frame, now);
    this.#aspect(view.world);
    if (this.drawn.frame !== frame || this.drawn.run !== view.key) {
      const before = view.frames[view.step - 1 - view.first]?.sides[this.number];
      const glides = continues(before, frame, view.world);
      const way = wayOf(frame, view.world);
      this.motion.aim({ step: view.step, way, reward: frame.reward, glides, pace: view.pace, now });
      this.#tell(view, frame);
    }
    const look = [view.version, view.step, view.theme, view.scale, view.looking, view.tableVersion].join();
    if (this.drawn.frame !== frame || this.drawn.look !== look || this.#resized()) this.#drawLenses(view, frame);
    this.drawn.frame = frame;
    this.drawn.look = look;
    this.drawn.run = view.key;
    return this.#drawWorld(view, frame, now);
  }

  #drawStage(view, frame, now) {
    for (const name of MAPS) this.find(name).style.aspectRatio = "";
    if (this.drawn.frame !== frame || this.drawn.run !== view.key) {
      const before = view.frames[view.step - 1 - view.first]?.sides[this.number];
      const glides = this.drawn.run === view.key && before?.episode === frame.episode && this.drawn.frame === before;
      this.stage.aim({ ends: frame.ends, glides, pace: view.pace, now });
      this.#tell(view, frame);
      write(this.find("readout"), describeBody(frame, view.world));
      show(this.find("scale"), false);
    }
    const ghost = this.#followGhost(view, frame, now);
    const look = [view.key, view.step, view.version, view.showReward, view.truth].join();
    if (this.drawn.look !== look) this.bars.draw(view, frame);
    Object.assign(this.drawn, { frame, look, run: view.key });
    const { ends, camera, moving } = this.stage.at(now);
    const screen = this.screens.world;
    if (!screen.visible) return moving;
    const colour = view.sides > 1 ? currentInk()[`side${this.number}`] : undefined;
    drawStage(screen.clean(), screen.width, screen.height, { ends, camera, colour, ghost, ...view.constants });
    return moving;
  }

  /** The ghost between two steps. */
  #followGhost(view, frame, now) {
    const ghost = view.ghost(this.number);
    const key = [view.key, view.step, ghost?.about].join();
    if (key !== this.drawn.ghost || frame !== this.drawn.frame) {
      const next = view.step === this.drawn.ghostStep + 1 && ghost?.phase > 0;
      if (ghost) this.ghost.aim({ ends: ghost.ends, glides: next, pace: view.pace, now });
      const about = ghost ? ` A ghost shows what it would keep: it ${ghost.about}` : "";
      mark(this.canvas, "aria-label", `The body from the side. ${describeBody(frame, view.world)}.${about}`);
      mark(this.element, "data-ghost", ghost?.about);
    }
    Object.assign(this.drawn, { ghost: key, ghostStep: view.step });
    if (!this.number) this.find("ghost-on").checked = view.showGhost;
    return ghost && { ends: this.ghost.at(now).ends, strength: ghost.strength };
  }

  #resized() {
    const sizes = MAPS.map((name) => this.screens[name].version).join();
    const changed = sizes !== this.drawn.sizes;
    this.drawn.sizes = sizes;
    return changed;
  }

  #aspect({ rows, columns }) {
    const ratio = `${columns} / ${rows}`;
    if (this.drawn.ratio === ratio) return;
    this.drawn.ratio = ratio;
    for (const name of MAPS) this.find(name).style.aspectRatio = ratio;
  }

  #tell(view, frame) {
    const cell = (state) => (state === null || state === undefined ? "" : view.world.cells[state].join());
    write(this.find("method"), view.setup.methods[this.number] ?? "");
    write(this.find("mode"), frame.mode);
    mark(this.find("mode"), "data-mode", frame.mode);
    speak(this.find("says"), frame.says);
    const { mode, asks, lost, worth, reward, episode } = frame;
    const at = frame.ends ? torsoAt(frame.ends).toFixed(2) : cell(frame.at);
    const facts = { at, told: frame.told, return: frame.return, best: cell(frame.best), heading: cell(frame.heading), mode, asks, lost, worth, reward, episode, likes: frame.likes, sure: frame.sure };
    for (const [name, value] of Object.entries(facts)) mark(this.element, `data-${name}`, value);
  }

  #drawLenses(view, frame) {
    for (const [name, , paint] of LENSES) {
      const screen = this.screens[name];
      if (!screen.visible) continue;
      const ctx = screen.clean();
      const grid = new Grid(view.world, screen.width, screen.height);
      paint(ctx, grid, view, frame);
      if (view.looking !== null) drawOutline(ctx, grid, [view.looking], false);
    }
    this.#describe(view, frame);
    this.#readout(view, frame);
  }

  #drawWorld(view, frame, now) {
    const screen = this.screens.world;
    const { place, pulse, moving } = this.motion.at(now);
    if (!screen.visible) return moving;
    const ctx = screen.clean();
    const grid = new Grid(view.world, screen.width, screen.height);
    this.#keepPictures(view, grid, screen);
    const put = (picture) => ctx.drawImage(picture, 0, 0, screen.width, screen.height);
    put(this.floor);
    for (const { state, value, left } of view.fresh) drawFlash(ctx, grid, state, value, view.scale, left);
    paintScene(ctx, grid, view, frame, this.number, place, pulse, () => put(this.signs));
    if (view.brush.length) drawOutline(ctx, grid, view.brush, view.cursorStrong);
    return moving || view.fresh.length > 0;
  }

  #keepPictures(view, grid, screen) {
    const key = [view.theme, view.world.name, screen.version, view.showReward, view.scale, view.tableVersion].join();
    if (this.picturesKey === key) return;
    this.picturesKey = key;
    const values = view.showReward ? view.values : null;
    for (const [picture, draw] of [[this.floor, drawReward], [this.signs, drawSigns]]) {
      picture.width = screen.canvas.width;
      picture.height = screen.canvas.height;
      const ctx = picture.getContext("2d");
      ctx.scale(screen.ratio, screen.ratio);
      draw(ctx, grid, values, view.scale, view.hidden);
    }
  }

  /** Labels for screen readers. */
  #describe(view, frame) {
    const spot = (state) => cellOf(view.world, view.world.cells[state]).join(", ");
    const label = (name, text) => mark(this.find(name), "aria-label", text);
    for (const [name] of LENSES) mark(this.find(name), "role", "img");
    const best = favourite(frame);
    label("estimate", `What it expects. ${best === null ? "Nothing yet" : `Best at row, column ${spot(best)}`}.`);
    label("doubt", `What it does not know. Largest uncertainty ${plain(Math.max(...frame.doubt))}.`);
    const leads = frame.heading === null ? "" : ` It leads to row, column ${spot(frame.heading)}.`;
    label("after", `The goal it tries now: it acts as if this were the reward.${leads}`);
  }

  #readout(view, frame) {
    const state = view.looking ?? frame.at;
    const [row, column] = cellOf(view.world, view.world.cells[state]);
    const parts = [`Row ${row}, column ${column}`];
    if (view.hidden && view.showReward) parts.push(`reward ${view.values ? signed(view.values[state]) : "unknown"}`);
    parts.push(`expects ${signed(within(frame.estimate[state], view.scale))}`, `uncertainty ${plain(frame.doubt[state])}`);
    write(this.find("readout"), parts.join(" · "));
    write(this.find("low"), plain(-view.scale, 1));
    write(this.find("high"), `+${plain(view.scale, 1)}`);
    show(this.find("scale"), !view.hidden || view.showReward);
  }
}

/** Where the body is and how it moves, in words. */
function describeBody({ ends, now, reward }, { goals }) {
  const of = Object.fromEntries(goals.map(({ name }, i) => [name, now[i]]));
  const pitch = goals.find(({ name }) => name === "pitch"); // only planar bodies have one pitch
  const leans = pitch && (of.pitch < -0.5 ? pitch.low : of.pitch > 0.5 && pitch.high);
  const lies = !pitch && of.upright < 0.7 ? "on its side" : "upright";
  const posture = of.upright < -0.3 ? "upside down" : leans || lies;
  const rounded = (x) => plain(Math.round(10 * x) / 10 || 0, 1); // no −0
  const parts = [`${rounded(of.speed)} m/s`, posture];
  if (pitch) parts.splice(0, 1, `At ${rounded(torsoAt(ends))} m`, `${rounded(of.speed)} m/s`, `torso ${plain(of.height, 2)} m high`);
  if (reward !== null) parts.push(`reward ${signed(reward)}`);
  return parts.join(" · ");
}

/** The state with the largest expected reward; null while all are 0. */
function favourite({ estimate, best }) {
  return estimate.some((x) => Math.abs(x) > 1e-6) ? best : null;
}

/** Draws path, signs, target and agent, on the page or in the exported picture. */
export function paintScene(ctx, grid, view, frame, number, place, pulse, signs) {
  const at = grid.point(place);
  drawPath(ctx, grid, view.path(number), at);
  signs();
  if (frame.heading !== null) drawHeading(ctx, grid, at, frame.heading);
  drawAgent(ctx, grid, at, pulse);
}
