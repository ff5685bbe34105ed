"""The calls that the server makes in the worker process, and the run that the process holds."""

import gc
from functools import cache
from typing import Any

from zscout.live.server.choices import choices
from zscout.live.server.messages import NOT_KEPT, SETTINGS, Reply, RunLostError
from zscout.live.session.run import KEPT_FRAMES, LiveRun
from zscout.live.session.setup import Setup

RUNS: dict[str, LiveRun] = {}  # the one run, by its key; empty before it begins


def begin(key: str, setup: Any, most_steps: int) -> Reply:
    """Start a run; it replaces the old one if the set-up is valid."""
    return _begun(key, Setup.from_json(setup), most_steps)


def reset(key: str, most_steps: int) -> Reply:
    """Start the run again, with the hidden reward as it is now."""
    return _begun(key, _run(key).setup, most_steps)


def resume(key: str, after: Any) -> Reply:
    """What a page has missed since the step ``after``."""
    return _run(key).begun(key, resumed=True, after=after)


def command(key: str, name: str, fields: dict[str, Any]) -> Reply:
    """One of the run's own commands (``messages.FIELDS``)."""
    run = _run(key)
    reply: Reply = run.change(name, **fields) if name in SETTINGS else getattr(run, name)(**fields)
    return reply


@cache
def hello(most_steps: int, seed: int) -> dict[str, Any]:
    """What the page offers. Called first: one step of a first run loads everything."""
    LiveRun(Setup(), most_steps=1).step()
    gc.freeze()  # what is loaded now stays: the garbage collector need not scan it during a step
    return {"limits": {"steps": most_steps, "kept": KEPT_FRAMES}, **choices(seed)}


def _begun(key: str, setup: Setup, most_steps: int) -> Reply:
    run = LiveRun(setup, most_steps)
    RUNS.clear()
    RUNS[key] = run
    return run.begun(key)


def _run(key: str) -> LiveRun:
    if key not in RUNS:
        raise RunLostError(NOT_KEPT)
    return RUNS[key]
