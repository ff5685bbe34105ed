"""Settings chosen on tuning tasks, the same number of them tried for every method, and reported on others."""

import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Any

from zscout.edge import known_name
from zscout.lab.arena import Arena, Tasks
from zscout.lab.compare import Entrant, Outcome

BUDGET = 12  # settings tried for each method
ENOUGH = 0.96  # of the runs must settle, where some setting reaches that


def _grid(**choices: Sequence[Any]) -> list[dict[str, Any]]:
    return [dict(zip(choices, values, strict=True)) for values in product(*choices.values())]


RIDGES = [0.01, 0.02, 0.03, 0.06, 0.09, 0.15, 0.2, 0.3, 0.5, 1.0, 2.0, 4.0]
GRIDS: Mapping[str, list[dict[str, Any]]] = {
    "usf-ucb": _grid(kappa=[1.2, 1.7, 2.4, 3.4], gamma=[0.8, 0.9, 0.95]),
    "usf-ucb-norm": _grid(kappa=[2.0, 2.3, 2.6, 3.0], ridge=[0.1, 0.2, 0.4]),
    "usf-ucb-paper": _grid(ridge=[0.03, 0.09, 0.3, 1.0], beta=[0.3, 1.0, 3.0]),
    "usf-ucb-short": _grid(kappa=[1.2, 1.7, 2.4], gamma=[0.8, 0.9], scale=[5.0, 10.0]),
    "log-det": _grid(kappa=[0.8, 1.2, 1.7], gamma=[0.8, 0.9], weight=[20.0, 40.0]),
    "opti": _grid(ridge=[0.03, 0.09, 0.3, 1.0], radius=[0.3, 0.5, 0.8]),
    "opti-shipped": _grid(ridge=[0.03, 0.09, 0.3, 1.0], radius=[0.3, 0.5, 0.8]),
    "optimism": _grid(kappa=[0.6, 0.9, 1.3, 1.7], ridge=[0.03, 0.1, 0.3]),
    "thompson": _grid(scale=[0.3, 0.6, 1.0], hold=[1, 3, 5, 10]),
    "greedy": _grid(ridge=RIDGES),
    "random-z": _grid(hold=[1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 100, 200]),
    "mbie": _grid(beta=[0.1, 0.3, 1.0], ridge=[0.1, 0.3], power=[0.5, 1.0]),
    "unroll": _grid(arms=[10, 30, 100], horizon=[20, 100], exploration=[0.3, 1.0]),
    "lola": _grid(std=[0.15, 0.5, 1.0], rate=[0.05, 0.3], horizon=[20, 100]),
    "explore-then-commit": _grid(steps=[15, 25, 50, 100], ridge=[0.1, 0.3])
    + _grid(steps=[15, 25, 50, 100], exhaustive=[True]),
}
"""What is tried: ``BUDGET`` settings each; methods that have nothing to set are left out."""


def candidates(
    arena: Arena, methods: Sequence[str], tasks: Tasks, steps: int = 200, noise: float = 0.3, budget: int = BUDGET
) -> list[Entrant]:
    """Every setting of every method, or only the first few."""
    for method in methods:
        known_name(method, GRIDS, "method to tune,")
    found = [
        Entrant.of(arena, method, settings, tasks, noise=noise, steps=steps)
        for method in methods
        if not (method == "mbie" and arena.features != "clusters")
        for settings in GRIDS[method][:budget]
    ]
    if not found:
        raise ValueError(f"there is nothing to tune for {', '.join(methods) or 'no method'} on {arena.features}")
    return found


def choose_all(outcomes: Sequence[Outcome]) -> dict[str, Outcome]:
    """For each method the fewest lost steps, among the settings that settle often enough where there are any."""
    best: dict[str, Outcome] = {}
    for method in dict.fromkeys(outcome.entrant.method for outcome in outcomes):
        tried = [outcome for outcome in outcomes if outcome.entrant.method == method and outcome.tables]
        settled = [outcome for outcome in tried if outcome.tables["settled"].mean() >= ENOUGH]
        if tried:
            best[method] = min(settled or tried, key=lambda o: (o.tables["lost"].mean(), o.entrant.settings))
    return best


def tuning_record(tried: Sequence[Outcome], report_seeds: Sequence[int]) -> dict[str, Any]:
    """How a method's settings were chosen: the rule, what was tried, on which seeds, and which are reported on."""
    entrant = tried[0].entrant
    return {
        "rule": f"fewest lost steps among the settings of which {ENOUGH:.0%} of runs settle, among all where none does",
        "world": entrant.arena.world,
        "noise": entrant.noise,
        "steps": entrant.steps,
        "tuning_seeds": entrant.tasks.run_seeds,
        "report_seeds": list(report_seeds),
        "tried": [
            {
                "settings": outcome.settings,
                **{name: float(outcome.tables[name].mean()) for name in ("lost", "settled") if outcome.tables},
            }
            for outcome in tried
        ],
    }


def kept_settings(path: Path, features: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a file of zscout tune holds already: settings and their records, by method."""
    if not path.exists():
        return {}, {}
    settings = settings_named(str(path), features)
    return dict(settings), dict(json.loads(path.read_text()).get("record", {}))


def settings_named(name: str, features: str) -> dict[str, dict[str, Any]]:
    """By method: none for ``default``, the stored ones for ``tuned``, or those of a file."""
    if name == "default":
        return {}
    try:
        text = (
            files("zscout.lab.stored").joinpath("settings.json").read_text()
            if name == "tuned"
            else Path(name).read_text()
        )
        found = json.loads(text)
    except (OSError, json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"settings are default, tuned or a file of zscout tune; {name!r}: {error}") from error
    if not isinstance(found, dict) or not isinstance(found.get(features), dict):
        raise ValueError(f"{name} holds no settings for {features}")
    chosen: dict[str, dict[str, Any]] = found[features]
    if wrong := [method for method, settings in chosen.items() if not isinstance(settings, dict)]:
        raise ValueError(f"{name}: the settings of {wrong[0]} are {chosen[wrong[0]]!r}, not names and values")
    return chosen
