"""Trains, evaluates and saves a model for a world by name."""

import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Generator, Tensor

import zscout
from zscout.base.edge import as_size, known_name
from zscout.base.files import parse_json, write_json
from zscout.lab.arenas.ground import features_named, world_named
from zscout.models.exact.model import ExactModel
from zscout.models.files.checkpoint import read_checkpoint, write_checkpoint
from zscout.models.files.pretrained import CARD, CONFIG, WEIGHTS, load, save
from zscout.models.usfa.judging import Judge, Verdict, moment_error
from zscout.models.usfa.model import USFA
from zscout.models.usfa.moment_training import MomentTrainer
from zscout.models.usfa.moments import MomentUSFA
from zscout.models.usfa.recipe import RECIPES, Recipe
from zscout.models.usfa.training import Progress, Trainer
from zscout.models.usfa.transitions import Transitions
from zscout.worlds import GridWorld

CHECKPOINT, LOG = "checkpoint.safetensors", "training.json"
SELECTION_TASKS, SELECTION_SEED = 200, 10_001  # the z that select the weights
TEST_TASKS, TEST_SEED = 1_000, 20_002  # the z of the model card
MOMENT_TASKS = 200  # as many of them judge M
KEEP: dict[str, Callable[[Verdict], float]] = {
    "value": lambda verdict: verdict.value,
    "psi": lambda verdict: -verdict.psi_error,
}


@dataclass(frozen=True, kw_only=True)
class Pretraining:
    """Everything that decides a training, by name."""

    world: str = "open-grid"
    features: str = "laplacian"
    dim: int = 9
    slip: float = 0.0
    recipe: str = "robust"
    changes: tuple[str, ...] = ()  # "name=value" of the recipe
    walks: int = 0  # random walks to learn from; 0: every transition of the world
    length: int = 1_000  # of each walk
    seed: int = 0
    patience: int = 20  # lines of the log without a better policy
    keep: str = "value"  # the criterion for the weights to keep: see KEEP
    device: str = "cpu"
    quick: bool = False
    base: str = ""  # a trained model: only its M is trained

    def build_features(self, world: GridWorld) -> Float[Tensor, "S d"]:
        """The features of the world."""
        found = features_named(self.features, world, self.dim)
        if self.dim not in (found.shape[1], Pretraining.dim):
            raise ValueError(f"--dim {self.dim}: {self.features} has {found.shape[1]} features; leave --dim out")
        return found

    def build_recipe(self) -> Recipe:
        """The recipe with its changes."""
        recipe = RECIPES[known_name(self.recipe, RECIPES, "recipe")]
        if self.quick:
            recipe = replace(recipe, policy_steps=200, evaluation_steps=100 if recipe.actor else 0, tasks=16)
            recipe = replace(recipe, moment_steps=min(100, recipe.moment_steps))
        known = [field.name for field in fields(Recipe)]
        return replace(recipe, **dict(parse_change(text, known) for text in self.changes))

    def build_data(self, world: GridWorld) -> Transitions:
        """Transitions without rewards: all, or those of random walks."""
        as_size(self.patience, "patience", 1)
        if not as_size(self.walks, "walks", 0):
            return Transitions.of_world(world)
        return Transitions.of_random_walks(world, self.walks, self.length, Generator().manual_seed(self.seed))

    def command(self, out: str) -> str:
        """The command that repeats this training."""
        words = ["zscout", "pretrain", "--world", self.world, "--features", self.features]
        default = Pretraining(world=self.world, features=self.features)
        for name in ("dim", "slip", "recipe", "walks", "length", "seed", "patience", "keep", "device", "base"):
            if getattr(self, name) != getattr(default, name):
                words += [f"--{name}", str(getattr(self, name))]
        words += ["--set", *self.changes] if self.changes else []
        words += ["--quick"] if self.quick else []
        return shlex.join([*words, "--out", out])


class Run:
    """One training in a folder: resumed if there is a checkpoint."""

    def __init__(self, what: Pretraining, out: Path) -> None:
        check_folder(out)
        self.what, self.out = what, out
        self.world = world_named(what.world, what.slip)
        self.phi = what.build_features(self.world)
        self.trainer = Trainer(
            what.build_data(self.world), self.phi, _places(self.world), what.build_recipe(), what.seed, what.device
        )
        self.exact = ExactModel(self.world, self.phi, self.trainer.recipe.gamma)
        self.score = KEEP[known_name(what.keep, KEEP, "rule for what to keep,")]
        self.model: USFA = self.trainer.model
        self._rule = f"patience {what.patience}" + (f", keep {what.keep}" if what.keep != "value" else "")
        self.resumed = read_checkpoint(self.trainer, out / CHECKPOINT, self._rule)
        if what.base:
            self._take(load(what.base))

    def _take(self, base: object) -> None:
        """Continue where the training of a finished model ended."""
        if not isinstance(base, USFA):
            raise ValueError(f"{self.what.base} is a {type(base).__name__}, expected a USFA of a grid")
        trainer, ours = self.trainer, self.trainer.average.config
        if not trainer.recipe.moment_steps:
            raise ValueError("moment_steps is 0: there is nothing to train; add --set moment_steps=4000")
        moments = {name: getattr(ours, name) for name in ("moment_gamma", "moment_hidden", "moment_layers")}
        same = replace(base.config, **moments) == ours
        if not same or not torch.allclose(base.features, self.phi.float(), atol=1e-5):
            raise ValueError(f"{self.what.base} is not a model of this world, these features and this recipe")
        self._base_facts = {name: fact for name, fact in base.about.items() if name != "verdict"}
        weights = {name: base.state_dict()[name] for name in trainer.average.state_dict()}
        for network in (trainer.online, trainer.average):
            network.load_state_dict(weights)
        trainer.step = trainer.recipe.steps

    @property
    def steps(self) -> int:
        """Steps of all phases."""
        return self.trainer.recipe.steps + self.trainer.recipe.moment_steps

    def train(self, every: int = 250) -> Iterator[Progress]:
        """Train; yields lines of the log, and writes a checkpoint after each."""
        judge = Judge(self.exact, self.exact.sample_z(SELECTION_TASKS, SELECTION_SEED))
        for progress in self.trainer.train(judge, every, self.what.patience, self.score):
            write_checkpoint(self.trainer, self.out / CHECKPOINT, self._rule)
            yield progress
        # M is short to train and the same each time, so it has no checkpoint.
        self.model = self.trainer.model
        if self.trainer.recipe.moment_steps:
            moments = MomentTrainer(self.model, self.trainer.data, self.trainer.recipe, self.what.seed)
            for loss in moments.train(every):
                yield Progress(self.trainer.recipe.steps + moments.step, loss, 0.0, None)
            self.model = moments.model

    def told(self, line: Progress) -> str:
        """A line of the log in words."""
        verdict = line.verdict
        return f"value {verdict.value:.3f}  ψ error {verdict.psi_error:.3f}" if verdict else f"M: loss {line.loss:.3f}"

    def summary(self, log: dict[str, Any]) -> str:
        """The result in one line."""
        final = log["verdict"]
        return (
            f"normalised value {final['value']:.4f} (5th percentile {final['value_p5']:.4f}), "
            f"ψ error {final['psi_error']:.4f}, "
            + (f"M error {final['moment_error']:.3f}, " if "moment_error" in final else "")
            + f"on {final['tasks']:,} held-out z; {log['seconds']:.0f} s"
        )

    def finish(self, seconds: float) -> dict[str, Any]:
        """Evaluate on z that selection did not use, save the model and its log, delete the checkpoint."""
        model, tasks = self.model.cpu(), self.exact.sample_z(TEST_TASKS, TEST_SEED)
        verdict = asdict(Judge(self.exact, tasks)(model))
        if isinstance(model, MomentUSFA):
            verdict["moment_error"] = moment_error(model, self.exact, tasks[:MOMENT_TASKS])
        name = self.out.resolve().name
        model.about = {
            "name": name,
            "world": self.what.world,
            "map": str(self.world).splitlines(),
            "slip": self.world.slip,
            "features": f"{self.what.features}, d = {self.phi.shape[1]}",
            "recipe": self.what.recipe,
            "data": f"{self.what.walks} random walks of {self.what.length}" if self.what.walks else "all transitions",
            "seed": self.what.seed,
            "version": zscout.__version__,
            "command": self.what.command(name),
            "verdict": {**verdict, "tasks": TEST_TASKS},
        }
        if self.what.base:
            model.about |= self._base_facts | {"moment_command": self.what.command(name)}
        save(model, self.out)
        log = {
            "what": asdict(self.what),
            "recipe": asdict(self.trainer.recipe),
            "seconds": seconds,
            "device": self.what.device,
            "verdict": model.about["verdict"],
            "log": [asdict(progress) for progress in self.trainer.log],
        }
        write_json(self.out / LOG, log)
        (self.out / CHECKPOINT).unlink(missing_ok=True)
        return log


def check_folder(out: Path) -> None:
    """Raise unless a training can begin or go on in this folder."""
    if out.exists() and not out.is_dir():
        raise ValueError(f"{out} is a file; --out names a folder")
    if (out / LOG).exists():
        raise ValueError(f"{out} holds a finished training; train into another folder")
    if not (out / CHECKPOINT).exists() and (taken := [n for n in (CONFIG, WEIGHTS, CARD) if (out / n).exists()]):
        raise ValueError(f"{out} holds a {taken[0]} that is not ours to replace; train into another folder")


def _places(world: GridWorld) -> Float[Tensor, "S 2"]:
    """Row and column, scaled to [−1, 1]."""
    last = torch.tensor(world.shape, dtype=torch.float64).sub(1).clamp(min=1)
    return 2 * world.cells / last - 1


def parse_change(text: str, known: Sequence[str], texts: Sequence[str] = ()) -> tuple[str, Any]:
    """Name and value of a change to a recipe, "name=value"; the values of ``texts`` are words."""
    name, _, value = text.partition("=")
    if name not in known:
        raise ValueError(f"a recipe has no {name!r}; it has {', '.join(known)}")
    if name in texts:
        return name, value
    try:
        return name, parse_json(value)
    except ValueError:
        raise ValueError(
            f"{text!r}: {value!r} is no value; write for example tau=0.01, heads=1 or actor=false"
        ) from None
