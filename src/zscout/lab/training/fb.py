"""Trains, judges and saves an FB model: of the point maze, or of a body."""

import shlex
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import zscout
from zscout.base.files import write_json
from zscout.lab.arenas.point import POINT_MAZE
from zscout.lab.evaluation.body_judging import HORIZON, judge_body
from zscout.lab.training.usfa import CHECKPOINT, LOG, check_folder, parse_change
from zscout.models.fb.bodies.recipe import BodyRecipe
from zscout.models.fb.bodies.training import BodyTrainer
from zscout.models.fb.judging import PointJudge
from zscout.models.fb.recipe import FBProgress, FBRecipe
from zscout.models.fb.training import FBTrainer
from zscout.models.files.checkpoint import read_checkpoint, write_checkpoint
from zscout.models.files.pretrained import save, save_observations
from zscout.worlds.bodies.body import body
from zscout.worlds.points.maze import point_maze
from zscout.worlds.registry import PLACES

SECONDS = 20.0  # between checkpoints
KEPT = 10_000  # observations saved with a model of a body

SMALL = {"dim": 12, "hidden": 32, "batch": 64}
SMALL_POINT = {"transitions": 20_000, "feature_steps": 100, "policy_steps": 100, "evaluation_steps": 50, "runs": 64}
SMALL_BODY = {"steps": 100, "bodies": 32, "warm_up": 1_000, "buffer": 10_000, "episode": 50}


RECIPES: dict[str, tuple[type[FBRecipe | BodyRecipe], dict[str, int]]] = {
    "point": (FBRecipe, SMALL | SMALL_POINT),
    "body": (BodyRecipe, SMALL | SMALL_BODY),
}
"""By kind of place, with the changes of a quick test."""


@dataclass(frozen=True, kw_only=True)
class FBPretraining:
    """What decides the training of an FB model."""

    world: str = POINT_MAZE
    changes: tuple[str, ...] = ()  # "name=value" of the recipe
    seed: int = 0
    device: str = "cpu"
    quick: bool = False

    def build_recipe(self) -> FBRecipe | BodyRecipe:
        """The recipe with the changes asked for."""
        place = PLACES[self.world]
        kind, small = RECIPES[place.kind]
        recipe = kind(**place.recipe)
        known, texts = [field.name for field in fields(recipe)], [f.name for f in fields(recipe) if f.type is str]
        changes: dict[str, Any] = dict(parse_change(text, known, texts) for text in self.changes)
        return replace(recipe, **(small if self.quick else {}) | changes)

    def command(self, out: str) -> str:
        """The command that makes the same model."""
        words = ["zscout", "pretrain", "--world", self.world, "--model", "fb"]
        words += ["--seed", str(self.seed)] if self.seed else []
        words += ["--device", self.device] if self.device != "cpu" else []
        words += ["--set", *self.changes] if self.changes else []
        words += ["--quick"] if self.quick else []
        return shlex.join([*words, "--out", out])


class FBRun:
    """One training in a folder; resumes if it was begun."""

    def __init__(self, what: FBPretraining, out: Path) -> None:
        check_folder(out)
        self.what, self.out = what, out
        recipe = what.build_recipe()
        self.trainer: FBTrainer | BodyTrainer
        if isinstance(recipe, BodyRecipe):
            self.trainer = BodyTrainer(body(what.world, repeat=recipe.repeat), recipe, what.seed, what.device)
        else:
            self.trainer = FBTrainer(point_maze(), recipe, what.seed, what.device)
        self.resumed = read_checkpoint(self.trainer, out / CHECKPOINT)

    @property
    def steps(self) -> int:
        """Steps of all phases."""
        return self.trainer.recipe.steps

    def train(self, every: int = 250) -> Iterator[FBProgress]:
        """Yield log lines. Save a checkpoint every 20 s, after a line: only there does resuming reproduce the run."""
        written = 0.0
        for progress in self.trainer.train(every=every):
            if time.monotonic() - written > SECONDS or self.trainer.finished:
                write_checkpoint(self.trainer, self.out / CHECKPOINT)
                written = time.monotonic()
            yield progress

    def told(self, line: FBProgress) -> str:
        """A line of the log in words."""
        phase = "FB"
        if isinstance(self.trainer, FBTrainer):
            phase = ("features", "policies", "ψ")[self.trainer.phase]
        return f"{phase}: loss {line.loss:.4g}  value {line.value:.3f}"

    def finish(self, seconds: float) -> dict[str, Any]:
        """Judge the model, save it and its log, remove the checkpoint."""
        model, what, trainer = self.trainer.model.cpu(), self.what, self.trainer
        if isinstance(trainer, BodyTrainer):
            seen, repeat = trainer.observations.cpu(), trainer.recipe.repeat
            episodes, horizon = (1, 50) if what.quick else (10, HORIZON)
            found = judge_body(model, what.world, seen, repeat=repeat, episodes=episodes, horizon=horizon)
            verdict = asdict(found)
        else:
            verdict = asdict(PointJudge(point_maze(), tasks=1 if what.quick else 5)(model))
        model.about = about(what, self.out.resolve().name, verdict)
        save(model, self.out, half=True)
        if isinstance(trainer, BodyTrainer):
            save_observations(self.out, seen[:KEPT])
        log = {
            "what": asdict(what),
            "recipe": asdict(trainer.recipe),
            "seconds": seconds,
            "verdict": verdict,
            "log": [asdict(progress) for progress in trainer.log],
        }
        write_json(self.out / LOG, log)
        (self.out / CHECKPOINT).unlink(missing_ok=True)
        return log

    def summary(self, log: dict[str, Any]) -> str:
        """The result in one line."""
        verdict, took = log["verdict"], f"{log['seconds']:.0f} s"
        if "returns" in verdict:
            found = ", ".join(f"{task} {value:.0f}" for task, value in verdict["returns"].items())
            return f"zero-shot returns of {verdict['episodes']} episodes: {found}; {took}"
        kinds = ", ".join(f"{kind} {value:.2f}" for kind, value in verdict["kinds"].items())
        return (
            f"zero-shot ÷ planner {verdict['value']:.3f} ({kinds}), ψ error {verdict['psi_error']:.2f}, "
            f"on {verdict['tasks']} tasks; {took}"
        )


def about(what: FBPretraining, name: str, verdict: dict[str, Any]) -> dict[str, Any]:
    """The origin of a model, for its card."""
    point, recipe = what.world == POINT_MAZE, what.build_recipe()
    return {
        "name": name,
        "world": what.world,
        **({"repeat": recipe.repeat} if isinstance(recipe, BodyRecipe) else {"map": str(point_maze()).splitlines()}),
        "data": f"{'correlated random forces' if point else 'random controls'}, then rollouts of its own policies",
        "seed": what.seed,
        "version": zscout.__version__,
        "command": what.command(name),
        "verdict": verdict,
    }
