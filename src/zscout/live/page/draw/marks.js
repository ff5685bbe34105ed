// The signs on maps.

function stroke(ctx, colour, width, alpha, path) {
  ctx.save();
  ctx.globalAlpha = alpha;
  ctx.strokeStyle = colour;
  ctx.lineWidth = width;
  ctx.lineCap = "round";
  ctx.beginPath();
  path();
  ctx.stroke();
  ctx.restore();
}

/** A straight line in the present style. */
export function segment(ctx, x0, y0, x1, y1) {
  ctx.beginPath();
  ctx.moveTo(x0, y0);
  ctx.lineTo(x1, y1);
  ctx.stroke();
}

export function minus(ctx, x, y, r, colour, alpha = 1) {
  stroke(ctx, colour, Math.max(1, r * 0.42), alpha, () => {
    ctx.moveTo(x - r, y);
    ctx.lineTo(x + r, y);
  });
}

export function plus(ctx, x, y, r, colour, alpha = 1) {
  stroke(ctx, colour, Math.max(1, r * 0.42), alpha, () => {
    ctx.moveTo(x - r, y);
    ctx.lineTo(x + r, y);
    ctx.moveTo(x, y - r);
    ctx.lineTo(x, y + r);
  });
}

export function ring(ctx, x, y, r, colour, width) {
  stroke(ctx, colour, width, ctx.globalAlpha, () => ctx.arc(x, y, r, 0, 2 * Math.PI));
}

export function star(ctx, x, y, r, colour) {
  ctx.fillStyle = colour;
  ctx.beginPath();
  for (let i = 0; i < 10; i++) {
    const angle = (i * Math.PI) / 5 - Math.PI / 2;
    const reach = i % 2 ? r * 0.45 : r;
    ctx.lineTo(x + reach * Math.cos(angle), y + reach * Math.sin(angle));
  }
  ctx.closePath();
  ctx.fill();
}

/** A dark dot in a light ring in a thin dark ring: visible on every colour of both themes. */
export function agentDot(ctx, x, y, r, ink) {
  for (const [reach, colour] of [[1.36, ink.ink], [1.22, ink.floor], [0.82, ink.ink]]) {
    ctx.fillStyle = colour;
    ctx.beginPath();
    ctx.arc(x, y, r * reach, 0, 2 * Math.PI);
    ctx.fill();
  }
}
