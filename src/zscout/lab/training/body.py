"""Trains an FB model of a body."""

from dataclasses import asdict
from typing import Any

from zscout.lab.training.fb import FBPretraining
from zscout.lab.training.training import Training
from zscout.models.fb.body_training import BodyTrainer
from zscout.models.fb.model import FB
from zscout.models.fb.recipe import BodyRecipe, FBProgress
from zscout.models.files.folder import save_observations
from zscout.worlds.bodies.physics import body

SAVED_OBSERVATIONS = 10_000  # with a model
QUICK_EPISODES = {"episodes": 1, "horizon": 50}


class BodyTraining(Training):
    """Updates beside the physics; the judge counts returns of whole episodes."""

    what: FBPretraining
    trainer: BodyTrainer

    def build(self) -> BodyTrainer:
        """In the body of the place."""
        recipe, what = self.what.build_recipe(), self.what
        assert isinstance(recipe, BodyRecipe)
        return BodyTrainer(body(what.world, repeat=recipe.repeat), recipe, what.seed, what.device)

    def judge(self, model: FB) -> dict[str, Any]:
        """Zero-shot returns by task."""
        from zscout.lab.evaluation.judging import judge_body  # training needs none of it

        self._seen, repeat = self.trainer.observations.cpu(), self.trainer.recipe.repeat
        few = QUICK_EPISODES if self.what.quick else {}
        return asdict(judge_body(model, self.what.world, self._seen, repeat=repeat, **few))

    def facts(self) -> dict[str, Any]:
        """Control steps of an action, and the data."""
        data = "random controls, then rollouts of its own policies"
        return {"repeat": self.trainer.recipe.repeat, "data": data}

    def write(self, model: FB) -> None:
        """Also observations, to label."""
        super().write(model)
        save_observations(self.out, self._seen[:SAVED_OBSERVATIONS])

    def told(self, line: FBProgress) -> str:
        """Loss and value."""
        return f"FB: loss {line.loss:.4g}  value {line.value:.3f}"

    def summary(self, log: dict[str, Any]) -> str:
        """Returns by task."""
        verdict = log["verdict"]
        found = ", ".join(f"{task} {value:.0f}" for task, value in verdict["returns"].items())
        return f"zero-shot returns of {verdict['episodes']} episodes: {found}; {log['seconds']:.0f} s"
