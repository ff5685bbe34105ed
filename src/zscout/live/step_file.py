"""Every step of a run in a world without a table of states, as JSON to export."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from zscout.live.live_world import RecordedStep
from zscout.live.rounding import rounded

FORMAT = "zscout-steps-1"
DIGITS = 5


def step_file(
    setup: dict[str, Any], methods: Sequence[str], runs: Sequence[Sequence[RecordedStep]], kept: Sequence[list[float]]
) -> dict[str, Any]:
    """The set-up, and for each method its steps and the z that it would keep."""
    return {
        "format": FORMAT,
        "setup": setup,
        "runs": [
            {"method": method, "best_z": best, "steps": [_step(step) for step in steps]}
            for method, steps, best in zip(methods, runs, kept, strict=True)
        ],
    }


def _step(step: RecordedStep) -> dict[str, Any]:
    return {
        "episode": step.episode + 1,
        "observation": _numbers(step.state),
        "action": _numbers(step.action),
        "entered": _numbers(step.entered),
        "reward": step.reward,
        "shown": step.shown,
        "z": _numbers(step.z),
    }


def _numbers(values: Any) -> Any:
    return rounded(np.asarray(values, dtype=np.float64), DIGITS)
