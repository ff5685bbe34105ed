// Saved behaviours: the z that was learned, by name; in this browser or in files; shown on the stage.

import { always, byId, make, mark, show, write } from "../dom.js";
import { save } from "./export.js";
import { toast } from "./toasts.js";

const FORMAT = "zscout-behaviours-1";
const MOST = 100;
const MOST_BYTES = 1_000_000;
const LONGEST_NAME = 60;
const LARGEST = 1000; // of an entry of z

/** Why something read from outside is no behaviour; empty if it is one. */
function fault(one) {
  if (typeof one !== "object" || one === null || Array.isArray(one)) return "an entry is not a behaviour";
  const { name, world, model, z, likes = "" } = one;
  if (typeof name !== "string" || !name.trim() || name.length > LONGEST_NAME) return `a name must have 1 to ${LONGEST_NAME} letters`;
  for (const text of [world, model, likes]) if (typeof text !== "string" || text.length > 200) return "world, model and likes must be short texts";
  if (!Array.isArray(z) || !z.length || z.length > 1024) return "z must be a list of numbers";
  if (!z.every((x) => typeof x === "number" && Math.abs(x) <= LARGEST)) return `the numbers of z must be within ±${LARGEST}`;
  return "";
}

const plainOnes = (list) => list.map(({ name, world, model, z, likes = "" }) => ({ name, world, model, z: [...z], likes }));

/** @returns {object[]} the behaviours in the text of a file; throws an Error that says what is wrong */
function readBehaviours(text) {
  let content;
  try {
    content = JSON.parse(text);
  } catch {
    throw new Error("it is not JSON");
  }
  if (content?.format !== FORMAT || !Array.isArray(content.behaviours)) throw new Error(`it has no format ${FORMAT}`);
  if (content.behaviours.length > MOST) throw new Error(`it has more than ${MOST} behaviours`);
  for (const one of content.behaviours) if (fault(one)) throw new Error(fault(one));
  return plainOnes(content.behaviours);
}

export class Behaviours {
  constructor(session) {
    this.session = session;
    this.shown = null; // the name of the one on the stage
    const kept = always.get("behaviours");
    this.list = Array.isArray(kept) ? plainOnes(kept.filter((one) => !fault(one)).slice(0, MOST)) : [];
    byId("behaviour-form").addEventListener("submit", (event) => (event.preventDefault(), this.#ask()));
    byId("behaviours-save").addEventListener("click", () => this.#saveFile());
    byId("behaviours-load").addEventListener("click", () => byId("behaviours-file").click());
    byId("behaviours-file").addEventListener("change", ({ target }) => this.#loadFile(target));
    byId("behaviour-stop").addEventListener("click", () => this.#stop());
  }

  /** Asks for what the agent would keep now. */
  #ask() {
    if (!this.session.send({ do: "behaviour" })) toast("Not connected right now.");
  }

  /** The server's answer: the z that the agent would keep now. */
  learned({ world, model, z, likes }) {
    const given = byId("behaviour-name").value.trim() || likes.replace(/ \(.*?\)/g, "") || "Behaviour";
    const name = given.slice(0, LONGEST_NAME).trim();
    byId("behaviour-name").value = "";
    toast(`Saved “${name}” in this browser.${this.#add([{ name, world, model, z, likes }])}`);
  }

  /** @returns {string} how many had to go, as a sentence */
  #add(found) {
    for (const one of found) {
      this.list = this.list.filter(({ name, model }) => name !== one.name || model !== one.model);
      this.list.push(one);
    }
    const gone = this.list.splice(0, Math.max(0, this.list.length - MOST)).length;
    this.#keep();
    return gone ? ` ${MOST} are kept: ${gone} older ${gone === 1 ? "one is" : "ones are"} gone.` : "";
  }

  #keep() {
    always.set("behaviours", this.list);
    this.key = null;
    this.session.page.changed();
  }

  #show(one) {
    if (!this.session.send({ do: "show", z: one.z })) return toast("Not connected right now.");
    this.asked = one.name; // the server may refuse it
  }

  /** The server's answer: it is shown now, or no other is. */
  showing({ showing }) {
    this.shown = showing ? this.asked : null;
    this.key = null;
  }

  #stop() {
    this.session.send({ do: "show", z: null });
  }

  #saveFile() {
    if (!this.list.length) return toast("There is no behaviour yet. Save one first.");
    const text = JSON.stringify({ format: FORMAT, behaviours: this.list }, null, 1);
    save(new Blob([text], { type: "application/json" }), "zscout-behaviours.json");
  }

  async #loadFile(input) {
    const [file] = input.files;
    input.value = "";
    if (!file) return;
    try {
      if (file.size > MOST_BYTES) throw new Error("it is larger than 1 MB");
      const found = readBehaviours(await file.text());
      const gone = this.#add(found);
      const other = found.filter(({ model }) => model !== this.session.setup?.model).length;
      const note = other ? ` ${other} of them are of another model.` : "";
      toast(`Loaded ${found.length} ${found.length === 1 ? "behaviour" : "behaviours"}.${note}${gone}`);
    } catch (error) {
      toast(`This file cannot be read: ${error.message}.`);
    }
  }

  draw({ world, setup }) {
    if (world.kind !== "stage") return;
    const { showing } = this.session;
    if (!showing) this.shown = null; // a new run
    const key = `${setup.model} ${showing} ${this.shown} ${this.list.length}`;
    if (key === this.key) return;
    this.key = key;
    const here = this.list.filter(({ model }) => model === setup.model);
    byId("behaviours").replaceChildren(...here.map((one) => this.#row(one)));
    show(byId("behaviours-none"), !here.length);
    show(byId("behaviour-shown"), showing);
    write(byId("behaviour-shown-name"), showing ? `Showing “${this.shown ?? "a behaviour"}”. The agent is paused.` : "");
  }

  #row(one) {
    const row = make("li");
    const play = make("button", one.name, "behaviour");
    const remove = make("button", "×", "plain icon");
    play.type = remove.type = "button";
    play.title = one.likes ? `${one.name}: ${one.likes}` : one.name; // a long name is cut
    mark(play, "aria-pressed", this.session.showing && this.shown === one.name);
    play.addEventListener("click", () => this.#show(one));
    mark(remove, "aria-label", `Delete ${one.name}`);
    remove.addEventListener("click", () => {
      this.list = this.list.filter((other) => other !== one);
      this.#keep();
      toast(`Deleted “${one.name}”.`, [{ name: "Undo", act: () => this.#add([one]) }]);
    });
    row.append(play, remove);
    return row;
  }
}
