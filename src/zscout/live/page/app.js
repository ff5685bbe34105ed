// Everything put together: one session, one view of it, one drawing for each frame of the display.

import { startTheme } from "./colours.js";
import { Controls } from "./controls.js";
import { Curves } from "./curves.js";
import { byId, mark, show } from "./dom.js";
import { Export, saveTrace } from "./export.js";
import { Hints } from "./hints.js";
import { Keys, listenToKeys } from "./keys.js";
import { Meter } from "./meter.js";
import { Painting, showAttainable, showExpressed } from "./painting.js";
import { Person } from "./person.js";
import { Reach } from "./reach.js";
import { Session } from "./session.js";
import { Setup } from "./setup.js";
import { Side } from "./side.js";
import { Banner, toast } from "./toasts.js";
import { Views } from "./view.js";

const FORGETS = 70; // steps: the memory offered to whoever changes their mind

const session = new Session({
  changed,
  begun,
  notice: toast,
  trace: saveTrace,
  closed: (code) => (banner.stop(code), changed()),
});
const painting = new Painting({ table: session.table, changed, stroked, toLive, enabled: () => session.hidden });
const views = new Views(session, painting);
const meter = new Meter();
const banner = new Banner(() => session.connect());
const controls = new Controls({ session, changed, play });
const person = new Person(session);
const setup = new Setup(session);
const curves = new Curves({ changed, look: (step) => controls.look(step) });
const hints = new Hints();
const keys = new Keys({ opens: () => hints.close(), showTour: () => hints.again() });
const reach = new Reach();
const menu = new Export(session, () => views.now());
const sides = [];

let scheduled = false;
let again = null;
let toldOfForgetting = false;
let insists = false;

/** Something is different: draw with the next frame of the display, once. */
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
  reach.show(view);
  show(byId("starting"), !view.started);
  show(byId("starting-text"), !banner.visible);
  let moving = false;
  if (view.world && view.frame) {
    arrange(view);
    for (const side of sides) moving = side.draw(view, now) || moving;
    curves.draw(view, now);
    controls.show(view);
    person.show(view);
    setup.show(view);
    showExpressed(view);
    showAttainable(view);
    if (!draw.before) hints.firstTime();
    draw.before = true;
  }
  meter.drawn(now, session.received);
  if (moving) changed();
  else if (soon) again ??= setTimeout(() => ((again = null), changed()), 200);
}

function facts(view) {
  const { body } = document;
  mark(body, "data-connected", view.connected);
  mark(body, "data-step", Math.max(0, view.step));
  mark(body, "data-live-step", Math.max(0, view.newest));
  mark(body, "data-playing", view.status.playing);
  mark(body, "data-waiting", view.status.waiting);
  mark(body, "data-run", view.key);
}

/** As many sides as there are methods. */
function arrange(view) {
  const stage = byId("stage");
  const wanted = view.frame.sides.length;
  mark(stage, "data-sides", wanted);
  mark(stage, "data-who", view.setup.who);
  mark(stage, "data-blank", view.blank && view.showReward && view.newest === 0 && !walled(view.world));
  while (sides.length > wanted) {
    const side = sides.pop();
    const held = side.element.contains(document.activeElement);
    side.remove();
    if (held) sides[0].find("compare").focus(); // where a second one can be had again
  }
  while (sides.length < wanted) {
    const side = new Side(sides.length, changed);
    byId(sides.length ? "curves" : "hand").before(side.element);
    side.attach();
    painting.attach(side);
    side.find("compare").addEventListener("click", () => setup.open(true, "choose-second"));
    side.find("stop").addEventListener("click", stopComparing);
    sides.push(side);
  }
  for (const side of sides) painting.describe(side.canvas, view.world, view.hidden);
}

const walled = ({ cells, rows, columns }) => cells.length < rows * columns;

function stopComparing() {
  session.begin({ methods: session.setup.methods.slice(0, 1) });
}

function play() {
  const { status, hidden, table, history } = session;
  if (!session.connected || !session.started) return;
  if (status.playing) return session.send({ do: "pause" });
  if (hidden && table.blank && history.newest === 0 && !insists) {
    insists = true; // the second press is meant
    return toast("Nothing is painted yet. Paint something first, or take a random task.", [
      { name: "Take a task", act: () => (randomTask(), session.send({ do: "play" })) },
      { name: "Play anyway", act: () => session.send({ do: "play" }) },
    ]);
  }
  if (status.ended) session.send({ do: "reset" });
  session.send({ do: "play" });
  hints.done("#play");
}

function randomTask() {
  toLive();
  if (!session.table.draw(Math.floor(Math.random() * 1000000))) return toast("Not connected right now.");
  if (!views.showReward) toast("A random task is hidden now.");
  stroked();
}

function clear() {
  toLive();
  const undo = session.table.clear();
  if (!undo) return;
  toast("Cleared.", [{ name: "Undo", act: () => (toLive(), undo()) }]);
  stroked();
}

/** What is painted holds from now on, so now is what must be seen. */
function toLive() {
  if (session.history.live) return;
  controls.live();
  toast("Back to live: what you paint counts from now on.");
}

function stroked() {
  hints.done("#world");
  if (toldOfForgetting || session.history.newest < 1 || session.setup.memory !== null) return;
  toldOfForgetting = true;
  toast("You changed your mind, but it never forgets: it will be slow to follow.", [
    { name: `Let it forget (about ${FORGETS} steps)`, act: () => session.begin({ memory: FORGETS }) },
  ]);
}

function begun() {
  insists = toldOfForgetting = false;
  painting.dabs.clear(); // places of another run
}

function escape() {
  if (keys.isOpen) keys.open(false);
  else if (hints.isOpen) hints.close();
  else if (menu.isOpen) menu.open(false);
  else if (setup.isOpen) setup.open(false);
  else return false;
}

const good = () => person.give(1);
const bad = () => person.give(-1);
const brush = (kind) => () => (session.hidden ? painting.choose(kind) : false);
listenToKeys({
  " ": play,
  p: play,
  s: () => controls.step(),
  ArrowRight: () => controls.step(),
  r: () => controls.reset(),
  l: () => controls.live(),
  g: brush("good"),
  b: brush("bad"),
  e: brush("erase"),
  ArrowUp: good,
  k: good,
  "+": good,
  ArrowDown: bad,
  j: bad,
  "-": bad,
  "−": bad,
  n: () => person.skip(),
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
if (/[#&]who=person(&|$)/.test(location.hash)) mark(byId("stage"), "data-who", "person"); // what will be there, from the start
if (location.search) history.replaceState(null, "", `/${location.hash}`); // the token has done its work
session.connect();
