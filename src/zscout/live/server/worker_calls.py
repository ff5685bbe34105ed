"""The calls that the server makes in a worker process, and the runs that the process holds by key."""

import gc
from functools import cache
from pathlib import Path
from typing import Any

from zscout.live.server.choices import choices
from zscout.live.server.messages import NOT_KEPT, SETTINGS, Reply, RunLostError, encode
from zscout.live.session.run import KEPT_FRAMES, LiveRun
from zscout.live.session.setup import Setup

RUNS: dict[str, LiveRun] = {}  # of this process


def begin(key: str, setup: Any, most_steps: int, memory: Path | None = None) -> Reply:
    """Start a run."""
    RUNS[key] = LiveRun(Setup.from_json(setup), most_steps, memory)
    return RUNS[key].begun(key)


def reset(key: str, most_steps: int, memory: Path | None = None) -> Reply:
    """Start a run again, with the hidden reward as it is now."""
    RUNS[key] = LiveRun(_run(key).setup, most_steps, memory)
    return RUNS[key].begun(key)


def resume(key: str, after: Any) -> Reply:
    """What a page has missed since the step ``after``."""
    return _run(key).begun(key, resumed=True, after=after)


def command(key: str, name: str, fields: dict[str, Any]) -> Reply:
    """One of the run's own commands (``messages.FIELDS``)."""
    run = _run(key)
    reply: Reply = run.change(name, **fields) if name in SETTINGS else getattr(run, name)(**fields)
    return reply


def forget(key: str) -> None:
    """Delete a run."""
    RUNS.pop(key, None)


@cache
def hello(most_steps: int, seed: int) -> bytes:
    """What the page offers. Called first in each process: one step of a first run loads everything."""
    LiveRun(Setup(), most_steps=1).step()
    gc.freeze()  # what is loaded now stays: the garbage collector need not scan it during a step
    return encode({"is": "hello", "limits": {"steps": most_steps, "kept": KEPT_FRAMES}, **choices(seed)})


def _run(key: str) -> LiveRun:
    if key not in RUNS:
        raise RunLostError(NOT_KEPT)
    return RUNS[key]
