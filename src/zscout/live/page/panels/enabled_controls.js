// Enables controls: none before the first frame; without a connection, only those that need no server.

const ALL =
  ".who button, #setup-open, #export-open, #keys-tour, #hand button, #hand input, #hand select, .transport button, .transport input";
const SERVED =
  ".who button, #play, #step, #reset, #random-task, #export-json, .stop, " +
  ".only-person button, #behaviour-save, .behaviour, #behaviour-stop, .only-person input, .only-person select, .drawer select, .drawer input";
const HIDDEN_ONLY = "#choose-second, #noise";

export class EnabledControls {
  show({ started, away, hidden, sides, status, world }) {
    const key = [started, away, hidden, sides, status.ended, world?.name].join();
    if (key === this.key) return;
    this.key = key;
    const off = [
      !started && ALL,
      (away || !started) && SERVED,
      !hidden && HIDDEN_ONLY,
      status.ended && "#step",
      world?.features.length === 1 && "#choose-features",
      world?.models.length === 1 && "#choose-model",
      !hidden && world?.kind === "stage" && "#may-change",
    ].filter(Boolean);
    const holder = document.activeElement;
    for (const control of document.querySelectorAll(`${ALL}, ${SERVED}`)) {
      const disabled = off.some((some) => control.matches(some));
      if (disabled && control === holder) this.held = control;
      control.disabled = disabled;
    }
    this.#handBack();
  }

  /** Gives the focus back to a control that was disabled while focused. */
  #handBack() {
    if (!this.held || this.held.disabled) return;
    if (document.activeElement === document.body) this.held.focus();
    this.held = null;
  }
}
