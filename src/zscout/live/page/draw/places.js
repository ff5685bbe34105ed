// Places on the map. A place is a square, of which a cell of the map has per_cell × per_cell; a world without cells
// also sends the way of the agent between them.

/** The way to the agent, as rows and columns of squares: all of a step's in a continuous world, else its end. */
export function wayOf(side, world) {
  return side.path ?? [world.cells[side.at]];
}

/** Whether a step starts where the one before ended: an episode may end, a method may be reset to its start. */
export function continues(before, side, world) {
  if (!before || side.from === null) return false;
  const [row, column] = wayOf(before, world).at(-1);
  const start = side.path?.[0] ?? world.cells[side.from];
  return Math.hypot(start[0] - row, start[1] - column) < 0.01;
}

/** The row and column of the cell that holds a square, counted from 1. */
export function cellOf({ per_cell }, square) {
  return square.map((x) => Math.floor(x / per_cell) + 1);
}
