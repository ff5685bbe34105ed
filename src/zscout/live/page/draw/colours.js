// The theme, and the colours of numbers. Colours are defined in CSS variables only.

import { always, byId } from "../dom.js";

const NAMES = ["page", "panel", "ink", "soft", "line", "edge", "floor", "grid", "wall", "good", "bad", "fog"];
const SIDES = ["side0", "side1"];
const STEPS = 48; // shades on each side of zero

/** @typedef {{[name: string]: string, goodShades: string[], badShades: string[], fogShades: string[], font: string}} Ink */

/** @type {Ink} */
let ink = null;

export const currentInk = () => ink;

export function startTheme(onChange) {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const apply = () => {
    const name = always.get("theme") ?? (system.matches ? "dark" : "light");
    document.documentElement.dataset.theme = name;
    ink = readInk();
    onChange();
  };
  system.addEventListener("change", apply);
  byId("theme").addEventListener("click", () => {
    always.set("theme", document.documentElement.dataset.theme === "dark" ? "light" : "dark");
    apply();
  });
  apply();
}

function readInk() {
  const style = getComputedStyle(document.documentElement);
  const found = { font: style.getPropertyValue("--sans") };
  for (const name of [...NAMES, ...SIDES]) found[name] = style.getPropertyValue(`--${name}`).trim();
  found.goodShades = shades(found.floor, found.good);
  found.badShades = shades(found.floor, found.bad);
  found.fogShades = shades(found.floor, found.fog);
  return found;
}

function shades(from, to) {
  const [a, b] = [rgb(from), rgb(to)];
  return Array.from({ length: STEPS + 1 }, (_, i) => {
    const mix = a.map((low, k) => Math.round(low + ((b[k] - low) * i) / STEPS));
    return `rgb(${mix.join(" ")})`;
  });
}

export function rgb(hex) {
  return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
}

/** Blue above zero, vermillion below; darker for larger numbers. */
export function diverging(value, scale) {
  const depth = Math.round(Math.min(1, Math.abs(value) / scale) * STEPS);
  return (value < 0 ? ink.badShades : ink.goodShades)[depth];
}

export function fog(value, scale) {
  return ink.fogShades[Math.round(Math.max(0, Math.min(1, value / scale)) * STEPS)];
}
