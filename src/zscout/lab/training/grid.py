"""Trains a USFA of a grid."""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Generator, Tensor

from zscout.base.edge import as_size, known_name
from zscout.lab.arenas.ground import features_named, world_named
from zscout.lab.training.training import Pretraining, Training, parse_change
from zscout.models.data.dataset import STORED, Dataset
from zscout.models.exact.model import ExactModel
from zscout.models.files.pretrained import load
from zscout.models.usfa.judging import Judge, Verdict, moment_error
from zscout.models.usfa.model import USFA
from zscout.models.usfa.moment_training import MomentTrainer
from zscout.models.usfa.moments import MomentUSFA
from zscout.models.usfa.recipe import RECIPES, Recipe
from zscout.models.usfa.training import Progress, Trainer
from zscout.models.usfa.transitions import Transitions
from zscout.worlds import GridWorld

SELECTION_TASKS, SELECTION_SEED = 200, 10_001  # the z that select the weights
TEST_TASKS, TEST_SEED = 1_000, 20_002  # the z of the model card
MOMENT_TASKS = 200  # as many of them judge M
KEEP: dict[str, Callable[[Verdict], float]] = {
    "value": lambda verdict: verdict.value,
    "psi": lambda verdict: -verdict.psi_error,
}


@dataclass(frozen=True, kw_only=True)
class GridPretraining(Pretraining):
    """What decides the training of a USFA."""

    world: str = "open-grid"
    features: str = "laplacian"
    dim: int = 9
    slip: float = 0.0
    recipe: str = "robust"
    walks: int = 0  # random walks to learn from; 0: every transition of the world
    length: int = 1_000  # of each walk
    patience: int = 20  # lines of the log without a better policy
    keep: str = "value"  # the criterion for the weights to keep: see KEEP
    base: str = ""  # a trained model: only its M is trained

    def build_features(self, world: GridWorld) -> Float[Tensor, "S d"]:
        """The features of the world."""
        found = features_named(self.features, world, self.dim)
        if self.dim not in (found.shape[1], GridPretraining.dim):
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

    def build_data(self, world: GridWorld, stored: Path) -> Transitions:
        """Transitions without rewards: all, those of random walks, or those of files."""
        as_size(self.patience, "patience", 1)
        if self.data:
            return Transitions.of_data(Dataset(stored), world.n_states, world.n_actions)
        if not as_size(self.walks, "walks", 0):
            return Transitions.of_world(world)
        return Transitions.of_random_walks(world, self.walks, self.length, Generator().manual_seed(self.seed))

    def first_words(self) -> list[str]:
        """World and features."""
        return ["--world", self.world, "--features", self.features]


class GridTraining(Training):
    """A policy and its ψ, then M; the exact model judges and selects the weights."""

    what: GridPretraining
    trainer: Trainer
    seconds_apart = 0.0  # a checkpoint after each line
    half = False

    def __init__(self, what: GridPretraining, out: Path) -> None:
        self.setting = f"patience {what.patience}" + (f", keep {what.keep}" if what.keep != "value" else "")
        super().__init__(what, out)
        self.exact = ExactModel(self.world, self.phi, self.trainer.recipe.gamma)
        self._moments: MomentTrainer | None = None
        if what.base:
            self._take(load(what.base))

    def build(self) -> Trainer:
        """On the transitions of the world."""
        what = self.what
        self.score = KEEP[known_name(what.keep, KEEP, "rule for what to keep,")]
        self.world = world_named(what.world, what.slip)
        self.phi = what.build_features(self.world)
        return Trainer(
            what.build_data(self.world, self.out / STORED),
            self.phi,
            _places(self.world),
            what.build_recipe(),
            what.seed,
            what.device,
        )

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

    @property
    def step(self) -> int:
        """Steps so far, of M, too."""
        return super().step if self._moments is None else self.trainer.recipe.steps + self._moments.step

    @property
    def trained(self) -> USFA:
        """With M, if the recipe trains it."""
        return (self._moments or self.trainer).model.cpu()

    def lines(self, every: int) -> Iterator[Progress]:
        """With verdicts."""
        judge = Judge(self.exact, self.exact.sample_z(SELECTION_TASKS, SELECTION_SEED))
        return self.trainer.train(judge, every, self.what.patience, self.score)

    def train(self, every: int = 250) -> Iterator[Progress]:
        """Train the policy and ψ, then M. M is short to train and the same each time, so it has no checkpoint."""
        yield from super().train(every)
        if self.trainer.recipe.moment_steps:
            self._moments = MomentTrainer(self.trainer.model, self.trainer.data, self.trainer.recipe, self.what.seed)
            for loss in self._moments.train(every):
                yield Progress(self.step, loss, 0.0, None)

    def judge(self, model: USFA) -> dict[str, Any]:
        """By the exact model, on z that selection did not use."""
        tasks = self.exact.sample_z(TEST_TASKS, TEST_SEED)
        verdict = asdict(Judge(self.exact, tasks)(model))
        if isinstance(model, MomentUSFA):
            verdict["moment_error"] = moment_error(model, self.exact, tasks[:MOMENT_TASKS])
        return {**verdict, "tasks": TEST_TASKS}

    def facts(self) -> dict[str, Any]:
        """World, features, recipe and data; those of the base, if only M is new."""
        what = self.what
        found = {
            "map": str(self.world).splitlines(),
            "slip": self.world.slip,
            "features": f"{what.features}, d = {self.phi.shape[1]}",
            "recipe": what.recipe,
            "data": what.data or (f"{what.walks} random walks of {what.length}" if what.walks else "all transitions"),
        }
        if what.base:
            found |= self._base_facts | {"moment_command": what.command(self.out.resolve().name)}
        return found

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


def _places(world: GridWorld) -> Float[Tensor, "S 2"]:
    """Row and column, scaled to [−1, 1]."""
    last = torch.tensor(world.shape, dtype=torch.float64).sub(1).clamp(min=1)
    return 2 * world.cells / last - 1
