"""Trains an FB model on files of transitions."""

from dataclasses import asdict
from functools import partial
from typing import Any

from zscout.lab.training.body import BodyTraining
from zscout.models.data.dataset import STORED, Dataset, discard
from zscout.models.fb.model import FB
from zscout.models.fb.offline import DataTrainer
from zscout.models.fb.recipe import DataRecipe
from zscout.worlds.registry import PLACES


class DataTraining(BodyTraining):
    """Updates on stored transitions; the judge counts errors on held-out ones, and returns if there is a world."""

    trainer: DataTrainer  # type: ignore[assignment]

    def build(self) -> DataTrainer:  # type: ignore[override]
        """On the transitions that ``gather`` put into the folder."""
        what, recipe, data = self.what, self.what.build_recipe(), Dataset(self.out / STORED)
        assert isinstance(recipe, DataRecipe)
        if not what.world:
            return DataTrainer(data, recipe, what.seed, what.device)
        place = PLACES[what.world]
        world = place.make(**({"repeat": recipe.repeat} if place.kind == "body" else {}))
        found = len(data.summary.obs_low), len(data.summary.action_low)
        wanted = world.observation_space.shape[0], world.action_space.shape[0]
        if found != wanted:
            raise ValueError(
                f"{what.data} has {found[0]} observed numbers and {found[1]} actions, the {what.world} has "
                f"{wanted[0]} and {wanted[1]}: is it data of this world?"
            )
        cells = None
        if place.kind == "body":
            from zscout.models.fb.body_training import cells_of

            cells = partial(cells_of, world)
        return DataTrainer(data, recipe, what.seed, what.device, world.observation_space, cells)

    def judge(self, model: FB) -> dict[str, Any]:
        """Errors on held-out trajectories; zero-shot returns, if there is a world."""
        errors: dict[str, Any] = {"data": asdict(self.trainer.judge(model))}
        kind = PLACES[self.what.world].kind if self.what.world else ""
        if kind == "body":
            return super().judge(model) | errors
        self._seen = self.trainer.observations.cpu()
        if kind != "point":
            return errors
        from zscout.lab.evaluation.judging import judge_point

        tasks = 1 if self.what.quick else 5
        return asdict(judge_point(model, PLACES[self.what.world].make(), tasks=tasks)) | errors

    def clean_up(self) -> None:
        """Remove the transitions, too."""
        super().clean_up()
        discard(self.out / STORED)

    def facts(self) -> dict[str, Any]:
        """The data; of a body, control steps of an action."""
        of_body = self.what.world and PLACES[self.what.world].kind == "body"
        return (super().facts() if of_body else {}) | {"data": str(self.trainer.data.summary)}

    def summary(self, log: dict[str, Any]) -> str:
        """Errors, and returns."""
        verdict = log["verdict"]
        data = verdict["data"]
        told = (
            f"Bellman error of ψ {data['held_out_bellman']:.3f} on {data['transitions']:,} held-out transitions "
            f"({data['bellman']:.3f} on training data; 1: no better than ψ = 0), Cov(φ) − I "
            f"{data['held_out_orthonormality']:.3f} ({data['orthonormality']:.3f})"
        )
        if "returns" in verdict:
            return f"{told}; {super().summary(log)}"
        return f"{told}" + (f"; zero-shot ÷ planner {verdict['value']:.3f}" if "value" in verdict else "")
