"""What decides the training of an FB model, of the point maze or of a body."""

import shlex
from dataclasses import dataclass, fields, replace
from typing import Any

from zscout.lab.training.training import parse_change
from zscout.models.fb.recipe import BodyRecipe, FBRecipe
from zscout.worlds.registry import PLACES

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

    world: str = "point-maze"
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
