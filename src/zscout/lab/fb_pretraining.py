"""Trains, judges and saves an FB model for the point maze."""

import shlex
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import zscout
from zscout.bfm.checkpoint import read_checkpoint, write_checkpoint
from zscout.bfm.fb_judging import PointJudge
from zscout.bfm.fb_recipe import FBProgress, FBRecipe
from zscout.bfm.fb_training import FBTrainer
from zscout.bfm.pretrained import save
from zscout.files import write_json
from zscout.lab.pretraining import CHECKPOINT, LOG, check_folder, parse_change
from zscout.worlds import point_maze

QUICK = FBRecipe(
    dim=12,
    hidden=32,
    transitions=20_000,
    feature_steps=100,
    policy_steps=100,
    evaluation_steps=50,
    batch=64,
    runs=64,
)


@dataclass(frozen=True, kw_only=True)
class FBPretraining:
    """What decides the training of an FB model."""

    changes: tuple[str, ...] = ()  # "name=value" of the recipe
    seed: int = 0
    device: str = "cpu"
    quick: bool = False

    def build_recipe(self) -> FBRecipe:
        """The recipe with the changes asked for."""
        known = [field.name for field in fields(FBRecipe)]
        return replace(QUICK if self.quick else FBRecipe(), **dict(parse_change(text, known) for text in self.changes))

    def command(self, out: str) -> str:
        """The command that makes the same model."""
        words = ["zscout", "pretrain", "--world", "point-maze", "--model", "fb"]
        words += ["--seed", str(self.seed)] if self.seed else []
        words += ["--device", self.device] if self.device != "cpu" else []
        words += ["--set", *self.changes] if self.changes else []
        words += ["--quick"] if self.quick else []
        return shlex.join([*words, "--out", out])


class FBRun:
    """One training in a folder; resumes if it was begun."""

    def __init__(self, what: FBPretraining, out: Path) -> None:
        check_folder(out)
        self.what, self.out, self.world = what, out, point_maze()
        self.trainer = FBTrainer(self.world, what.build_recipe(), what.seed, what.device)
        self.resumed = read_checkpoint(self.trainer, out / CHECKPOINT)

    def train(self, every: int = 250) -> Iterator[FBProgress]:
        """Lines of the log; a checkpoint after each."""
        for progress in self.trainer.train(every=every):
            write_checkpoint(self.trainer, self.out / CHECKPOINT)
            yield progress

    def told(self, line: FBProgress) -> str:
        """A line of the log in words."""
        phase = ("features", "policies", "ψ")[self.trainer.phase]
        return f"{phase}: loss {line.loss:.4g}  value {line.value:.3f}"

    def finish(self, seconds: float) -> dict[str, Any]:
        """Judge the model, save it and its log, remove the checkpoint."""
        model = self.trainer.model.cpu()
        verdict = asdict(PointJudge(self.world, tasks=1 if self.what.quick else 5)(model))
        model.about = about(self.what, self.out.resolve().name, str(self.world), verdict)
        save(model, self.out, half=True)
        log = {
            "what": asdict(self.what),
            "recipe": asdict(self.trainer.recipe),
            "seconds": seconds,
            "verdict": verdict,
            "log": [asdict(progress) for progress in self.trainer.log],
        }
        write_json(self.out / LOG, log)
        (self.out / CHECKPOINT).unlink(missing_ok=True)
        return log

    def summary(self, log: dict[str, Any]) -> str:
        """The result in one line."""
        verdict = log["verdict"]
        kinds = ", ".join(f"{kind} {value:.2f}" for kind, value in verdict["kinds"].items())
        return (
            f"zero-shot ÷ planner {verdict['value']:.3f} ({kinds}), ψ error {verdict['psi_error']:.2f}, "
            f"on {verdict['tasks']} tasks; {log['seconds']:.0f} s"
        )


def about(what: FBPretraining, name: str, world: str, verdict: dict[str, Any]) -> dict[str, Any]:
    """The origin of a model, for its card."""
    return {
        "name": name,
        "world": "point-maze",
        "map": world.splitlines(),
        "data": "correlated random forces, then rollouts of its own policies",
        "seed": what.seed,
        "version": zscout.__version__,
        "command": what.command(name),
        "verdict": verdict,
    }
