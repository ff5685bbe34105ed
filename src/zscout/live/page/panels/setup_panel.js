// The set-up panel: each choice with a short description.

import { Panel, byId, make, mark, seldom, show, write } from "../dom.js";
import { MOST_SEED } from "../run/link.js";
import { canStayUp, hasNetwork, unfit } from "../run/session.js";
import { toast } from "./toasts.js";

const TESTS = "A test after each reward. When it finds a change, only the rewards since then count.";
const LATE = "Thumbs come too late to test for a change. If you change your mind, reset.";

export class SetupPanel extends Panel {
  constructor(session) {
    super("setup");
    this.session = session;
    this.button = byId("setup-open");
    this.button.addEventListener("click", () => this.open(!this.isOpen));
    byId("setup-close").addEventListener("click", () => this.open(false));
    const choose = (id, change) => byId(id).addEventListener("change", (event) => session.begin(change(event.target.value)));
    choose("choose-world", (world) => ({ world }));
    choose("choose-features", (features) => ({ features }));
    choose("choose-model", (model) => ({ model, features: featuresWith(model, session) }));
    choose("choose-method", (name) => ({ methods: [name, session.setup.methods[1]].filter(Boolean) }));
    choose("choose-second", (name) => ({ methods: [session.setup.methods[0], name].filter(Boolean) }));
    const check = (id, part) => byId(id).addEventListener("change", ({ target }) => session.begin({ [part]: target.checked }));
    check("may-change", "may_change");
    check("upright", "upright");
    byId("seed").addEventListener("change", (event) => this.#seed(event.target));
    const sendNoise = seldom((value) => session.hidden && session.send({ do: "noise", value }));
    byId("noise").addEventListener("input", ({ target }) => {
      this.#noiseText(Number(target.value));
      sendNoise(Number(target.value));
    });
  }

  open(visible, focusOn = "setup-close") {
    this.turn(visible, focusOn, "setup-open");
    mark(this.button, "aria-expanded", visible);
    if (!visible && document.activeElement === document.body) this.button.focus();
  }

  #seed(field) {
    const seed = Number(field.value);
    if (field.value !== "" && Number.isInteger(seed) && seed >= 0 && seed <= MOST_SEED) this.session.begin({ seed });
    else field.value = this.session.setup.seed;
  }

  #noiseText(value) {
    write(byId("noise-now"), String(Number(value.toFixed(2))));
  }

  show(view) {
    const { setup, hello, world } = view;
    const key = JSON.stringify([setup, this.isOpen, view.refused]); // a refused choice is reset
    if (key === this.key) return;
    this.key = key;
    const methods = hello.methods.map((method) => {
      const why = unfit(method, setup);
      return { value: method.name, title: why ? `${method.name} (${why})` : method.name, disabled: why !== "" };
    });
    fill("choose-world", hello.worlds.map(offered), setup.world);
    const here = (list, names) => list.filter(({ name }) => names.includes(name));
    fill("choose-features", here(hello.features, world.features).map(named), setup.features);
    const trained = hello.networks.some(([world]) => world === setup.world);
    fill("choose-model", here(hello.models, world.models).map((m) => ({ ...named(m), disabled: m.name === "network" && !trained })), setup.model);
    fill("choose-method", methods, setup.methods[0]);
    const others = methods.filter(({ value }) => value !== setup.methods[0]);
    fill("choose-second", [{ value: "", title: "Nothing" }, ...others], setup.methods[1] ?? "");
    byId("may-change").checked = setup.may_change;
    show(byId("upright-choice"), world.kind === "stage");
    byId("upright").checked = setup.upright;
    byId("upright").disabled = !canStayUp(setup, world);
    if (document.activeElement !== byId("noise")) byId("noise").value = setup.noise;
    this.#noiseText(setup.noise);
    if (document.activeElement !== byId("seed")) byId("seed").value = setup.seed;
    this.#about(view);
  }

  #about({ setup, hello, world }) {
    const of = (list, name) => list.find((x) => x.name === name)?.about ?? "";
    write(byId("about-world"), world.about);
    write(byId("about-features"), of(hello.features, setup.features));
    write(byId("about-model"), of(hello.models, setup.model));
    write(byId("about-method"), of(hello.methods, setup.methods[0]));
    const second = setup.who === "person" ? "You can teach one method at a time." : "A second method on the same hidden reward.";
    write(byId("about-second"), setup.methods[1] ? of(hello.methods, setup.methods[1]) : second);
    const person = setup.who === "person";
    write(byId("about-noise"), person ? "No noise is added to your answers." : "Standard deviation of each reward. Applies at once.");
    write(byId("about-may-change"), late({ setup, world }) ? LATE : setup.may_change ? TESTS : "Best if the reward does not change.");
  }
}

/** Whether rewards come too late for the test: thumbs are about many steps. */
const late = ({ setup, world }) => setup.who === "person" && world.kind === "stage";

/** The features for a model: a network needs those it was trained on, and the page says if that changes them. */
function featuresWith(model, { hello, setup }) {
  if (model !== "network" || hasNetwork(hello, setup)) return setup.features;
  const trained = hello.networks.filter(([world]) => world === setup.world).map(([, features]) => features);
  const features = Object.values(hello.usual).find((usual) => trained.includes(usual)) ?? trained[0];
  const { title } = hello.features.find(({ name }) => name === features);
  toast(`The network was trained on ${title}: the features change to these.`);
  return features;
}

const offered = ({ name, title, missing }) => ({
  value: name,
  title: missing ? `${title} (${missing})` : title,
  disabled: missing !== "",
});
const named = ({ name, title }) => ({ value: name, title });

/** Replaces options only if they differ: an open list must not close. */
function fill(id, options, value) {
  const select = byId(id);
  const key = JSON.stringify(options);
  if (select.dataset.options !== key) {
    select.dataset.options = key;
    select.replaceChildren(
      ...options.map(({ value: own, title, disabled = false }) => {
        const option = make("option", title);
        option.value = own;
        option.disabled = disabled;
        return option;
      }),
    );
  }
  select.value = value;
}
