"""The files of the record, one for each arena with an entry for each case: making and comparing them."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from .cases import RUNS, STEPS, Case, Feed, arena_of, drawn, nudged
from .play import NOWHERE, NUMBERS, Played, Rows, close, play, size

FOLDER = Path(__file__).parent / "record"
TOLERANCES = FOLDER / "tolerances.json"  # of each kind, as a share of a number's size
NUDGE = {"exact": 1e-7, "network": 1e-5, "atlas": 1e-5}  # of rewards, as a share of their size, to find near ties
JUMP = 100  # times the nudge: beyond, an answer has changed; smooth numbers change up to twenty times as much
FLIP = 10  # times the nudge: beyond, two machines answer differently; smooth numbers differ up to nine times as much
MOST_OPEN, SEEDS = 0.05, 12  # share of a case's answers; feeds that are tried for it
FEED = "feed-"


@cache
def entries(arena: str) -> dict[str, Rows]:
    """What the record has of an arena: its cases, and its feeds by ``feed-<seed>``."""
    found: dict[str, Rows] = {}
    if (path := FOLDER / f"{arena}.npz").is_file():
        with np.load(path, allow_pickle=False) as file:
            for name in file:
                entry, part = name.rsplit("/", 1)
                found.setdefault(entry, {}).update(_unpacked(file[name]) if part == "numbers" else {part: file[name]})
    return found


def save(arena: str) -> None:
    """Write what ``entries`` holds, without the feeds that no case uses."""
    known = entries(arena)
    used = {f"{FEED}{int(entry['seed'])}" for entry in known.values() if "seed" in entry}
    kept = {name: entry for name, entry in sorted(known.items()) if not name.startswith(FEED) or name in used}
    FOLDER.mkdir(exist_ok=True)
    arrays: dict[str, Any] = {f"{name}/{part}": x for name, entry in kept.items() for part, x in _packed(entry).items()}
    np.savez_compressed(FOLDER / f"{arena}.npz", **arrays)


def _packed(entry: Rows) -> Rows:
    """The seed and the rows in one array: an array costs more of a file than its numbers."""
    if "z_hat" not in entry:
        return entry
    rows = [entry["seed"].reshape(1), *(entry[name].ravel() for name in NUMBERS)]
    rest = {part: x for part, x in entry.items() if part != "seed" and part not in NUMBERS}
    return rest | {"numbers": np.concatenate(rows).astype(entry["z_hat"].dtype)}


def _unpacked(numbers: np.ndarray) -> Rows:
    sizes = [1] + [times * RUNS * each for times, each in NUMBERS.values()]
    seed, *rows = np.split(numbers, np.cumsum(sizes)[:-1])
    shaped = zip(NUMBERS.items(), rows, strict=True)
    return {"seed": seed[0].astype(int)} | {
        name: row.reshape(times, RUNS, each) for (name, (times, each)), row in shaped
    }


def known(case: Case) -> Rows | None:
    """The entry of a case."""
    return entries(case.arena).get(str(case))


def feed_of(case: Case, seed: int) -> Feed:
    """The recorded feed, or one drawn now."""
    feeds = entries(case.arena)
    if f"{FEED}{seed}" not in feeds:
        feeds[f"{FEED}{seed}"] = drawn(case.arena, seed)
    return feeds[f"{FEED}{seed}"]


def tolerance(case: Case) -> float:
    """Within which numbers agree."""
    return float(json.loads(TOLERANCES.read_text())[arena_of(case.arena).kind])


def opened(entry: Rows) -> float:
    """The share of a case's answers that are open."""
    answers = RUNS * (STEPS + sum(times for times, _ in NUMBERS.values()))
    return float(sum(x.sum() for name, x in entry.items() if name.startswith("open.")) / answers)


# Make


def make(case: Case, first: int = 0) -> Rows:
    """Play the case with the first feed that leaves few answers open; none where a near tie changes what follows."""
    best: tuple[float, Rows] = (2.0, {})
    for seed in range(first, first + SEEDS):
        feed = feed_of(case, seed)
        played, swapped = play(case, feed), play(case, feed, swapped=True)
        if played.refused:
            return {"seed": np.array(seed), "refused": np.array(played.refused)}
        past_counts = bool(swapped.differs) or not np.array_equal(swapped.rows["psi"], played.rows["psi"], True)
        entry = {"seed": np.array(seed)} | _entry(case, played, past_counts)
        masks = _near_ties(case, feed, entry)
        entry |= {f"open.{name}": x for name, x in masks.items() if x.any()}
        best = min(best, (opened(entry), entry), key=lambda one: one[0])
        strict = swapped.differs or (past_counts and case.holds)
        if best[0] == 0 or (best[0] <= MOST_OPEN and not strict):
            break
    if best[0] > MOST_OPEN:
        raise ValueError(f"{case}: {best[0]:.0%} of the answers are near ties with each of {SEEDS} feeds")
    return best[1]


def _entry(case: Case, played: Played, past_counts: bool) -> Rows:
    arena, rows = arena_of(case.arena), dict(played.rows)
    number = np.float64 if arena.kind == "exact" else np.float32
    found: Rows = {}
    rows["psi"] = rows["psi"][..., :1]
    if past_counts:
        del rows["psi"]
        z = np.stack(played.z).astype(np.float64 if arena.model.dim < 5 else np.float32)
        distinct, index = np.unique(z.reshape(-1, z.shape[-1]), axis=0, return_inverse=True)
        nowhere = np.isnan(distinct).any(-1)
        index = np.where(nowhere[index.ravel()], NOWHERE, index.ravel()).reshape(z.shape[:-1])
        found = {"z": distinct[~nowhere], "index": index.astype(np.int16)}
    return found | {name: values.astype(number) for name, values in rows.items()}


def _near_ties(case: Case, feed: Feed, entry: Rows) -> Rows:
    """Which answers change when rewards change a little, by name [times, 4 runs]."""
    nudge = NUDGE[arena_of(case.arena).kind]
    base = play(case, feed).rows
    masks = {name: np.zeros(x.shape[:2], dtype=bool) for name, x in base.items()}
    for sign in (1, -1):
        rows = play(case, nudged(feed, sign * nudge), _compared(entry), JUMP * nudge).rows
        for name, mask in masks.items():
            mask |= ~close(rows[name], base[name], JUMP * nudge) if name in rows else True
    return masks


def _compared(entry: Rows) -> Rows:
    """The entry with the answers that are not compared, none without a mask."""
    return {"open.psi": np.zeros((STEPS, RUNS), dtype=bool)} | entry


# Compare


def compare(case: Case) -> Played:
    """Play the case as it was recorded; ``differs`` says where it differs."""
    entry = known(case)
    if entry is None:
        return Played(differs=["it is not in the record"])
    refused = str(entry.get("refused", ""))
    played = play(case, feed_of(case, int(entry["seed"])), None if refused else _compared(entry), tolerance(case))
    if played.refused != refused:
        played.differs.append(f"refused: {played.refused or 'no'}, recorded: {refused or 'no'}")
    elif played.rows:
        played.differs += differences(entry, played.rows, tolerance(case))
    return played


def differences(entry: Rows, rows: Rows, within: float) -> list[str]:
    """The numbers that differ from an entry; ψ of each z was compared step by step."""
    found = []
    for name, values in rows.items():
        if name != "psi":
            wrong = ~close(values, entry[name], within, size(entry[name]))
            wrong &= ~entry.get(f"open.{name}", np.zeros_like(wrong))
            found += [f"{name}[{when}], run {run}" for when, run in zip(*wrong.nonzero(), strict=True)]
    return found
