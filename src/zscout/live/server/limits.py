"""Limits on what a page can cost: counts, message rates and log length."""

import logging
import time
from dataclasses import dataclass
from typing import TextIO

LOG_BURST, LOG_SECONDS = 20, 10.0  # log records at once, then one in this time
LONGEST_RECORD = 4_000  # characters


@dataclass(frozen=True)
class Limits:
    """What a page may use, and who has not sent the token."""

    steps: int = 1_000  # of a run on a map; this also bounds its memory, a few kilobytes a step
    longest: int = 20  # times as many: a run of a body, which keeps about a kilobyte a step
    answers: int = 200  # comparisons of a run: each step costs as much as all of them
    bytes: int = 4_096  # of a message
    rate: float = 50.0  # messages a second …
    burst: float = 100.0  # … and at once
    strikes: int = 1_000  # messages above the rate before the connection is closed
    slowest: float = 0.5  # steps a second
    fastest: float = 50.0  # the cheetah in real time
    send_seconds: float = 30.0  # for a page to read what it was sent
    strangers: int = 64  # connections that have not sent the token …
    token_seconds: float = 10.0  # … and how long they may take
    connections: int = 96  # in all: a browser uses seven for a page

    @property
    def last_step(self) -> int:
        """Of any run."""
        return self.steps * self.longest


class TokenBucket:
    """Allows ``burst`` messages at once and ``rate`` a second."""

    def __init__(self, burst: float, rate: float) -> None:
        self._burst, self._rate = burst, rate
        self._left, self._last = burst, time.monotonic()

    def take(self) -> bool:
        """Whether one more message is within the limit."""
        now = time.monotonic()
        self._left = min(self._burst, self._left + (now - self._last) * self._rate)
        self._last = now
        if self._left < 1:
            return False
        self._left -= 1
        return True


class LimitedLog(logging.StreamHandler[TextIO]):
    """Writes a limited number of records of limited length; the next one says how many were dropped."""

    def __init__(self, stream: TextIO | None = None) -> None:
        super().__init__(stream)
        self._bucket, self._dropped = TokenBucket(float(LOG_BURST), 1 / LOG_SECONDS), 0

    def emit(self, record: logging.LogRecord) -> None:
        """Write the record, or count it as dropped."""
        if self._bucket.take():
            super().emit(record)
            self._dropped = 0
        else:
            self._dropped += 1

    def format(self, record: logging.LogRecord) -> str:
        """The record's text, cut in the middle: a traceback ends with its error."""
        text = super().format(record)
        if len(text) > LONGEST_RECORD:
            text = f"{text[: LONGEST_RECORD // 2]} … {text[-LONGEST_RECORD // 2 :]}"
        return f"{text} ({self._dropped} messages before this one were dropped)" if self._dropped else text


def limit_log() -> None:
    """Log warnings and errors of this process to standard error, limited in number and length."""
    handler = LimitedLog()
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s", handlers=[handler], force=True)
