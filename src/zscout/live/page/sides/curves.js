// The curves: their data, titles and descriptions.

import { drawChart, stepAt } from "../draw/charts.js";
import { currentInk } from "../draw/colours.js";
import { byId, make, mark, plain, signed, within, write } from "../dom.js";
import { Screen } from "../draw/screen.js";

const MEAN_OVER = 20; // steps of the running mean
const KNOWN = 0.5; // uncertainty of a place after four answers there
const EVERY_MS = 90; // about ten drawings a second
const SHORTEST = 40; // least number of steps on the axis
const DASH = [6, 4]; // of the second method

const count = (x) => String(x);
const REWARD = {
  name: "reward", title: "Reward per step",
  of: (s) => s.reward, text: (x) => signed(x), draw: rewardChart, now: meanOfLast,
};
const CURVES = [
  {
    ...REWARD, who: "hidden", endless: true, now: meanOfPossible,
    about: "Dots: each reward. Line: mean of the last 20. Dotted: the best mean of any policy.",
  },
  { ...REWARD, who: "hidden", endless: false, about: "Dots: each reward. Line: mean of the last 20." },
  { ...REWARD, who: "person", kind: "stage", about: "Dots: your thumbs. Line: mean of the last 20." },
  {
    ...REWARD, who: "person", kind: "map", draw: answersChart, now: answerOrExpected,
    about: "Strong dots: your answers. Faint: expected where it does not ask. Line: mean of 20.",
  },
  {
    name: "lost", title: "Lost steps", who: "hidden", endless: true,
    about: "Regret so far, in steps of random walking.",
    of: (s) => s.lost, text: (x) => plain(x, 1), draw: growing,
  },
  {
    name: "worth", title: "Value", who: "hidden", endless: true,
    about: "Value of the policy it would keep. 0: random walk, 1: best policy.",
    of: (s) => s.worth, text: (x) => plain(x), draw: unit,
  },
  {
    name: "return", title: "Return", who: "hidden", endless: false,
    about: "Reward of the episode so far, without noise. A new episode starts at 0.",
    of: (s) => s.return, text: (x) => plain(x, 1), draw: returns,
  },
  {
    name: "told", title: "Answers", who: "person", kind: "map",
    about: "Number of answers it has learned from.",
    of: (s) => s.told, text: count, draw: growing,
  },
  {
    name: "told", title: "Steps rated", who: "person", kind: "stage",
    about: "Number of steps whose reward it has learned.",
    of: (s) => s.told, text: count, draw: growing,
  },
  {
    name: "known", title: "Places known", who: "person", kind: "map",
    about: "Number of places it no longer asks about.",
    of: knownPlaces, text: count, draw: growing,
  },
  {
    name: "eigen", title: "Uncertainty left",
    about: "Eigenvalues of V⁻¹, log scale. Lower: it knows more.",
    of: (s) => s.eigen[0], text: (x) => plain(x), draw: eigenChart,
  },
];

const counted = new WeakMap();
function knownPlaces(side) {
  if (!counted.has(side)) counted.set(side, side.doubt.reduce((n, x) => n + (x <= KNOWN), 0));
  return counted.get(side);
}

export class Curves {
  constructor({ changed, look }) {
    this.changed = changed;
    this.look = look;
    this.figures = [];
    this.drawnAt = -Infinity;
  }

  draw(view, now) {
    if (!view.frame) return;
    this.#arrange(view);
    const key = [view.version, view.step, view.theme, view.sides, this.figures.map((f) => f.screen.version)].join();
    if (key === this.key) return;
    const wait = this.drawnAt + EVERY_MS - now;
    if (wait > 0) {
      this.timer ??= setTimeout(() => ((this.timer = null), this.changed()), wait);
      return;
    }
    this.key = key;
    this.drawnAt = now;
    for (const figure of this.figures) this.#drawOne(figure, view);
  }

  #arrange(view) {
    const curves = curvesFor(view);
    const shown = curves.map(({ about }) => about).join();
    if (shown === this.shown) return;
    this.shown = shown;
    this.figures.forEach((figure) => figure.screen.close());
    byId("curves").replaceChildren();
    this.figures = curves.map((curve) => this.#figure(curve));
    byId("curves").style.setProperty("--curves", this.figures.length);
  }

  #figure(curve) {
    const element = byId("curve-template").content.cloneNode(true).firstElementChild;
    write(element.querySelector("h3"), curve.title);
    write(element.querySelector("p"), curve.about);
    byId("curves").append(element);
    const canvas = element.querySelector("canvas");
    canvas.id = `curve-${curve.name}`;
    mark(canvas, "aria-label", curve.title); // until it is drawn
    const screen = new Screen(canvas, this.changed);
    const scrub = (event) => {
      if (event.buttons & 1) this.look(stepAt(event.offsetX, screen.width, this.first, this.last));
    };
    canvas.addEventListener("pointerdown", scrub);
    canvas.addEventListener("pointermove", scrub);
    return { curve, screen, now: element.querySelector(".now") };
  }

  #drawOne({ curve, screen, now }, view) {
    const values = view.frame.sides.map((side) => curve.of(side));
    const texts = values.map((x, i) => curve.now?.(view, i) ?? (x === null ? "–" : curve.text(x)));
    if (now.childElementCount !== texts.length) {
      now.replaceChildren(...texts.map((_, i) => make("span", "", texts.length > 1 ? `tone-${i}` : "")));
    }
    texts.forEach((text, i) => write(now.children[i], text));
    const named = texts.map((text, i) => `${view.setup.methods[i]} ${text}`).join(", ");
    mark(screen.canvas, "aria-label", `${curve.title} at step ${view.step}: ${named}`);
    this.first = view.first;
    this.last = lastStep(view);
    if (screen.visible) drawCurve(curve, screen.clean(), screen.width, screen.height, view);
  }
}

const lastStep = (view) => Math.max(view.first + SHORTEST, view.newest);

/** Those of this mode; exact values are of worlds without episodes, returns of worlds with episodes. */
export function curvesFor({ setup, world }) {
  const fits = (wanted, found) => wanted === undefined || wanted === found;
  const here = ({ who, endless, kind }) =>
    fits(who, setup.who) && fits(endless, world.horizon === null) && fits(kind, world.kind);
  return CURVES.filter(here);
}

/** Draws one curve, on the page or in the exported picture. */
export function drawCurve(curve, ctx, width, height, view) {
  const sides = view.frame.sides.map((_, i) => ({
    ys: view.frames.map((frame) => curve.of(frame.sides[i])),
    eigen: (k) => view.frames.map((frame) => frame.sides[i].eigen[k]),
    many: view.frame.sides[i].eigen.length,
    expected: () => view.frames.map(({ sides }) => within(sides[i].estimate[sides[i].at], view.scale)),
    look: view.sides > 1 ? { colour: currentInk()[`side${i}`], dash: i ? DASH : [] } : { colour: currentInk().ink },
  }));
  drawChart(ctx, width, height, { first: view.first, last: lastStep(view), cursor: view.step, ...curve.draw(sides, view) });
}

function extent(sides) {
  const known = sides.flatMap(({ ys }) => ys.filter((y) => y !== null));
  const low = known.reduce((a, b) => Math.min(a, b), Infinity);
  const high = known.reduce((a, b) => Math.max(a, b), -Infinity);
  return known.length ? [low, high] : [0, 1];
}

function runningMean(ys) {
  let sum = 0;
  const recent = [];
  return ys.map((y) => {
    if (y !== null) {
      recent.push(y);
      sum += y;
      if (recent.length > MEAN_OVER) sum -= recent.shift();
    }
    return recent.length ? sum / recent.length : null;
  });
}

/** The mean of the last rewards. */
function meanOfLast(view, i) {
  if (view.step < 1) return null;
  const end = view.step - view.first + 1;
  const recent = view.frames.slice(Math.max(0, end - MEAN_OVER), end).map(({ sides }) => sides[i].reward);
  const mean = runningMean(recent).at(-1);
  return mean === null ? null : signed(mean);
}

/** The mean of the last rewards, and the best mean of any policy. */
function meanOfPossible(view, i) {
  const mean = view.attainable === null ? null : meanOfLast(view, i);
  const possible = view.sides === 1 ? ` of ${plain(view.attainable ?? 0)}` : "";
  return mean === null ? null : mean + possible;
}

/** The expected reward where there is no answer, so that the curve continues. */
function answerOrExpected(view, i) {
  const side = view.frame.sides[i];
  if (side.reward !== null || view.step < 1) return null;
  return side.asks ? "asks" : `expects ${signed(within(side.estimate[side.at], view.scale))}`;
}

function answersChart(sides) {
  const full = sides.map((side) => {
    const expected = side.expected();
    return { ...side, ys: side.ys.map((y, k) => y ?? (k ? expected[k] : null)), given: side.ys };
  });
  const chart = rewardChart(full, { attainable: null });
  const ink = full.map(({ given, look }) => ({ ys: given, colour: look.colour, dots: true, alpha: 0.75 }));
  return { ...chart, series: [...chart.series, ...ink] };
}

function rewardChart(sides, { attainable }) {
  const [least, most] = extent(sides);
  const high = Math.max(0.5, most, attainable ?? 0) * 1.05;
  const low = Math.min(-0.25, least) * 1.05;
  const series = sides.map(({ ys, look }) => ({ ys, colour: look.colour, dots: true, alpha: 0.32 }));
  sides.forEach(({ ys, look }) => series.push({ ...look, ys: runningMean(ys), width: 2 }));
  if (attainable !== null) {
    const ys = sides[0].ys.map(() => attainable);
    series.push({ ys, colour: currentInk().good, dash: [2, 3], width: 1.4 });
  }
  const top = high >= 1 ? Math.floor(high) : 0.5;
  const ticks = [[0, "0"], [top, `+${top}`]];
  if (low <= -1) ticks.push([Math.ceil(low), `−${-Math.ceil(low)}`]);
  return { series, low, high, ticks };
}

const lines = (sides) => sides.map(({ ys, look }) => ({ ...look, ys }));

function growing(sides) {
  const [, most] = extent(sides);
  const top = roundUp(Math.max(4, most));
  return { series: lines(sides), low: 0, high: top, ticks: [0, top / 2, top].map((x) => [x, String(x)]) };
}

function returns(sides) {
  const [least, most] = extent(sides);
  const high = roundUp(Math.max(4, most));
  const low = least < 0 ? -roundUp(Math.max(4, -least)) : 0;
  const apart = [high, -low].map((x) => x > 0.2 * (high - low)); // labels too close to 0 are left out
  const ticks = [0, ...(apart[0] ? [high] : []), ...(apart[1] ? [low] : [])];
  return { series: lines(sides), low, high, ticks: ticks.map((x) => [x, plain(x, 0)]) };
}

function unit(sides) {
  const [least] = extent(sides);
  const low = Math.max(-0.3, Math.min(0, least)); // values further below 0 are cut off
  return { series: lines(sides), low, high: 1.02, ticks: [0, 0.5, 1].map((x) => [x, String(x)]) };
}

function eigenChart(sides) {
  let [low, high] = [0.1, 1];
  const series = sides.flatMap(({ eigen, many, look }) =>
    Array.from({ length: many }, (_, k) => {
      const ys = eigen(k);
      low = ys.reduce((a, b) => Math.min(a, b), low);
      high = ys.reduce((a, b) => Math.max(a, b), high);
      return { ...look, ys, width: k ? 1 : 2, alpha: k ? 0.4 : 1 };
    }),
  );
  low = Math.max(low, 1e-9);
  const decades = [];
  for (let e = Math.ceil(Math.log10(low)); e <= Math.floor(Math.log10(high)); e++) {
    decades.push([10 ** e, e < -2 ? `1e${e}` : (10 ** e).toFixed(Math.max(0, -e))]);
  }
  return { series, low, high: high * 1.05, log: true, ticks: decades };
}

function roundUp(x) {
  const unit = 10 ** Math.floor(Math.log10(x));
  return [1, 2, 4, 5, 10].map((k) => k * unit).find((top) => top >= x);
}
