// A ghost beside the body: the behaviour that the agent would keep, in a loop.

import { plain } from "../dom.js";
import { torsoAt } from "./stage.js";

const FADES = 6; // steps in which it comes and goes

/**
 * The ghost of one method at a step: it sets out where the body is, then goes its own way until the loop ends.
 * @returns {{ends: number[], strength: number, phase: number, about: string} | null}
 */
export function ghostAt(history, number, step, constants) {
  const { poses, since } = history.ghosts.findLast((ghost) => ghost.side === number && ghost.since <= step) ?? {};
  const decision = history.at(step)?.sides[number]?.decision;
  if (!poses || decision === undefined) return null;
  const phase = Math.min((step - since) % poses.length, Math.max(0, decision - 1)); // a new episode: set out again
  const from = history.at(step - phase)?.sides[number];
  if (!from) return null;
  const shift = torsoAt(from.ends) - torsoAt(poses[0]);
  const strength = Math.min(1, (phase + 1) / FADES, (poses.length - phase) / FADES);
  return { ends: poses[phase].map((m, i) => (i % 2 ? m : m + shift)), strength, phase, about: inWords(poses, constants) };
}

/** A clip in words; of a body that turns, not `planar`, the picture does not say which way it goes. */
export function inWords(poses, { planar }) {
  const [first, last] = [poses[0], poses.at(-1)];
  const way = torsoAt(last) - torsoAt(first);
  const moves = Math.abs(way) < 0.1 ? "stays where it is" : `moves ${plain(Math.abs(way), 1)} m ${way < 0 ? "backward" : "forward"}`;
  return `${planar ? `${moves}, and ` : ""}ends with its torso ${plain((last[1] + last[3]) / 2, 1)} m high.`;
}
