"""Trains an FB model of the point maze, of a body, or on data."""

from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from typing import Any

from zscout.lab.training.training import Pretraining, Training, parse_change
from zscout.models.fb.body_training import BodyTrainer, cells_of
from zscout.models.fb.model import FB
from zscout.models.fb.recipe import BodyRecipe, DataRecipe, FBProgress, FBRecipe
from zscout.models.files.folder import save_observations
from zscout.worlds.registry import PLACES

SMALL = {"dim": 12, "hidden": 32, "batch": 64}
SMALL_POINT = {"transitions": 20_000, "feature_steps": 100, "policy_steps": 100, "evaluation_steps": 50, "runs": 64}
SMALL_BODY = {"steps": 100, "bodies": 32, "warm_up": 1_000, "buffer": 10_000, "episode": 50}
SMALL_DATA = {"steps": 100, "buffer": 10_000}

RECIPES: dict[str, tuple[type[FBRecipe | BodyRecipe | DataRecipe], dict[str, int]]] = {
    "point": (FBRecipe, SMALL | SMALL_POINT),
    "body": (BodyRecipe, SMALL | SMALL_BODY),
    "data": (DataRecipe, SMALL | SMALL_DATA),
}
"""By kind of place, or for data; with the changes of a quick test."""

PHASES = ("features", "policies", "ψ")  # of the point maze
SAVED_OBSERVATIONS = 10_000  # with a model
QUICK_EPISODES = {"episodes": 1, "horizon": 50}


@dataclass(frozen=True, kw_only=True)
class FBPretraining(Pretraining):
    """What decides the training of an FB model."""

    world: str = "point-maze"  # empty: only data

    @property
    def kind(self) -> str:
        """The kind of its place; empty if there is only data."""
        return PLACES[self.world].kind if self.world else ""

    def build_recipe(self) -> FBRecipe | BodyRecipe | DataRecipe:
        """The recipe of the place, as far as it applies, with the changes asked for."""
        kind, small = RECIPES["data" if self.data else self.kind]
        known, texts = [field.name for field in fields(kind)], [f.name for f in fields(kind) if f.type is str]
        own = PLACES[self.world].recipe if self.world else {}
        if self.data:  # how long these held an action is not the world's choice
            own = {name: value for name, value in own.items() if name in known and name != "repeat"}
        recipe = kind(**own)
        changes: dict[str, Any] = dict(parse_change(text, known, texts) for text in self.changes)
        return replace(recipe, **(small if self.quick else {}) | changes)

    def build_world(self, recipe: FBRecipe | BodyRecipe | DataRecipe) -> Any:
        """The world; an action of a body is held as the recipe says. None if there is only data."""
        options = {"repeat": recipe.repeat} if self.kind == "body" and not isinstance(recipe, FBRecipe) else {}
        return PLACES[self.world].make(**options) if self.world else None

    def first_words(self) -> list[str]:
        """The world, if there is one, and the kind of model."""
        return [*(["--world", self.world] if self.world else []), "--model", "fb"]


class FBTraining(Training):
    """In a world its own policies make the data; on data the judge also counts errors on held-out transitions."""

    what: FBPretraining
    trainer: Any  # an FBTrainer, a BodyTrainer or a DataTrainer
    world: Any  # a point maze or a body; None if there is only data

    def build(self) -> Any:
        """In the world, or on the transitions that ``gather`` put into the folder."""
        what, recipe = self.what, self.what.build_recipe()
        self.world = world = what.build_world(recipe)
        if isinstance(recipe, BodyRecipe):
            return BodyTrainer(world, recipe, what.seed, what.device)
        if isinstance(recipe, FBRecipe):
            from zscout.models.fb.training import FBTrainer  # a body needs none of it

            return FBTrainer(world, recipe, what.seed, what.device)
        from zscout.models.data.dataset import STORED, Dataset  # only data need their readers
        from zscout.models.fb.offline import DataTrainer

        data = Dataset(self.out / STORED)
        if world is None:
            return DataTrainer(data, recipe, what.seed, what.device)
        found = len(data.summary.obs_low), len(data.summary.action_low)
        wanted = world.observation_space.shape[0], world.action_space.shape[0]
        if found != wanted:
            raise ValueError(
                f"{what.data} has {found[0]} observed numbers and {found[1]} actions, the {what.world} has "
                f"{wanted[0]} and {wanted[1]}: is it data of this world?"
            )
        cells = partial(cells_of, world) if what.kind == "body" else None
        return DataTrainer(data, recipe, what.seed, what.device, world.observation_space, cells)

    @property
    def before(self) -> str:
        """On a GPU the updates of a buffer are compiled."""
        return "compiling the update for the GPU, about a minute" if self.trainer.learner.compiled else ""

    @property
    def keeps_observations(self) -> bool:
        """Whether its transitions are in a buffer: all but a training in the point maze."""
        return bool(self.what.data) or self.what.kind == "body"

    def judge(self, model: FB) -> dict[str, Any]:
        """Zero-shot returns by task of a body, ÷ the planner's in the point maze; of data, held-out errors."""
        from zscout.lab.evaluation.judging import judge_body, judge_point  # training needs none of it

        what, trainer = self.what, self.trainer
        found: dict[str, Any] = {}
        if self.keeps_observations:
            self._seen = trainer.observations.cpu()  # drawn once: those that are judged are saved
        if what.kind == "body":
            few = QUICK_EPISODES if what.quick else {}
            found = judge_body(model, what.world, self._seen, repeat=self.world.repeat, **few)
        elif what.kind == "point":
            found = judge_point(model, self.world, tasks=1 if what.quick else 5)
        return found | ({"data": asdict(trainer.judge(model))} if what.data else {})

    def facts(self) -> dict[str, Any]:
        """The map of the point maze, or the control steps of an action of a body; and the data."""
        if self.what.data:
            data = str(self.trainer.data.summary)
        else:
            of = "correlated random forces" if self.what.kind == "point" else "random controls"
            data = f"{of}, then rollouts of its own policies"
        if self.what.kind == "body":
            return {"repeat": self.world.repeat, "data": data}
        return ({} if self.what.data else {"map": str(self.world).splitlines()}) | {"data": data}

    def write(self, model: FB) -> None:
        """Also observations, to label; those of the point maze are drawn again."""
        super().write(model)
        if self.keeps_observations:
            save_observations(self.out, self._seen[:SAVED_OBSERVATIONS])

    def told(self, line: FBProgress) -> str:
        """Phase, loss and value."""
        phase = "FB" if self.keeps_observations else PHASES[self.trainer.phase]
        return f"{phase}: loss {line.loss:.4g}  value {line.value:.3f}"

    def summary(self, log: dict[str, Any]) -> str:
        """Errors on data, returns by task of a body, values by kind of task of the point maze."""
        verdict, parts = log["verdict"], []
        if data := verdict.get("data"):
            parts.append(
                f"Bellman error of ψ {data['held_out_bellman']:.3f} on {data['transitions']:,} held-out transitions "
                f"({data['bellman']:.3f} on training data; 1: no better than ψ = 0), Cov(φ) − I "
                f"{data['held_out_orthonormality']:.3f} ({data['orthonormality']:.3f})"
            )
        if "returns" in verdict:
            found = ", ".join(f"{task} {value:.0f}" for task, value in verdict["returns"].items())
            parts.append(f"zero-shot returns of {verdict['episodes']} episodes: {found}")
        if "kinds" in verdict:
            kinds = ", ".join(f"{kind} {value:.2f}" for kind, value in verdict["kinds"].items())
            parts.append(
                f"zero-shot ÷ planner {verdict['value']:.3f} ({kinds}), ψ error {verdict['psi_error']:.2f}, "
                f"on {verdict['tasks']} tasks"
            )
        return "; ".join([*parts, f"{log['seconds']:.0f} s"])
