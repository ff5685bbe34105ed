"""A training in a folder: resumed if it was begun, judged and saved at its end."""

import shlex
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import zscout
from zscout.base.files import parse_json, write_json
from zscout.base.hints import nearest
from zscout.models.files.checkpoint import read_checkpoint, write_checkpoint
from zscout.models.files.folder import CARD, CONFIG, WEIGHTS, save

CHECKPOINT, LOG = "checkpoint.safetensors", "training.json"


@dataclass(frozen=True, kw_only=True)
class Pretraining(ABC):
    """What decides a training, by name."""

    world: str  # a name of the registry, or the path of a map
    data: str = ""  # transitions to learn from: a folder of episodes, or a file
    layout: str = ""  # of the data; empty: as detected
    changes: tuple[str, ...] = ()  # "name=value" of the recipe
    seed: int = 0
    device: str = "cpu"
    quick: bool = False  # a test of a few hundred steps

    @abstractmethod
    def first_words(self) -> list[str]:
        """The options that its command begins with: the world, unless it has none, and what is not a field."""

    def command(self, out: str) -> str:
        """The command that repeats this training."""
        words = ["zscout", "pretrain", *self.first_words()]
        for field in fields(self):
            value = getattr(self, field.name)
            own = field.name not in ("world", "changes", "quick") and f"--{field.name}" not in words
            if own and value != field.default:
                words += [f"--{field.name}", str(value)]
        words += ["--set", *self.changes] if self.changes else []
        words += ["--quick"] if self.quick else []
        return shlex.join([*words, "--out", out])


class Training(ABC):
    """One training: ``train`` yields the lines of its log, ``finish`` judges and saves the model."""

    what: Pretraining
    trainer: Any  # makes the updates: step, log, finished, model, train(every), and what a checkpoint needs
    setting = ""  # what must be the same when it is resumed, beyond recipe, data and seed
    seconds_apart = 20.0  # between checkpoints
    half = True  # whether weights are saved in 16 bits

    def __init__(self, what: Pretraining, out: Path) -> None:
        check_folder(out)
        self.what, self.out = what, out
        self.trainer = self.build()
        self.resumed = read_checkpoint(self.trainer, out / CHECKPOINT, self.setting)
        self.saved = self.trainer.step if self.resumed else 0  # the step of the checkpoint
        self._began = self._counts()

    @abstractmethod
    def build(self) -> Any:
        """The trainer of ``what``."""

    @abstractmethod
    def judge(self, model: Any) -> dict[str, Any]:
        """The quality of the trained model."""

    @abstractmethod
    def facts(self) -> dict[str, Any]:
        """Where the model comes from, for its card."""

    @abstractmethod
    def told(self, line: Any) -> str:
        """A line of the log in words."""

    @abstractmethod
    def summary(self, log: dict[str, Any]) -> str:
        """The result in one line."""

    @property
    def before(self) -> str:
        """What takes long before the first update; empty if nothing does."""
        return ""

    @property
    def steps(self) -> int:
        """Steps of all phases."""
        found: int = self.trainer.recipe.steps
        return found

    @property
    def step(self) -> int:
        """Steps so far."""
        found: int = self.trainer.step
        return found

    @property
    def trained(self) -> Any:
        """The model as it is now, on the CPU."""
        return self.trainer.model.cpu()

    def lines(self, every: int) -> Iterator[Any]:
        """The trainer's lines."""
        yield from self.trainer.train(every=every)

    def train(self, every: int = 250) -> Iterator[Any]:
        """Yield log lines. Save checkpoints after a line: only there does resuming reproduce the run."""
        written = 0.0
        self._began = self._counts()
        for line in self.lines(every):
            if time.monotonic() - written > self.seconds_apart or self.trainer.finished:
                write_checkpoint(self.trainer, self.out / CHECKPOINT, self.setting)
                self.saved, written = self.trainer.step, time.monotonic()
            yield line

    @property
    def pace(self) -> dict[str, float]:
        """Updates, and where there are any, simulated frames a second since ``train`` began; the share of the GPU.

        Empty without a stopwatch, and before the first update.
        """
        spent, updates, frames, busy = (now - then for now, then in zip(self._counts(), self._began, strict=True))
        if not updates or not hasattr(self.trainer, "stopwatch"):
            return {}
        per_second = {"updates/s": updates / spent} | ({"frames/s": frames / spent} if frames else {})
        return per_second | ({"GPU": busy / spent} if busy else {})

    def _counts(self) -> tuple[float, int, int, float]:
        """Seconds, updates, frames, and seconds for which updates kept the GPU busy, so far."""
        watch = getattr(self.trainer, "stopwatch", None)
        frames, busy = (0, 0.0) if watch is None else (watch.frames, watch.busy)
        return time.perf_counter(), self.trainer.step, frames, busy

    def finish(self, seconds: float) -> dict[str, Any]:
        """Judge the model, save it and its log."""
        pace, model, name = self.pace, self.trained, self.out.resolve().name
        verdict = self.judge(model)
        origin = {"seed": self.what.seed, "version": zscout.__version__, "command": self.what.command(name)}
        where = {"world": self.what.world} if self.what.world else {}
        model.about = {"name": name} | where | origin | self.facts() | {"verdict": verdict}
        self.write(model)
        log = {
            "what": asdict(self.what),
            "recipe": asdict(self.trainer.recipe),
            "seconds": seconds,
            "pace": pace,
            "verdict": verdict,
            "log": [asdict(line) for line in self.trainer.log],
        }
        write_json(self.out / LOG, log)
        self.clean_up()
        return log

    def clean_up(self) -> None:
        """Remove what only an unfinished training needs: its checkpoint, and the transitions of its data."""
        (self.out / CHECKPOINT).unlink(missing_ok=True)
        if self.what.data:
            from zscout.models.data.dataset import STORED, discard  # only data need their readers

            discard(self.out / STORED)

    def write(self, model: Any) -> None:
        """Save the model to the folder."""
        save(model, self.out, half=self.half)


def check_folder(out: Path) -> None:
    """Raise unless a training can begin or go on in this folder."""
    if (out / LOG).exists():
        raise ValueError(f"{out} holds a finished training; train into another folder")
    if not (out / CHECKPOINT).exists() and (taken := [n for n in (CONFIG, WEIGHTS, CARD) if (out / n).exists()]):
        raise ValueError(f"{out} holds a {taken[0]} that is not ours to replace; train into another folder")


def parse_change(text: str, known: Sequence[str], texts: Sequence[str] = ()) -> tuple[str, Any]:
    """Name and value of a change to a recipe, "name=value"; the values of ``texts`` are words."""
    name, _, value = text.partition("=")
    if name not in known:
        raise ValueError(f"a recipe has no {name!r}: {nearest(name, known)}it has {', '.join(known)}")
    if name in texts:
        return name, value
    try:
        return name, parse_json(value)
    except ValueError:
        raise ValueError(
            f"{text!r}: {value!r} is not a value; write for example tau=0.01, heads=1 or actor=false"
        ) from None
