// The agent glides along its way, but jumps when the step shown is not the next one.

import { calm } from "../dom.js";

const PULSE_MS = 420;

export class Motion {
  constructor() {
    this.step = null;
    this.place = [0, 0]; // row and column, as drawn
  }

  /** Starts the move to a new frame. A way of several places is followed at an even speed until the next step. */
  aim({ step, way, reward, glides, pace, now }) {
    const next = step === this.step + 1 && (glides || way.length > 1) && !calm();
    this.steady = way.length > 1;
    this.way = next ? [glides ? this.place : way[0], ...(this.steady ? way.slice(1) : way)] : way.slice(-1);
    this.began = now;
    this.lasts = next ? (this.steady ? Math.min(400, 1000 / pace) : Math.min(170, 850 / pace)) : 0;
    if (step !== this.step) this.pulse = reward !== null && pace <= 15 && !calm() ? { began: now, value: reward } : null;
    else if (reward !== null && this.reward === null && !calm()) this.pulse = { began: now, value: reward };
    this.reward = reward;
    this.step = step;
  }

  /** Where it is now. @returns {{place: number[], pulse: {phase: number, value: number} | null, moving: boolean}} */
  at(now) {
    const t = this.lasts ? Math.min(1, Math.max(0, (now - this.began) / this.lasts)) : 1;
    const along = (this.steady ? t : t * t * (3 - 2 * t)) * (this.way.length - 1);
    const from = this.way[Math.floor(along)];
    const to = this.way[Math.ceil(along)];
    this.place = from.map((a, i) => a + (to[i] - a) * (along % 1));
    const phase = this.pulse ? (now - this.pulse.began) / PULSE_MS : 1;
    const pulse = phase < 1 ? { phase: Math.max(0, phase), value: this.pulse.value } : null;
    return { place: this.place, pulse, moving: t < 1 || pulse !== null };
  }
}
