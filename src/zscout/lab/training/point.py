"""Trains an FB model of the point maze."""

from dataclasses import asdict
from typing import Any

from zscout.lab.training.fb import FBPretraining
from zscout.lab.training.training import Training
from zscout.models.fb.model import FB
from zscout.models.fb.recipe import FBProgress, FBRecipe
from zscout.models.fb.training import FBTrainer
from zscout.worlds.points.maze import point_maze

PHASES = ("features", "policies", "ψ")


class PointTraining(Training):
    """Three phases on stored transitions; the judge compares with a planner."""

    what: FBPretraining
    trainer: FBTrainer

    def build(self) -> FBTrainer:
        """In four rooms."""
        recipe = self.what.build_recipe()
        assert isinstance(recipe, FBRecipe)
        return FBTrainer(point_maze(), recipe, self.what.seed, self.what.device)

    def judge(self, model: FB) -> dict[str, Any]:
        """Zero-shot returns ÷ the planner's."""
        from zscout.lab.evaluation.judging import judge_point  # training needs none of it

        return asdict(judge_point(model, point_maze(), tasks=1 if self.what.quick else 5))

    def facts(self) -> dict[str, Any]:
        """Map and data."""
        data = "correlated random forces, then rollouts of its own policies"
        return {"map": str(point_maze()).splitlines(), "data": data}

    def told(self, line: FBProgress) -> str:
        """Phase, loss and value."""
        return f"{PHASES[self.trainer.phase]}: loss {line.loss:.4g}  value {line.value:.3f}"

    def summary(self, log: dict[str, Any]) -> str:
        """Values by kind of task."""
        verdict = log["verdict"]
        kinds = ", ".join(f"{kind} {value:.2f}" for kind, value in verdict["kinds"].items())
        return (
            f"zero-shot ÷ planner {verdict['value']:.3f} ({kinds}), ψ error {verdict['psi_error']:.2f}, "
            f"on {verdict['tasks']} tasks; {log['seconds']:.0f} s"
        )
