// One small chart: lines and dots over steps.

import { currentInk } from "./colours.js";
import { segment } from "./marks.js";

const LEFT = 34;
const BOTTOM = 16;
const TOP = 6;
const RIGHT = 4;

/**
 * @typedef {{ys: (number|null)[], colour: string, dash?: number[], width?: number, alpha?: number, dots?: boolean}} Series
 * ys[i] is the value at step first + i.
 * @typedef {{series: Series[], first: number, last: number, low: number, high: number, log?: boolean,
 *   ticks: [number, string][], cursor: number}} Chart
 */

/** @param {Chart} chart */
export function drawChart(ctx, width, height, chart) {
  const ink = currentInk();
  const plot = { left: LEFT, top: TOP, width: width - LEFT - RIGHT, height: height - TOP - BOTTOM };
  const x = (step) => plot.left + (plot.width * (step - chart.first)) / Math.max(1, chart.last - chart.first);
  const scaled = chart.log ? Math.log10 : (v) => v;
  const [low, high] = [scaled(chart.low), scaled(chart.high)];
  const y = (v) => plot.top + plot.height * (1 - (scaled(v) - low) / (high - low || 1));

  ctx.font = `11px ${ink.font}`;
  ctx.lineWidth = 1;
  ctx.fillStyle = ink.soft;
  ctx.textBaseline = "middle";
  ctx.textAlign = "right";
  for (const [value, label] of chart.ticks) {
    ctx.strokeStyle = ink.line;
    const at = Math.round(y(value)) + 0.5;
    segment(ctx, plot.left, at, plot.left + plot.width, at);
    ctx.fillText(label, plot.left - 6, y(value));
  }
  ctx.textBaseline = "alphabetic";
  ctx.textAlign = "left";
  ctx.fillText(String(chart.first), plot.left, height - 3);
  ctx.textAlign = "right";
  ctx.fillText(String(chart.last), plot.left + plot.width, height - 3);

  ctx.save();
  ctx.beginPath();
  ctx.rect(plot.left - 3, 0, plot.width + 6, plot.top + plot.height + 3);
  ctx.clip();
  for (const series of chart.series) (series.dots ? dots : line)(ctx, series, chart.first, x, y, plot.width);
  ctx.restore();

  ctx.globalAlpha = 0.5;
  ctx.fillStyle = ink.ink;
  ctx.fillRect(Math.round(x(chart.cursor)), plot.top, 1, plot.height);
  ctx.globalAlpha = 1;
}

/** The step at a horizontal position, to look back with the pointer. */
export function stepAt(px, width, first, last) {
  return first + Math.round(Math.max(0, Math.min(1, (px - LEFT) / (width - LEFT - RIGHT))) * (last - first));
}

/** At most one point per pixel: more would cost time and change nothing. */
const strideOf = (count, pixels) => Math.max(1, Math.floor(count / pixels));

function line(ctx, { ys, colour, dash = [], width = 1.8, alpha = 1 }, first, x, y, pixels) {
  ctx.globalAlpha = alpha;
  ctx.strokeStyle = colour;
  ctx.lineWidth = width;
  ctx.lineJoin = "round";
  ctx.setLineDash(dash);
  ctx.beginPath();
  const stride = strideOf(ys.length, pixels);
  let pen = false;
  for (let i = 0; i < ys.length; i = i === ys.length - 1 ? i + 1 : Math.min(i + stride, ys.length - 1)) {
    if (ys[i] === null) {
      pen = false;
      continue;
    }
    if (pen) ctx.lineTo(x(first + i), y(ys[i]));
    else ctx.moveTo(x(first + i), y(ys[i]));
    pen = true;
  }
  ctx.stroke();
  ctx.setLineDash([]);
  ctx.globalAlpha = 1;
}

function dots(ctx, { ys, colour, alpha = 0.4 }, first, x, y) {
  ctx.globalAlpha = alpha;
  ctx.fillStyle = colour;
  const r = ys.length > 300 ? 1.1 : 1.7;
  ys.forEach((value, i) => {
    if (value !== null) ctx.fillRect(x(first + i) - r, y(value) - r, 2 * r, 2 * r);
  });
  ctx.globalAlpha = 1;
}
