// Everything put together: one session, one view of it, one drawing for each frame of the display.

import { startTheme } from "./colours.js";
import { Controls, listenToKeys } from "./controls.js";
import { Curves } from "./curves.js";
import { byId, mark } from "./dom.js";
import { Export, saveTrace } from "./export.js";
import { Hints } from "./hints.js";
import { Meter } from "./meter.js";
import { Painting, showReachable } from "./painting.js";
import { Person } from "./person.js";
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
const painting = new Painting({ table: session.table, changed, stroked, enabled: () => session.hidden });
const views = new Views(session, painting);
const meter = new Meter();
const banner = new Banner(() => session.connect());
const controls = new Controls({ session, changed, play });
const person = new Person(session);
const setup = new Setup(session);
const curves = new Curves({ changed, look: (step) => controls.look(step) });
const hints = new Hints();
const menu = new Export(session, () => views.now());
const sides = [];

let scheduled = false;
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
  const soon = banner.show(session.connected, now);
  facts(view);
  let moving = false;
  if (view.world && view.frame) {
    arrange(view);
    for (const side of sides) moving = side.draw(view, now) || moving;
    curves.draw(view, now);
    controls.show(view);
    person.show(view);
    setup.show(view);
    showReachable(view);
    if (!draw.before) hints.firstTime();
    draw.before = true;
  }
  meter.drawn(now, session.received);
  if (moving) changed();
  else if (soon) setTimeout(changed, 200);
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
  mark(stage, "data-blank", view.blank && view.showReward && view.newest === 0);
  while (sides.length > wanted) sides.pop().remove();
  while (sides.length < wanted) {
    const side = new Side(sides.length, changed);
    byId(sides.length ? "curves" : "hand").before(side.element);
    side.attach();
    painting.attach(side);
    side.find("compare").addEventListener("click", () => setup.open(true, "choose-second"));
    sides.push(side);
  }
  for (const side of sides) painting.describe(side.canvas, view.world, view.hidden);
}

function play() {
  const { status, hidden, table, history } = session;
  if (status.playing) return session.send({ do: "pause" });
  if (hidden && table.blank && history.newest === 0 && !insists) {
    insists = true; // the second press is meant
    return toast("Nothing is painted yet. Paint something first, or draw a random task.", [
      { name: "Draw a task", act: () => (randomTask(), session.send({ do: "play" })) },
      { name: "Play anyway", act: () => session.send({ do: "play" }) },
    ]);
  }
  if (status.ended) session.send({ do: "reset" });
  session.send({ do: "play" });
  hints.done("#play");
}

function randomTask() {
  session.table.draw(Math.floor(Math.random() * 1000000)) || toast("Not connected right now.");
  stroked();
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
}

function escape() {
  if (hints.isOpen) hints.close();
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
  "?": () => hints.open(true),
  Escape: escape,
});
byId("clear").addEventListener("click", () => (session.table.clear(), stroked()));
byId("random-task").addEventListener("click", randomTask);
byId("show-reward").addEventListener("change", (event) => {
  views.showReward = event.target.checked;
  changed();
});

startTheme(changed);
if (location.search) history.replaceState(null, "", `/${location.hash}`); // the token has done its work
session.connect();
