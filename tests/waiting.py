"""How tests wait: for a state, never for a time."""

import time
from collections.abc import Callable
from typing import Any

PATIENCE = 120  # seconds until a test gives up


def until(true: Callable[[], Any], why: str, pause: Callable[[], Any] = lambda: time.sleep(0.03)) -> None:
    """Wait until a condition holds."""
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end, why
        pause()
