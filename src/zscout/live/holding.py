"""The runs of one process, by key, and what is asked of them from the process that serves the page."""

import gc
from functools import cache
from typing import Any

from zscout.live.choices import choices
from zscout.live.messages import NoRunError, Told, message
from zscout.live.run import LiveRun
from zscout.live.setup import Setup

RUNS: dict[str, LiveRun] = {}  # of this process


def begin(key: str, setup: Any, most_steps: int) -> Told:
    """A new run."""
    RUNS[key] = LiveRun(Setup.from_json(setup), most_steps)
    return RUNS[key].begun(key)


def reset(key: str, most_steps: int) -> Told:
    """The same set-up from the start, the reward as it is now."""
    RUNS[key] = LiveRun(_run(key).setup, most_steps)
    return RUNS[key].begun(key)


def resume(key: str, after: Any) -> Told:
    """What the page has missed."""
    return _run(key).begun(key, resumed=True, after=after)


def tell(key: str, do: str, fields: dict[str, Any]) -> Told:
    """One of a run's own commands, which the page may name (``messages.FIELDS``)."""
    answer: Told = getattr(_run(key), do)(**fields)
    return answer


def forget(key: str) -> None:
    """The run is over."""
    RUNS.pop(key, None)


@cache
def hello(limits: tuple[tuple[str, int], ...], seed: int) -> bytes:
    """What can be chosen. The first thing asked of a process: a step of a first run leaves all that it needs ready."""
    LiveRun(Setup(), most_steps=1).step()
    gc.freeze()  # what is there now stays: no step has to wait until all of it was looked through again
    return message({"is": "hello", "limits": dict(limits), **choices(seed)})


def _run(key: str) -> LiveRun:
    if key not in RUNS:
        raise NoRunError(key)
    return RUNS[key]
