// Connects all parts: one session, drawn once per animation frame.

import { Behaviours } from "./panels/behaviours.js";
import { Brush, showAttainable, showExpressed } from "./sides/brush.js";
import { Clips } from "./panels/clips.js";
import { startTheme } from "./draw/colours.js";
import { Controls } from "./panels/controls.js";
import { Curves } from "./sides/curves.js";
import { always, byId, mark, show } from "./dom.js";
import { EnabledControls } from "./panels/enabled_controls.js";
import { Export, saveSteps } from "./panels/export.js";
import { Hints } from "./panels/hints.js";
import { Keys, listenToKeys } from "./panels/keys.js";
import { Parts, arrangeHand } from "./panels/parts.js";
import { Person } from "./panels/person.js";
import { Session } from "./run/session.js";
import { SetupPanel } from "./panels/setup_panel.js";
import { Side } from "./sides/side.js";
import { Thumbs } from "./panels/thumbs.js";
import { Banner, toast } from "./panels/toasts.js";
import { Views } from "./sides/view.js";

const session = new Session({
  changed,
  begun,
  notice: toast,
  closed: (code) => (banner.stop(code), changed()),
  hears: {
    export: saveSteps,
    credit: (message) => thumbs.told(message),
    behaviour: (message) => behaviours.learned(message),
    showing: (message) => behaviours.showing(message),
    clips: (message) => clips.received(message),
    preferred: (message) => clips.preferred(message),
  },
});
const brush = new Brush({ painted: session.painted, changed, stroked, toLive, enabled: () => session.hidden });
const parts = new Parts({ painted: session.painted, toLive, stroked });
const views = new Views(session, brush);
const banner = new Banner(() => session.connect());
const controls = new Controls({ session, changed, play });
const person = new Person(session);
const thumbs = new Thumbs(session);
const behaviours = new Behaviours(session);
const clips = new Clips(session);
const setup = new SetupPanel(session);
const curves = new Curves({ changed, look: (step) => controls.look(step) });
const hints = new Hints();
const keys = new Keys({ opens: () => hints.close(), showTour: () => hints.again() });
const enabled = new EnabledControls();
const menu = new Export(session, () => views.now());
const sides = [];

let scheduled = false;
let again = null;
let offeredTest = false;
let warnedBlank = false;

/** Draws once, in the next animation frame. */
function changed() {
  if (scheduled) return;
  scheduled = true;
  requestAnimationFrame(draw);
}

function draw(now) {
  scheduled = false;
  const view = views.now();
  const soon = banner.show(session, now);
  facts(view);
  enabled.show(view);
  show(byId("starting"), !view.started);
  show(byId("starting-text"), !banner.visible);
  let moving = false;
  if (view.world && view.frame) {
    arrange(view);
    for (const side of sides) moving = side.draw(view, now) || moving;
    curves.draw(view, now);
    controls.show(view);
    person.show(view);
    parts.show(view);
    thumbs.show(view);
    behaviours.draw(view);
    setup.show(view);
    showExpressed(view);
    showAttainable(view);
    if (!draw.before) hints.firstTime();
    draw.before = true;
  }
  if (moving) changed();
  else if (soon) again ??= setTimeout(() => ((again = null), changed()), 200);
}

function facts(view) {
  const { body } = document;
  mark(body, "data-connected", view.connected);
  mark(body, "data-step", Math.max(0, view.step));
  mark(body, "data-live-step", view.newest); // −1 before a run's first frame
  mark(body, "data-unsent", session.painted.unsent);
  mark(body, "data-playing", view.status.playing);
  mark(body, "data-waiting", view.status.waiting);
  mark(body, "data-run", view.key);
  mark(body, "data-world", view.setup?.world);
}

/** One side for each method. */
function arrange(view) {
  const stage = byId("stage");
  const wanted = view.frame.sides.length;
  mark(stage, "data-sides", wanted);
  mark(stage, "data-who", view.setup.who);
  mark(stage, "data-kind", view.world.kind);
  arrangeHand(view);
  mark(stage, "data-blank", view.blank && view.showReward && view.newest === 0 && open(view.world));
  while (sides.length > wanted) {
    const side = sides.pop();
    const held = side.element.contains(document.activeElement);
    side.remove();
    if (held) sides[0].find("compare").focus(); // the button that adds a second method again
  }
  while (sides.length < wanted) {
    const side = new Side(sides.length, changed);
    byId(sides.length ? "curves" : "hand").before(side.element);
    side.attach();
    brush.attach(side);
    side.find("ghost-on")?.addEventListener("change", () => turnGhost());
    side.find("compare").addEventListener("click", () => setup.open(true, "choose-second"));
    side.find("stop").addEventListener("click", stopComparing);
    sides.push(side);
  }
  for (const side of sides) brush.describe(side.canvas, view.world, view.hidden);
}

/** A map without walls: there is room for an invitation. */
const open = ({ kind, cells, rows, columns }) => kind === "map" && cells.length === rows * columns;

function turnGhost() {
  views.showGhost = !views.showGhost;
  always.set("ghost", views.showGhost);
  changed();
}

function stopComparing() {
  session.begin({ methods: session.setup.methods.slice(0, 1) });
}

function play() {
  const { status, hidden, painted, history } = session;
  if (!session.connected || !session.started) return;
  if (status.playing) return session.send({ do: "pause" });
  if (hidden && painted.blank && history.newest === 0 && !warnedBlank) {
    warnedBlank = true; // a second press plays
    const blank = session.world.kind === "stage" ? "Nothing is hidden yet. Choose" : "Nothing is painted yet. Paint";
    return toast(`${blank} something first, or take a random task.`, [
      { name: "Random task", act: () => (randomTask(), session.send({ do: "play" })) },
      { name: "Play anyway", act: () => session.send({ do: "play" }) },
    ]);
  }
  if (status.ended) session.send({ do: "reset" });
  session.send({ do: "play" });
  hints.done("#play");
}

function randomTask() {
  toLive();
  if (!session.painted.draw(Math.floor(Math.random() * 1000000))) return toast("Not connected right now.");
  if (!views.showReward) toast("A random task is hidden now.");
  stroked();
}

function clear() {
  toLive();
  const undo = session.painted.clear();
  if (!undo) return;
  toast("Cleared.", [{ name: "Undo", act: () => (toLive(), undo()) }]);
  stroked();
}

/** Painting changes the reward from now on, so show the present. */
function toLive() {
  if (session.history.live) return;
  controls.live();
  toast("Back to live: what you hide counts from now on.");
}

function stroked() {
  hints.done(onStage() ? "#tasks" : "#world");
  if (offeredTest || session.history.newest < 1 || session.setup.may_change) return;
  offeredTest = true;
  toast("The reward changed, but the set-up says that it stays: it will adapt slowly.", [
    { name: "The task may change", act: () => session.begin({ may_change: true }) },
  ]);
}

function begun() {
  warnedBlank = offeredTest = false;
  brush.begun(session.setup.world);
  thumbs.begun();
  clips.close();
}

function escape() {
  if (keys.isOpen) keys.open(false);
  else if (hints.isOpen && !setup.isOpen) hints.close();
  else if (clips.isOpen) clips.close();
  else if (menu.isOpen) menu.open(false);
  else if (setup.isOpen) setup.open(false);
  else return false;
}

const onStage = () => session.world?.kind === "stage";
const good = () => (onStage() ? thumbs.press(1) : person.give(1));
const bad = () => (onStage() ? thumbs.press(-1) : person.give(-1));
const choose = (kind) => () => (session.hidden && !onStage() ? brush.choose(kind) : false);
listenToKeys({
  " ": play,
  p: play,
  s: () => controls.step(),
  ArrowRight: () => (clips.isOpen ? clips.answer(1) : controls.step()),
  ArrowLeft: () => (clips.isOpen ? clips.answer(0) : false),
  r: () => controls.reset(),
  l: () => controls.live(),
  g: () => (onStage() ? turnGhost() : choose("good")()),
  b: choose("bad"),
  e: choose("erase"),
  ArrowUp: good,
  k: good,
  "+": good,
  ArrowDown: bad,
  j: bad,
  "-": bad,
  "−": bad,
  m: () => clips.more() || (onStage() && thumbs.learnOn()),
  n: () => (onStage() ? false : person.skip()),
  "?": () => keys.open(!keys.isOpen),
  Escape: escape,
});
byId("clear").addEventListener("click", clear);
byId("random-task").addEventListener("click", randomTask);
byId("show-reward").addEventListener("change", (event) => {
  views.showReward = event.target.checked;
  changed();
});

startTheme(changed);
if (/[#&]who=person(&|$)/.test(location.hash)) mark(byId("stage"), "data-who", "person"); // show the right controls from the start
if (location.search) history.replaceState(null, "", `/${location.hash}`); // remove the token: it is in a cookie now
session.connect();
