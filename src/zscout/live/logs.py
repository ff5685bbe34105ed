"""A log that cannot be filled from outside."""

import logging

from zscout.live.limits import Rate

BURST = 20  # records at once …
EVERY = 10.0  # … and then one in so many seconds
LONGEST = 4_000  # letters of a record


class Sparing(logging.Handler):
    """Passes a few records on; the next one says how many were left out before it."""

    def __init__(self, to: logging.Handler) -> None:
        super().__init__()
        self._to = to
        self._rate, self._missed = Rate(float(BURST), 1 / EVERY), 0

    def emit(self, record: logging.LogRecord) -> None:
        """Pass it on, or count it."""
        if not self._rate.takes():
            self._missed += 1
            return
        text = self.format(record)
        if len(text) > LONGEST:
            text = f"{text[: LONGEST // 2]} … {text[-LONGEST // 2 :]}"  # a traceback ends with its error
        if self._missed:
            text = f"{text} ({self._missed} more messages were left out before this one)"
        self._missed = 0
        self._to.emit(logging.makeLogRecord({"msg": text, "levelno": record.levelno, "name": record.name}))


def log_sparingly() -> None:
    """Warnings and errors of everything that runs here, to standard error."""
    handler = Sparing(logging.StreamHandler())
    handler.setFormatter(logging.Formatter("%(levelname)s: %(message)s"))
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.WARNING)
