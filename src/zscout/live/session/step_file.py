"""Every step of a run, as JSON to export."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from zscout.live.places.explanation import rounded
from zscout.live.places.run_so_far import RecordedStep

FORMAT = "zscout-steps-2"
DIGITS = 5


def step_file(setup: dict[str, Any], runs: Sequence[tuple[str, list[float], Sequence[RecordedStep]]]) -> dict[str, Any]:
    """The set-up, and for each method the best z, each z that it followed, and its steps."""
    shown = [{"method": method, "best_z": best, **_steps(steps)} for method, best, steps in runs]
    return {"format": FORMAT, "setup": setup, "runs": shown}


def _steps(steps: Sequence[RecordedStep]) -> dict[str, Any]:
    """The steps; the "z" of a step is its row in "followed", since a z is followed for many steps."""
    every = np.stack([np.asarray(step.z) for step in steps])
    new = np.append(True, (np.diff(every, axis=0) != 0).any(1))
    columns = {
        "episode": [step.episode + 1 for step in steps],
        "observation": _numbers(step.state for step in steps),
        "action": _numbers(step.action for step in steps),
        "entered": _numbers(step.entered for step in steps),
        "reward": [step.reward for step in steps],
        "shown": [step.shown for step in steps],
        "z": (new.cumsum() - 1).tolist(),
    }
    rows = zip(*columns.values(), strict=True)
    return {"followed": rounded(every[new], DIGITS), "steps": [dict(zip(columns, row, strict=True)) for row in rows]}


def _numbers(values: Iterable[Any]) -> Any:
    stacked = np.stack([np.asarray(value) for value in values])
    return rounded(stacked if stacked.dtype.kind == "i" else stacked.astype(np.float64), DIGITS)
