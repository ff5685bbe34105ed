"""Method settings for each arena: grids, the two choices made on tuning tasks, and their stored records."""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Any

from gymnasium.spaces import Discrete
from scipy.stats import binom

from zscout.base.edge import known_name
from zscout.base.files import read_json
from zscout.lab.arenas.arena import Arena, Tasks
from zscout.lab.compare.comparison import Entrant, Outcome
from zscout.lab.runs.spec import settings_json
from zscout.transfer.methods import METHODS

BUDGET = 16  # settings tried for each method, without those that follow a choice at the edge of its grid
FEWEST, SETTLING = "fewest", "settling"  # the two choices
CHOICES = ("auto", "tuned", FEWEST, SETTLING)  # names of stored settings
DEFAULTS_OF_OURS = ("usf-ucb", "usf-ucb-norm")  # run with their defaults unless tuned settings are named

Settings = dict[str, Any]
TuningRecord = dict[str, Any]  # of an arena: see ``record_head``; of one setting: see ``tried_settings``
Tried = Mapping[str, Sequence[TuningRecord]]  # every setting tried, by method


def grid_of(**choices: Sequence[Any]) -> list[Settings]:
    """All combinations."""
    return [dict(zip(choices, values, strict=True)) for values in product(*choices.values())]


GRIDS: Mapping[str, list[Settings]] = {
    "usf-ucb": grid_of(kappa=[0.8, 1.2, 1.6, 2.2], gamma=[0.8, 0.9], ridge=[0.1, 0.3]),
    "usf-ucb-norm": grid_of(kappa=[1.3, 1.8, 2.3, 2.8], gamma=[0.8, 0.9], ridge=[0.1, 0.2]),
    "usf-ucb-paper": grid_of(ridge=[0.09, 0.3, 1.0, 3.0], beta=[0.1, 0.3, 1.0, 3.0]),
    "opti": grid_of(ridge=[0.03, 0.09, 0.3, 1.0], radius=[0.3, 0.5, 0.8, 1.2]),
    "opti-shipped": grid_of(ridge=[0.03, 0.09, 0.3, 1.0], radius=[0.3, 0.5, 0.8, 1.2]),
    "thompson": grid_of(scale=[0.3, 0.6, 1.0, 1.7], hold=[1, 3, 5, 10]),
    "greedy": grid_of(
        ridge=[0.003, 0.005, 0.01, 0.02, 0.03, 0.06, 0.09, 0.15, 0.2, 0.3, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0]
    ),
    "random-z": grid_of(hold=[1, 2, 3, 4, 5, 7, 10, 15, 20, 25, 30, 50, 70, 100, 150, 200]),
    "lola": grid_of(std=[0.15, 0.3, 0.5, 1.0], rate=[0.05, 0.3], horizon=[20, 100]),
}
"""The settings to try in finite worlds, ``BUDGET`` for each method that has any."""

VECTOR_GRIDS: Mapping[str, list[Settings]] = {
    "usf-ucb": grid_of(kappa=[1.6, 4.0, 10.0, 25.0], ridge=[0.1, 0.3, 1.0, 3.0]),
    "usf-ucb-norm": grid_of(kappa=[1.3, 3.0, 7.0, 16.0], ridge=[0.1, 0.3, 1.0, 3.0]),
    "usf-ucb-paper": grid_of(ridge=[0.09, 1.0], beta=[0.3, 3.0, 30.0, 300.0], intercept=[False, True]),
    "opti": grid_of(ridge=[0.1, 1.0], radius=[0.1, 0.3, 1.0, 3.0], intercept=[False, True]),
    "thompson": grid_of(scale=[0.1, 0.3, 1.0, 3.0], hold=[1, 10], intercept=[False, True]),
    "greedy": grid_of(ridge=[0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0], intercept=[False, True]),
    "random-z": grid_of(hold=[1, 2, 3, 4, 5, 7, 10, 14, 20, 25, 30, 35, 50, 70, 100, 150]),
    "lola": grid_of(std=[0.15, 0.3, 0.5, 1.0], rate=[0.05, 0.3], horizon=[35, 70]),
}
"""The settings to try with learned features of vectors: wider, and the baselines also with an intercept."""

WIDENED = ("ridge", "kappa", "beta", "radius", "scale", "weight", "std", "rate")  # any positive number is valid


def grids_of(arena: Arena) -> Mapping[str, list[Settings]]:
    """The settings to try in an arena, by method."""
    return GRIDS if isinstance(arena.bfm.observation_space, Discrete) else VECTOR_GRIDS


def candidates(
    arena: Arena, methods: Sequence[str], tasks: Tasks, steps: int = 200, noise: float = 0.3, most: int | None = None
) -> list[Entrant]:
    """Every setting of every method, or the first ``most``."""
    grids = grids_of(arena)
    found = [
        Entrant.of(arena, method, settings, tasks, noise=noise, steps=steps)
        for method in methods
        for settings in grids[known_name(method, grids, "method to tune,")][:most]
    ]
    if not found:
        raise ValueError(f"there is nothing to tune for {', '.join(methods) or 'no method'}")
    return found


def beyond(outcomes: Sequence[Outcome]) -> list[Entrant]:
    """For each choice at an edge of its grid, the next value further out."""
    one = {outcome.entrant.method: outcome.entrant for outcome in outcomes}
    return [replace(one[name], settings=settings_json(it)) for name, it in beyond_of(tried_settings(outcomes))]


def beyond_of(tried: Tried) -> list[tuple[str, Settings]]:
    """For each choice at an edge of what was tried, the next value further out, at the same ratio; by method."""
    found: dict[tuple[str, str], Settings] = {}
    for method, choices in choose(tried).items():
        known = [row["settings"] for row in tried[method]]
        for settings, name in product(choices.values(), WIDENED):
            numbers: list[Any] = [other.get(name) for other in known]
            values = sorted({float(value) for value in numbers if type(value) in (int, float) and value > 0})
            if len(values) < 2 or settings.get(name) not in (values[0], values[-1]):
                continue
            inner = values[1] if settings[name] == values[0] else values[-2]
            further = settings | {name: float(f"{settings[name] ** 2 / inner:.2g}")}
            if further not in known:
                found[method, settings_json(further)] = further
    return [(method, settings) for (method, _), settings in found.items()]


# The record, and the choices


def record_head(entrant: Entrant) -> TuningRecord:
    """The part of a record that is the same for all settings."""
    runs = entrant.tasks.count * entrant.tasks.seeds
    head = {"runs": runs, "noise": entrant.noise, "steps": entrant.steps, "seed": entrant.tasks.seed}
    return head | ({"tuned_on": entrant.arena.key} if entrant.arena.distinct_tasks else {})


def tried_settings(outcomes: Sequence[Outcome]) -> dict[str, list[TuningRecord]]:
    """Every setting of each method: mean lost steps, and the number of settled runs."""
    tried: dict[str, list[TuningRecord]] = {}
    for outcome in outcomes:
        if outcome.tables:
            lost, settled = outcome.tables["lost"], outcome.tables["settled"]
            numbers = {"lost": round(float(lost.mean()), 3), "settled": int(settled.sum()), "runs": int(settled.size)}
            tried.setdefault(outcome.entrant.method, []).append({"settings": outcome.settings, **numbers})
    return tried


def choose(tried: Tried) -> dict[str, dict[str, Settings]]:
    """Two choices for each method: fewest lost steps, and fewest lost steps among the settings that settle.

    If no setting settles, the second choice is the one with the most settled runs.
    """

    def best(rows: Sequence[TuningRecord]) -> Settings:
        found: Settings = min(rows, key=lambda row: (row["lost"], settings_json(row["settings"])))["settings"]
        return found

    return {
        method: {
            FEWEST: best(rows),
            SETTLING: best([row for row in rows if settles(row)] or [max(rows, key=lambda row: row["settled"])]),
        }
        for method, rows in tried.items()
    }


def frontier(rows: Sequence[TuningRecord]) -> list[TuningRecord]:
    """The Pareto front of settings, by lost steps and settled runs; fewest lost steps first."""
    kept: list[TuningRecord] = []
    for row in sorted(rows, key=lambda row: (row["lost"], -row["settled"])):
        if not kept or row["settled"] > kept[-1]["settled"]:
            kept.append(row)
    return kept


def settles(row: TuningRecord) -> bool:
    """Whether the share of settled runs is not significantly below .95: a one-sided test at 5 %."""
    return bool(binom.cdf(row["settled"], row["runs"], 0.95) >= 0.05)


# Settings by name or file


def stored_records() -> dict[str, TuningRecord]:
    """All stored tuning records, by arena."""
    records: dict[str, TuningRecord] = json.loads(files("zscout.lab").joinpath("stored/tuning.json").read_text())
    return records


def stored_settings(key: str) -> dict[str, dict[str, Settings]]:
    """Both choices of an arena's stored record, by method; empty without a record."""
    record = stored_records().get(key)
    return choose(record["tried"]) if record else {}


def settings_named(name: str, arena: Arena) -> dict[str, Settings]:
    """Settings by method.

    ``default``: none. ``settling`` (or ``tuned``) and ``fewest``: the stored choice, if there is one for the arena.
    ``auto``: ``settling`` for all but our own defaults. Else a file; a method that it does not name runs as with auto.
    """
    if name == "default":
        return {}
    if name not in CHOICES:
        return settings_named("auto", arena) | settings_of_file(name, arena)
    choice = FEWEST if name == FEWEST else SETTLING
    chosen = stored_settings(arena.key)
    return {m: both[choice] for m, both in chosen.items() if name != "auto" or m not in DEFAULTS_OF_OURS}


def settings_of_file(name: str, arena: Arena, methods: Collection[str] = ()) -> dict[str, Settings]:
    """The settings in a file: those of zscout tune for this arena, or {"method": {"setting": value}} for any arena.

    Raises if it names none of ``methods``. Empty if the name is one of the choices.
    """
    if name in (*CHOICES, "default"):
        return {}
    try:
        found = read_json(Path(name))
    except (OSError, ValueError) as error:
        known = f"auto, default, {SETTLING}, {FEWEST}"
        raise ValueError(f"settings are {known} or a file of zscout tune; {name!r}: {error}") from error
    try:
        tuned = found["settings"][arena.key] if "settings" in found else None
        chosen = dict(found.items()) if tuned is None else {method: both[SETTLING] for method, both in tuned.items()}
    except KeyError:
        raise ValueError(f"{name} holds no settings for {arena.key}") from None
    except (TypeError, AttributeError):
        raise ValueError(f'{name} must be an object like {{"usf-ucb": {{"kappa": 2.0}}}}') from None
    if not chosen or (methods and not chosen.keys() & methods):
        named, wanted = ", ".join(chosen) or "no method", " or ".join(methods) or '{"usf-ucb": {"kappa": 2.0}}'
        raise ValueError(f"{name} has settings of {named}, expected {wanted}")
    for method, settings in chosen.items():
        if not isinstance(settings, dict):
            raise ValueError(f"{name}: the settings of {method} must be an object, got {settings!r}")
        try:
            METHODS[method].check(**settings)
        except ValueError as error:
            raise ValueError(f"{name}, {method}: {error}") from None
    return chosen


def merged(path: Path, arena: Arena, head: TuningRecord) -> Callable[[Tried], dict[str, Any]]:
    """A function that adds the settings tried, and the choices among them, to the content of a file of zscout tune.

    ``head`` is that of the new record. The file is read now, before anything runs: other files raise, and so does a
    record of this arena with another head, which cannot be compared. A method that is tuned again replaces its entry.
    """
    before: dict[str, Any] = {"settings": {}, "record": {}}
    if path.exists():
        try:
            found = read_json(path)
            before = {name: dict(found[name]) for name in before}
        except (OSError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{path} was not written by zscout tune: name another --out") from error
    key = arena.key
    old = before["record"].get(key, {**head, "tried": {}})
    for name, value in head.items():
        if old.get(name) != value:
            holds = f"{path} holds a record of {key} with {name} {old.get(name)}, not {value}"
            raise ValueError(f"{holds}: name another --out")

    def with_new(tried: Tried) -> dict[str, Any]:
        settings = {**before["settings"].get(key, {}), **choose(tried)}
        record = {**head, "tried": {**old["tried"], **tried}}
        return {"settings": {**before["settings"], key: settings}, "record": {**before["record"], key: record}}

    return with_new


def about_settings(method: str, settings: Settings, in_file: Collection[str] = ()) -> str:
    """Where a row's settings come from; empty for a method without settings to tune."""
    if settings:
        return "from the file" if method in in_file else "tuned"
    if method not in GRIDS:
        return ""
    return "default" if method in DEFAULTS_OF_OURS else "published, untuned"
