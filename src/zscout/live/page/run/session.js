// The state of the run, and the messages from and to the server.

import { thisTab } from "../dom.js";
import { History } from "./history.js";
import { decodeSetup, encodeSetup } from "./link.js";
import { PaintedReward } from "./painted_reward.js";
import { PaintingHistory } from "./painting_history.js";
import { Socket } from "./socket.js";

const IDLE = { playing: false, waiting: false, ended: false, speed: 8, noise: 0, silence: "nothing", wait: true };

export class Session {
  /**
   * @param {{changed: () => void, begun: () => void, notice: (text: string) => void, closed: (code: number) => void,
   *   hears: {[kind: string]: (m: object) => void}}} page `hears`: what other parts do with a message
   */
  constructor(page) {
    this.page = page;
    this.history = new History();
    this.paintings = new PaintingHistory();
    this.painted = new PaintedReward({ send: (m) => this.send(m), changed: () => this.#paintingChanged() });
    this.socket = new Socket({
      message: (m) => this.#receive(m),
      lost: () => this.#lost(),
      closed: (code) => (this.#lost(), page.closed(code)),
    });
    this.status = { ...IDLE };
    this.connected = false;
    this.started = false; // whether there was ever a frame
    this.lostAt = null; // when the connection was lost; null: it was not
    this.hello = this.setup = this.key = this.expressed = this.attainable = this.truth = this.constants = null;
    this.pace = null; // steps a second chosen here; null: the server's default
    this.refused = 0; // number of refused messages so far
    addEventListener("hashchange", () => this.hello && this.#beginFromHash());
  }

  connect() {
    this.socket.connect();
  }

  send(message) {
    return this.connected && this.socket.send(message);
  }

  get world() {
    return this.setup ? this.worlds.get(this.setup.world) : null;
  }

  get hidden() {
    return this.setup?.who !== "person";
  }

  /** Begins a new run with some choices changed; keeps the painting of the world. */
  begin(change = {}) {
    const setup = fitting({ ...this.setup, ...change, ...this.#usual(change.world) }, this.hello);
    setup.reward = setup.who === "hidden" ? this.painted.rewardFor(setup.world) : null;
    this.wantsPlay = this.status.playing && setup.who === this.setup?.who;
    if (!this.send({ do: "begin", setup })) {
      if (setup.world !== this.setup.world) this.history.clear(); // its frames are of the other world
      this.setup = setup; // offline: begin with it when the connection is back
      this.key = null;
      this.page.changed();
    }
  }

  /** Another kind of world has its own defaults: a body needs less noise than a map. */
  #usual(name) {
    const [before, next] = [this.world, this.worlds?.get(name)];
    if (!before || !next || before.kind === next.kind) return {};
    const { noise, wait, silence } = { ...this.hello.defaults, ...next.usual };
    this.pace = null;
    return { noise, wait, silence };
  }

  #beginFromHash() {
    const { setup, broken } = decodeSetup(location.hash, this.hello);
    if (broken) this.page.notice("Part of this link could not be read. Defaults are used instead.");
    const { usual } = this.worlds.get(setup.world ?? this.hello.defaults.world);
    this.send({ do: "begin", setup: fitting({ ...this.hello.defaults, ...usual, ...setup }, this.hello) });
  }

  #receive(message) {
    this[`on_${message.is}`]?.(message);
    this.page.hears[message.is]?.(message);
    this.page.changed();
  }

  on_hello(message) {
    this.hello = message;
    this.worlds = new Map(message.worlds.map((world) => [world.name, numbered(world)]));
    this.connected = true;
    this.lostAt = null;
    const run = this.key ?? (this.setup ? null : this.#found(message));
    if (run) {
      this.send({ do: "resume", run, after: this.history.newest }); // −1 in a new page: all frames
    } else if (this.setup) this.begin();
    else this.#beginFromHash();
  }

  /** The run to take over in a new page: this tab's, else the server's, unless the link says what to begin. */
  #found({ run }) {
    const before = thisTab.get("run");
    return before?.hash === location.hash ? before.run : location.hash ? null : run;
  }

  on_begun(message) {
    this.key = message.run;
    this.setup = message.setup;
    this.constants = message.constants;
    const { steps, kept } = this.hello.limits;
    this.history.most = 1 + (this.world.kind === "stage" ? kept : steps);
    this.showing = message.showing; // whether the agent is paused and a saved behaviour acts
    if (message.resumed) this.#resumed(message);
    else {
      this.history.clear();
      this.paintings.clear();
      this.painted.begin(this.setup.world, message.reward);
      this.expressed = this.attainable = this.truth = null;
    }
    this.firstStatus = () => {
      const pace = this.pace ?? (message.resumed ? null : this.world.pace);
      if (pace && this.status.speed !== pace) this.send({ do: "speed", value: pace });
      if (this.wantsPlay) this.send({ do: "play" });
      this.wantsPlay = false;
    };
    this.page.begun();
    this.#remember();
  }

  #resumed({ run, reward }) {
    const before = thisTab.get("run");
    const reloaded = !this.paintings.list.length && before?.run === run;
    if (reloaded) this.paintings.restore(before.past, this.world.entries);
    this.wantsPlay = false; // a resumed run continues as it was
    this.painted.resume(this.setup.world, reward);
  }

  on_notice(message) {
    this.page.notice(String(message.about));
  }

  on_gone(message) {
    this.page.notice(`${message.about} A new run starts.`);
    if (!this.hidden) this.status.playing = false; // a person starts it again
    this.key = null;
    if (this.setup) this.begin();
    else this.#beginFromHash();
  }

  on_status({ is, ...status }) {
    if (status.ended && !this.status.ended) this.page.notice("The run is complete. Play starts it again.");
    Object.assign(this.status, status);
    for (const name of ["noise", "silence", "wait"]) if (name in status && this.setup) this.setup[name] = status[name];
    this.firstStatus?.();
    this.firstStatus = null;
    this.#remember();
  }

  on_reward(message) {
    this.painted.confirm(message.reward);
    this.paintings.put(message.since, message.reward);
    this.expressed = message.expressed ?? null;
    this.attainable = message.attainable ?? null;
    this.truth = message.truth ?? null;
    this.#remember();
  }

  on_frame(message) {
    this.started = true;
    this.history.put(message);
  }

  on_ghost({ is, ...ghost }) {
    this.history.putGhost(ghost);
  }

  /** Rewards of earlier steps: a person's thumb, or silence. */
  on_credit(message) {
    for (const step of message.steps) {
      const frame = this.history.at(step);
      if (frame) frame.sides[0] = { ...frame.sides[0], reward: message.value };
    }
    this.history.version += 1;
  }

  on_showing(message) {
    this.showing = message.showing;
  }

  on_error(message) {
    this.refused += 1;
    this.page.notice(String(message.about));
    if (!this.setup && this.refused === 1) this.send({ do: "begin", setup: {} }); // the link is invalid: use the defaults
  }

  #paintingChanged() {
    this.page.changed();
    this.#remember();
  }

  #lost() {
    this.connected = false;
    this.lostAt ??= performance.now();
    this.page.changed();
  }

  get link() {
    return encodeSetup(this.setup, this.hidden ? this.painted.tableFor(this.setup.world) : null);
  }

  /** Stores the run in the address and this tab; delayed, since browsers limit how often an address may change. */
  #remember() {
    this.saving ??= setTimeout(() => {
      this.saving = null;
      if (!this.setup || !this.key) return;
      history.replaceState(null, "", `/#${this.link}`);
      thisTab.set("run", { run: this.key, hash: location.hash, past: this.paintings.list });
    }, 400);
  }
}

/** A world with the state of each cell, −1 for walls. */
function numbered(world) {
  if (world.kind === "stage") return world;
  const index = new Int16Array(world.rows * world.columns).fill(-1);
  world.cells.forEach(([row, column], state) => (index[row * world.columns + column] = state));
  return { ...world, index };
}

/** The nearest valid set-up: features of the world, a network only where one was trained, methods that can run. */
function fitting(setup, hello) {
  const world = hello.worlds.find(({ name }) => name === setup.world);
  const usual = world.features.includes(hello.usual[setup.who]) ? hello.usual[setup.who] : world.features[0];
  const features = world.features.includes(setup.features) ? setup.features : usual;
  const works = world.models.includes(setup.model) && (setup.model !== "network" || hasNetwork(hello, { ...setup, features }));
  const model = works ? setup.model : world.models.at(-1);
  const usable = (name) => {
    const method = hello.methods.find((m) => m.name === name);
    return method && unfit(method, setup) === "";
  };
  const methods = [...new Set(setup.methods)].filter(usable).slice(0, setup.who === "hidden" ? 2 : 1);
  if (!methods.length) methods.push(hello.defaults.methods[0]);
  const upright = setup.upright && canStayUp({ methods }, world);
  return { ...setup, features, model, methods, upright };
}

/** Whether behaviours that fall can be left out: only the default, on a body, knows them. */
export function canStayUp({ methods }, world) {
  return world.kind === "stage" && methods.length === 1 && methods[0] === "usf-ucb";
}

export function hasNetwork(hello, setup) {
  return hello.networks.some(([world, features]) => world === setup.world && features === setup.features);
}

/** Why a method does not work in a set-up; empty if it does. */
export function unfit(method, setup) {
  return setup.who === "person" && !method.person ? "needs every reward" : "";
}
