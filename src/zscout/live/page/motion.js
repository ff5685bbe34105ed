// The agent glides from place to place, but jumps when the step shown is not the next one.

import { calm } from "./dom.js";

const PULSE_MS = 420;

export class Motion {
  constructor() {
    this.step = null;
    this.place = [0, 0]; // row and column, as drawn
  }

  /** Starts the move to a new frame. */
  aim({ step, cell, reward, glides, pace, now }) {
    const next = step === this.step + 1 && glides && !calm();
    this.from = next ? this.place : cell;
    this.to = cell;
    this.began = now;
    this.lasts = next ? Math.min(170, 850 / pace) : 0;
    if (step !== this.step) this.pulse = reward !== null && pace <= 15 && !calm() ? { began: now, value: reward } : null;
    else if (reward !== null && this.reward === null && !calm()) this.pulse = { began: now, value: reward };
    this.reward = reward;
    this.step = step;
  }

  /** Where it is now. @returns {{place: number[], pulse: {phase: number, value: number} | null, moving: boolean}} */
  at(now) {
    const t = this.lasts ? Math.min(1, Math.max(0, (now - this.began) / this.lasts)) : 1;
    const eased = t * t * (3 - 2 * t);
    this.place = this.from.map((a, i) => a + (this.to[i] - a) * eased);
    const phase = this.pulse ? (now - this.pulse.began) / PULSE_MS : 1;
    const pulse = phase < 1 ? { phase: Math.max(0, phase), value: this.pulse.value } : null;
    return { place: this.place, pulse, moving: t < 1 || pulse !== null };
  }
}
