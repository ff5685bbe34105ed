"""Method settings for each arena: grids, the two choices made on tuning tasks, and their stored records."""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Any

from scipy.stats import binom

from zscout.edge import known_name
from zscout.files import parse_json
from zscout.lab.arena import Arena, Tasks
from zscout.lab.comparison import Entrant, Outcome
from zscout.lab.plugins import is_plugin, plugin_grid
from zscout.transfer.methods import METHODS

BUDGET = 16  # settings tried for each method, before choices at an end are followed further out
SETTLES, SURE = 0.95, 0.05  # a settled share is surely below .95 if so few runs settle with probability below .05
FEWEST, SETTLING = "fewest", "settling"  # the two choices
CHOICES = ("auto", "tuned", FEWEST, SETTLING)  # of stored settings, by name
DEFAULTS_OF_OURS = ("usf-ucb", "usf-ucb-norm")  # run as they are unless tuned settings are asked for by name

Settings = dict[str, Any]
TuningRecord = dict[str, Any]  # what was tried in one arena: see ``tuning_record``


def _grid(**choices: Sequence[Any]) -> list[Settings]:
    return [dict(zip(choices, values, strict=True)) for values in product(*choices.values())]


GRIDS: Mapping[str, list[Settings]] = {
    "usf-ucb": _grid(kappa=[0.8, 1.2, 1.6, 2.2], gamma=[0.8, 0.9], ridge=[0.1, 0.3]),
    "usf-ucb-norm": _grid(kappa=[1.3, 1.8, 2.3, 2.8], gamma=[0.8, 0.9], ridge=[0.1, 0.2]),
    "usf-ucb-paper": _grid(ridge=[0.09, 0.3, 1.0, 3.0], beta=[0.1, 0.3, 1.0, 3.0]),
    "usf-ucb-short": _grid(kappa=[1.2, 1.7, 2.4, 3.4], gamma=[0.8, 0.9], scale=[5.0, 10.0]),
    "log-det": _grid(kappa=[0.8, 1.2, 1.7, 2.4], gamma=[0.8, 0.9], weight=[20.0, 40.0]),
    "opti": _grid(ridge=[0.03, 0.09, 0.3, 1.0], radius=[0.3, 0.5, 0.8, 1.2]),
    "opti-shipped": _grid(ridge=[0.03, 0.09, 0.3, 1.0], radius=[0.3, 0.5, 0.8, 1.2]),
    "optimism": _grid(kappa=[0.6, 0.9, 1.3, 1.7], ridge=[0.03, 0.1, 0.3, 1.0]),
    "thompson": _grid(scale=[0.3, 0.6, 1.0, 1.7], hold=[1, 3, 5, 10]),
    "greedy": _grid(ridge=[0.003, 0.005, 0.01, 0.02, 0.03, 0.06, 0.09, 0.15, 0.2, 0.3, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0]),
    "random-z": _grid(hold=[1, 2, 3, 4, 5, 7, 10, 15, 20, 25, 30, 50, 70, 100, 150, 200]),
    "mbie": _grid(beta=[0.1, 0.3, 1.0, 3.0], ridge=[0.1, 0.3], power=[0.5, 1.0]),
    "unroll": _grid(arms=[10, 30, 100, 300], horizon=[10, 20, 50, 100], exploration=[0.3]),
    "lola": _grid(std=[0.15, 0.3, 0.5, 1.0], rate=[0.05, 0.3], horizon=[20, 100]),
    "explore-then-commit": _grid(steps=[10, 15, 25, 50], ridge=[0.1, 0.3])
    + _grid(steps=[10, 15, 20, 25, 35, 50, 70, 100], exhaustive=[True]),
}
"""What is tried: ``BUDGET`` settings each; methods that have nothing to set are left out."""

WIDENED = ("ridge", "kappa", "beta", "radius", "scale", "weight", "std", "rate")  # positive, and any size makes sense


def grid_of(method: str) -> list[Settings]:
    """The settings to try: a method's own, or under ``module:name`` the list ``name_grid`` of that module."""
    return plugin_grid(method) if is_plugin(method) else GRIDS[known_name(method, GRIDS, "method to tune,")]


def candidates(
    arena: Arena, methods: Sequence[str], tasks: Tasks, steps: int = 200, noise: float = 0.3, most: int | None = None
) -> list[Entrant]:
    """Every setting of every method, or only the first few."""
    found = [
        Entrant.of(arena, method, settings, tasks, noise=noise, steps=steps)
        for method in methods
        for settings in grid_of(method)[:most]
    ]
    if not found:
        raise ValueError(f"there is nothing to tune for {', '.join(methods) or 'no method'}")
    return found


def beyond(outcomes: Sequence[Outcome]) -> list[Entrant]:
    """For each choice that lies at an end of what was tried, the next value further out, at the same ratio."""
    found: dict[Entrant, None] = {}
    tried = {outcome.entrant for outcome in outcomes}
    for method, choices in choose(_tables(outcomes)).items():
        of_method = [outcome for outcome in outcomes if outcome.entrant.method == method]
        for settings in choices.values():
            for name in WIDENED:
                tried_values: list[Any] = [outcome.settings.get(name) for outcome in of_method]
                values = sorted({float(value) for value in tried_values if type(value) in (int, float) and value > 0})
                if len(values) < 2 or settings.get(name) not in (values[0], values[-1]):
                    continue
                inner = values[1] if settings[name] == values[0] else values[-2]
                further = settings | {name: float(f"{settings[name] ** 2 / inner:.2g}")}
                first = of_method[0].entrant
                rest = {"noise": first.noise, "steps": first.steps}
                found[Entrant.of(first.arena, method, further, first.tasks, **rest)] = None
    return [entrant for entrant in found if entrant not in tried]


# The record, and what is chosen by it


def tuning_record(outcomes: Sequence[Outcome]) -> TuningRecord:
    """Every setting that was tried in one arena: mean of lost steps, how many runs settled, of how many."""
    return {**record_head(outcomes[0].entrant), "tried": _tables(outcomes)}


def record_head(entrant: Entrant) -> TuningRecord:
    """What all settings of a record share."""
    runs = entrant.tasks.count * entrant.tasks.seeds
    return {"runs": runs, "noise": entrant.noise, "steps": entrant.steps, "seed": entrant.tasks.seed}


def _tables(outcomes: Sequence[Outcome]) -> dict[str, list[TuningRecord]]:
    tried: dict[str, list[TuningRecord]] = {}
    for outcome in outcomes:
        if outcome.tables:
            lost, settled = outcome.tables["lost"], outcome.tables["settled"]
            numbers = {"lost": round(float(lost.mean()), 3), "settled": int(settled.sum()), "runs": int(settled.size)}
            tried.setdefault(outcome.entrant.method, []).append({"settings": outcome.settings, **numbers})
    return tried


def choose(tried: Mapping[str, Sequence[TuningRecord]]) -> dict[str, dict[str, Settings]]:
    """Two choices for each method: fewest lost steps, and fewest among settings that do not surely settle too rarely.

    Too rarely: in under 95 % of runs, by a one-sided test at 5 %. Where every setting does, the one that settles most
    often is taken.
    """
    return {
        method: {
            FEWEST: min(rows, key=_lost)["settings"],
            SETTLING: min(
                [row for row in rows if settles(row)] or [max(rows, key=lambda row: row["settled"])], key=_lost
            )["settings"],
        }
        for method, rows in tried.items()
    }


def frontier(rows: Sequence[TuningRecord]) -> list[TuningRecord]:
    """Settings that no other beats in both, fewest lost steps first: each loses more and settles more than the last."""
    kept: list[TuningRecord] = []
    for row in sorted(rows, key=lambda row: (row["lost"], -row["settled"])):
        if not kept or row["settled"] > kept[-1]["settled"]:
            kept.append(row)
    return kept


def settles(row: TuningRecord) -> bool:
    """Whether the share of settled runs is not surely below .95."""
    return bool(binom.cdf(row["settled"], row["runs"], SETTLES) >= SURE)


def _lost(row: TuningRecord) -> tuple[float, str]:
    return row["lost"], json.dumps(row["settings"], sort_keys=True)


# What is stored


def stored_records() -> dict[str, TuningRecord]:
    """All tuning records that ship, by arena."""
    found: dict[str, TuningRecord] = json.loads(files("zscout.lab.stored").joinpath("tuning.json").read_text())
    return found


def stored_settings() -> dict[str, dict[str, dict[str, Settings]]]:
    """What was chosen by them: by arena, method and choice."""
    text = files("zscout.lab.stored").joinpath("settings.json").read_text()
    found: dict[str, dict[str, dict[str, Settings]]] = json.loads(text)
    return found


def settings_named(name: str, arena: Arena) -> dict[str, Settings]:
    """Settings by method.

    ``default``: none. ``settling`` (or ``tuned``) and ``fewest``: the stored choice, if there is one for the arena.
    ``auto``: ``settling`` for all but our own defaults. Else a file; a method that it does not name runs as with auto.
    """
    if name == "default":
        return {}
    name = SETTLING if name == "tuned" else name
    if name in ("auto", FEWEST, SETTLING):
        chosen = stored_settings().get(arena.key, {})
        choice = SETTLING if name == "auto" else name
        kept = {method: choices[choice] for method, choices in chosen.items()}
        return {m: s for m, s in kept.items() if name != "auto" or m not in DEFAULTS_OF_OURS}
    return settings_named("auto", arena) | settings_of_file(name, arena)


def settings_of_file(name: str, arena: Arena) -> dict[str, Settings]:
    """What the file of that name says; nothing where the name is a choice and no file."""
    return {} if name in (*CHOICES, "default") else settings_in(Path(name), arena)


def settings_in(path: Path, arena: Arena) -> dict[str, Settings]:
    """Settings by method of a file: what zscout tune wrote for this arena, or {"method": {"name": value}} for any."""
    try:
        found = parse_json(path.read_bytes())
    except (OSError, ValueError) as error:
        known = f"auto, default, {SETTLING}, {FEWEST}"
        raise ValueError(f"settings are {known} or a file of zscout tune; {str(path)!r}: {error}") from error
    try:
        if "settings" in found:
            chosen = {method: choices[SETTLING] for method, choices in found["settings"][arena.key].items()}
        else:
            chosen = dict(found.items())
    except KeyError:
        raise ValueError(f"{path} holds no settings for {arena.key}") from None
    except (TypeError, AttributeError):
        raise ValueError(f'{path} must be an object like {{"usf-ucb": {{"kappa": 2.0}}}}') from None
    for method, settings in chosen.items():
        if not isinstance(settings, dict):
            raise ValueError(f"{path}: the settings of {method} must be an object, got {settings!r}")
        if is_plugin(method):  # imported only if it is run
            continue
        try:
            METHODS[method].check(**settings)
        except ValueError as error:
            raise ValueError(f"{path}, {method}: {error}") from None
    return chosen


def merged(path: Path, arena: Arena, like: TuningRecord) -> Callable[[Mapping[str, Any], TuningRecord], dict[str, Any]]:
    """What a file of zscout tune will hold when a new choice and its record are added to what it holds.

    ``like`` is the new record's runs, noise, steps and seed.

    Read before anything is run, so that a file of something else is refused at once. A method that is tuned again
    takes the place of what was known of it. A record of other runs, noise or steps is refused: they do not compare.
    """
    before: dict[str, Any] = {"settings": {}, "record": {}}
    if path.exists():
        try:
            found = parse_json(path.read_bytes())
            before = {name: dict(found[name]) for name in before}
        except (OSError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{path} is not of zscout tune: name another --out") from error
    key = arena.key

    old = before["record"].get(key, {**like, "tried": {}})
    for name, value in like.items():
        if old.get(name) != value:
            told = f"{path} holds a record of {key} with {name} {old.get(name)}, not {value}"
            raise ValueError(f"{told}: name another --out")

    def plus(chosen: Mapping[str, Any], record: TuningRecord) -> dict[str, Any]:
        tried = {**old["tried"], **record["tried"]}
        settings = {**before["settings"].get(key, {}), **chosen}
        return {
            "settings": {**before["settings"], key: settings},
            "record": {**before["record"], key: {**record, "tried": tried}},
        }

    return plus


def about_settings(method: str, settings: Settings, in_file: Collection[str] = ()) -> str:
    """A word beside a row on where its settings are from; none for a method that has nothing to tune."""
    if settings:
        return "from the file" if method in in_file else "tuned"
    if is_plugin(method) or method not in GRIDS:
        return ""
    return "default" if method in DEFAULTS_OF_OURS else "published, untuned"
