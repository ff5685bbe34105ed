"""What a visitor may take."""

import time
from dataclasses import dataclass

PRICES = {"trace": 25.0, "resume": 25.0, "begin": 5.0, "reset": 5.0, "task": 2.0, "paint": 2.0, "clear": 2.0}
"""How many plain messages one of a kind counts for: what it costs the server, a whole run's frames at most."""


@dataclass(frozen=True)
class Limits:
    """Numbers that bound what one visitor, and all of them, can cost."""

    visitors: int = 20  # at once
    steps: int = 1_000  # of a run: also what bounds its memory, a few kilobytes a step
    bytes: int = 4_096  # of a message
    rate: float = 50.0  # messages a second …
    burst: float = 100.0  # … and so many at once
    strikes: int = 1_000  # messages above the rate before the connection is closed
    keep: float = 600.0  # seconds that a run waits for its visitor to come back
    slowest: float = 0.5  # steps a second
    fastest: float = 30.0
    patience: float = 30.0  # seconds for a page to read what it was sent
    strangers: int = 64  # connections that have not shown the token …
    unknown: float = 10.0  # … and seconds in which they must

    @property
    def connections(self) -> int:
        """In all: of a visitor's browser six for files and one for the run, and one to spare."""
        return self.strangers + 8 * self.visitors

    @property
    def shown(self) -> tuple[tuple[str, int], ...]:
        """Those that the page needs to know."""
        return (("steps", self.steps), ("visitors", self.visitors), ("bytes", self.bytes))


class Rate:
    """A bucket that fills as time goes and that each message takes from."""

    def __init__(self, burst: float, rate: float) -> None:
        self._burst, self._rate = burst, rate  # what it holds, and what comes in a second
        self._left, self._last = burst, time.monotonic()

    def takes(self, price: float = 1.0) -> bool:
        """Whether one more is within the limit; what is refused costs nothing."""
        now = time.monotonic()
        self._left = min(self._burst, self._left + (now - self._last) * self._rate)
        self._last = now
        if self._left < price:
            return False
        self._left -= price
        return True

    def give_back(self, price: float) -> None:
        """Something was not done after all."""
        self._left += price
