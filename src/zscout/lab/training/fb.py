"""What decides the training of an FB model, of the point maze, of a body or of data."""

import shlex
from dataclasses import dataclass, fields, replace
from typing import Any

from zscout.lab.training.training import parse_change
from zscout.models.fb.recipe import BodyRecipe, DataRecipe, FBRecipe
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


@dataclass(frozen=True, kw_only=True)
class FBPretraining:
    """What decides the training of an FB model."""

    world: str = "point-maze"  # empty: only data
    data: str = ""  # a folder of episodes, or a file
    layout: str = ""  # of the data; empty: as detected
    changes: tuple[str, ...] = ()  # "name=value" of the recipe
    seed: int = 0
    device: str = "cpu"
    quick: bool = False

    def build_recipe(self) -> FBRecipe | BodyRecipe | DataRecipe:
        """The recipe of the place, as far as it applies, with the changes asked for."""
        kind, small = RECIPES["data" if self.data else PLACES[self.world].kind]
        known, texts = [field.name for field in fields(kind)], [f.name for f in fields(kind) if f.type is str]
        own = PLACES[self.world].recipe if self.world else {}
        recipe = kind(**{name: value for name, value in own.items() if not self.data or name in known})
        changes: dict[str, Any] = dict(parse_change(text, known, texts) for text in self.changes)
        return replace(recipe, **(small if self.quick else {}) | changes)

    def command(self, out: str) -> str:
        """The command that makes the same model."""
        words = ["zscout", "pretrain", *(["--world", self.world] if self.world else []), "--model", "fb"]
        words += ["--data", self.data] if self.data else []
        words += ["--layout", self.layout] if self.layout else []
        words += ["--seed", str(self.seed)] if self.seed else []
        words += ["--device", self.device] if self.device != "cpu" else []
        words += ["--set", *self.changes] if self.changes else []
        words += ["--quick"] if self.quick else []
        return shlex.join([*words, "--out", out])
