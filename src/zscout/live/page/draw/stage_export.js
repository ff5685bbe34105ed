// Exports of a body: a picture, and an animation of the last steps.

import { currentInk, rgb } from "./colours.js";
import { Palette, encodeGif } from "./gif.js";
import { make } from "../dom.js";
import { drawStage, torsoAt } from "./stage.js";

const WIDTH = 480;
const HEIGHT = 270;
const MOST_PICTURES = 150;
const DELAY = 4; // hundredths of a second: 25 pictures a second
const SHADES = 7;

/** The stage of one method, for the exported picture. */
export function paintStage(ctx, view, number, width, height) {
  const { ends } = view.frame.sides[number];
  drawStage(ctx, width, height, { ends, camera: torsoAt(ends), ghost: view.ghost(number), ...view.constants });
}

/** A GIF of the last steps up to the one shown, in real time; each picture is of the step nearest to its time. */
export function stageAnimation(view) {
  const { seconds } = view.constants;
  const stride = Math.max(1, Math.round(DELAY / 100 / seconds));
  const end = view.step - view.first + 1;
  const frames = view.frames.slice(Math.max(0, end - stride * MOST_PICTURES), end).filter((_, i) => i % stride === 0);
  const canvas = make("canvas");
  [canvas.width, canvas.height] = [WIDTH, HEIGHT];
  const ctx = canvas.getContext("2d", { willReadFrequently: true });
  const palette = new Palette(stageColours());
  let camera = null;
  const pictures = frames.map(({ sides: [{ ends }] }) => {
    const x = torsoAt(ends);
    camera = camera === null || Math.abs(x - camera) > 2 ? x : camera + (x - camera) * 0.2;
    drawStage(ctx, WIDTH, HEIGHT, { ends, camera, ...view.constants });
    return palette.indices(ctx.getImageData(0, 0, WIDTH, HEIGHT));
  });
  return encodeGif({ width: WIDTH, height: HEIGHT, palette: palette.colours, pictures, delay: DELAY });
}

/** All colours of a stage, with shades between each two. */
function stageColours() {
  const ink = currentInk();
  const main = ["floor", "grid", "soft", "ink"].map((name) => rgb(ink[name]));
  const found = [...main];
  main.forEach((a, i) => {
    for (const b of main.slice(i + 1)) {
      for (let k = 1; k < SHADES; k++) found.push(a.map((low, c) => Math.round(low + ((b[c] - low) * k) / SHADES)));
    }
  });
  return found;
}
