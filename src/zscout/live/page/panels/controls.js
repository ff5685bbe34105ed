// Play, step, reset, speed and time at the bottom; the switch between the two modes.

import { byId, mark, seldom, write } from "../dom.js";
import { LONG_MS, toast } from "./toasts.js";

const FASTEST = 50; // slider position p in 0 … 30 means 50^(p/30) steps a second
const LAST = 30;
const paceAt = (place) => FASTEST ** (place / LAST);
const placeOf = (pace) => (LAST * Math.log(Math.max(1, pace))) / Math.log(FASTEST);
const paceText = (pace) => `${pace < 9.95 ? Number(pace.toFixed(1)) : Math.round(pace)}`;
const MANY_ANSWERS = 5; // from this number on, ask before discarding them

export class Controls {
  /** @param {{session: object, play: () => void, changed: () => void}} outside */
  constructor({ session, play, changed }) {
    this.session = session;
    this.changed = changed;
    this.warnedAt = -Infinity;
    this.sendPace = seldom((value) => session.send({ do: "speed", value }));
    byId("play").addEventListener("click", play);
    byId("step").addEventListener("click", () => this.step());
    byId("reset").addEventListener("click", () => this.reset());
    byId("live").addEventListener("click", () => this.live());
    byId("scrub").addEventListener("input", (event) => this.look(Number(event.target.value)));
    byId("speed").addEventListener("input", (event) => this.#pace(paceAt(Number(event.target.value))));
    byId("mode-hidden").addEventListener("click", () => this.#who("hidden"));
    byId("mode-person").addEventListener("click", () => this.#who("person"));
    new ResizeObserver(([entry]) => {
      document.body.style.setProperty("--transport", `${Math.ceil(entry.target.offsetHeight)}px`);
    }).observe(document.querySelector(".transport"));
  }

  step() {
    this.live();
    this.session.send({ do: "step" });
  }

  reset() {
    this.session.send({ do: "reset" });
  }

  live() {
    this.session.history.pinned = null;
    this.changed();
  }

  look(step) {
    this.session.history.look(step);
    this.changed();
  }

  #pace(pace) {
    this.session.pace = Math.round(pace * 10) / 10;
    this.changed();
    this.sendPace(this.session.pace);
  }

  /** Answers would be lost, so the first click only warns. */
  #who(who) {
    const { setup, history } = this.session;
    if (!setup || setup.who === who) return;
    const answers = setup.who === "person" ? (history.at(history.newest)?.sides[0].told ?? 0) : 0;
    const warned = performance.now() - this.warnedAt < LONG_MS;
    if (answers < MANY_ANSWERS || warned) return this.#change(who);
    this.warnedAt = performance.now();
    this.closeWarning = toast(`This ends the run and discards its ${answers} answers.`, [
      { name: "End it", act: () => this.#change(who) },
    ]);
  }

  /** Each mode has default features; features chosen by hand are kept. */
  #change(who) {
    this.closeWarning?.();
    this.warnedAt = -Infinity;
    const { setup, hello } = this.session;
    if (setup.who === who) return;
    const chosen = setup.model === "network" || setup.features !== hello.usual[setup.who];
    this.session.begin({ who, features: chosen ? setup.features : hello.usual[who] });
  }

  show(view) {
    const { status } = view;
    const play = byId("play");
    mark(play, "aria-label", status.playing ? "Pause" : status.ended ? "Play again from the start" : "Play");
    mark(play, "title", `${status.playing ? "Pause" : "Play"} (p or space)`);
    mark(play.querySelector("use"), "href", status.playing ? "#i-pause" : "#i-play");
    const episode = view.world?.horizon ? `, episode ${view.frame?.sides[0].episode ?? 1}` : "";
    write(byId("counter"), `step ${Math.max(0, view.step)} of ${view.limit}${episode}`);
    const scrub = byId("scrub");
    mark(scrub, "min", view.first);
    mark(scrub, "max", Math.max(view.first, view.newest));
    if (Number(scrub.value) !== view.step) scrub.value = view.step;
    mark(scrub, "aria-valuetext", `step ${view.step}${view.live ? ", live" : ""}`);
    mark(byId("live"), "aria-pressed", view.live);
    write(byId("live"), view.live ? "Live" : "Back to live");
    const speed = byId("speed");
    const place = Math.round(2 * placeOf(view.pace)) / 2;
    if (document.activeElement !== speed && Number(speed.value) !== place) speed.value = place;
    write(byId("speed-now"), `${paceText(view.pace)}/s`);
    mark(speed, "aria-valuetext", `${paceText(view.pace)} steps a second`);
    mark(byId("mode-hidden"), "aria-pressed", view.hidden);
    mark(byId("mode-person"), "aria-pressed", !view.hidden);
  }
}
