// A set-up as the hash of an address, and back; everything read is checked.

export const MOST_SEED = 2147483647;

/** Run-length encoding of hundredths in base 36: "0~40.2s~3" is forty zeros and three times 1. */
function encodeTable(values) {
  const runs = [];
  for (const value of values) {
    const code = Math.round(value * 100).toString(36);
    const last = runs.at(-1);
    if (last?.code === code) last.count += 1;
    else runs.push({ code, count: 1 });
  }
  return runs.map(({ code, count }) => (count > 1 ? `${code}~${count}` : code)).join(".");
}

function decodeTable(text, length) {
  const values = [];
  for (const run of text.split(".")) {
    const found = run.match(/^(-?[0-9a-z]{1,3})(?:~(\d{1,3}))?$/);
    if (!found) return null;
    const value = parseInt(found[1], 36) / 100;
    if (Math.abs(value) > 10) return null;
    for (let i = Number(found[2] ?? 1); i > 0 && values.length <= length; i--) values.push(value);
  }
  return values.length === length ? values : null;
}

export function encodeSetup(setup, table) {
  const parts = new URLSearchParams({ world: setup.world, features: setup.features, model: setup.model, who: setup.who });
  parts.set("methods", setup.methods.join(","));
  parts.set("noise", setup.noise);
  parts.set("may_change", setup.may_change ? "1" : "0");
  parts.set("seed", setup.seed);
  if (setup.upright) parts.set("upright", "1");
  if (setup.who === "person") {
    parts.set("silence", setup.silence);
    parts.set("wait", setup.wait ? "1" : "0");
  }
  if (table) parts.set("painting", encodeTable(table));
  return parts.toString().replaceAll("%2C", ",").replaceAll("%7E", "~");
}

/**
 * The set-up in a hash, for `begin`; invalid parts become the defaults.
 * @returns {{setup: object, broken: boolean}}
 */
export function decodeSetup(hash, hello) {
  const parts = new URLSearchParams(hash.replace(/^#/, ""));
  const setup = {};
  let broken = false;
  const take = (name, read) => {
    const text = parts.get(name);
    if (text === null) return;
    const value = read(text);
    if (value === undefined) broken = true;
    else setup[name] = value;
  };
  const oneOf = (names) => (text) => (names.includes(text) ? text : undefined);
  const number = (low, high, whole) => (text) => {
    const x = text.trim() === "" ? NaN : Number(text);
    return x >= low && x <= high && (!whole || Number.isInteger(x)) ? x : undefined;
  };
  const flag = (text) => ({ 0: false, 1: true })[text];
  take("world", oneOf(hello.worlds.filter((w) => !w.missing).map((w) => w.name)));
  take("features", oneOf(hello.features.map((f) => f.name)));
  take("model", oneOf(hello.models.map((m) => m.name)));
  take("who", oneOf(["hidden", "person"]));
  take("noise", number(0, 5, false));
  take("may_change", flag);
  take("seed", number(0, MOST_SEED, true));
  take("silence", oneOf(["nothing", "zero"]));
  take("upright", flag);
  take("wait", flag);
  take("methods", (text) => {
    const names = text.split(",");
    const known = hello.methods.map((m) => m.name);
    return names.length <= 2 && names.every((name) => known.includes(name)) ? names : undefined;
  });
  const world = hello.worlds.find((w) => w.name === (setup.world ?? hello.defaults.world));
  take("painting", (text) => decodeTable(text, world.entries) ?? undefined);
  if (setup.painting) {
    if ((setup.who ?? hello.defaults.who) === "hidden") setup.reward = { table: setup.painting };
    delete setup.painting;
  }
  return { setup, broken: broken || (hash.length > 1 && !Object.keys(setup).length) };
}
