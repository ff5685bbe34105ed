"""Rich features of observations: sines at several widths, so that the reward need not be linear in φ."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Generator, Tensor

from zscout.base.types import HasGoalFeatures, HasPhiOfGoals
from zscout.transfer.constants import BESIDE, CLAMPED_AT, GOAL_WAVES, WAVES, WIDTHS
from zscout.transfer.inputs import defined_together

Map = Callable[[Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class Waves:
    """cos(xW + b)/√k of standardised inputs x: random Fourier features (Rahimi and Recht 2007).

    Each depends on some inputs only, from one to all of them, because most rewards depend on few.
    """

    mean: Float[Tensor, " i"]
    spread: Float[Tensor, " i"]
    rates: Float[Tensor, "i k"]  # W
    phases: Float[Tensor, " k"]  # b

    @classmethod
    def of(cls, inputs: Float[Tensor, "m i"], each: int, rng: Generator) -> "Waves":
        """Standardise by these inputs; draw ``each`` sines of each width."""
        size = inputs.shape[-1]
        widths = torch.tensor(WIDTHS).repeat_interleave(each)
        used = torch.rand(size, len(widths), generator=rng) < torch.rand(len(widths), generator=rng)
        used = used.scatter(0, torch.randint(size, (1, len(widths)), generator=rng), True)  # at least one
        rates = used * torch.randn(size, len(widths), generator=rng) / (widths * used.sum(0).sqrt())
        phases = 2 * math.pi * torch.rand(len(widths), generator=rng)
        scale = inputs.std(0, correction=0)
        scale = torch.where(scale > 1e-6 * inputs.abs().amax(0).clamp(min=1e-30), scale, 1.0)  # a constant input
        return cls(inputs.mean(0), scale, rates.to(inputs), phases.to(inputs))

    def __call__(self, inputs: Float[Tensor, "n i"]) -> Float[Tensor, "n k"]:
        """The sines."""
        x = ((inputs - self.mean) / self.spread).clamp(-CLAMPED_AT, CLAMPED_AT)
        return torch.cos(x @ self.rates + self.phases) / math.sqrt(len(self.phases))

    def to(self, device: torch.device | str) -> "Waves":
        """On another device."""
        return Waves(*(value.to(device) for value in vars(self).values()))


@dataclass(frozen=True, eq=False)
class RichFeatures:
    """Sines of the observation's entries, of the model's goal features, and φ: those that there are."""

    entries: Waves
    goals: Waves | None = None
    goal_features: Map | None = None
    phi: Map | None = None
    phi_of_goals: Map | None = None  # instead of ``phi``, if the model has it: goal features are expensive to compute

    @classmethod
    def of(cls, model: object, observations: Float[Tensor, "m o"], seed: int = 0) -> "RichFeatures":
        """Features for observations like these."""
        rng, entries = Generator().manual_seed(seed), observations.float()
        goal_features, phi = maps_of(model)
        goals = None if goal_features is None else Waves.of(goal_features(entries).float(), GOAL_WAVES, rng)
        return cls(Waves.of(entries, WAVES, rng), goals, goal_features, phi, _phi_of_goals(model))

    @torch.no_grad()
    def __call__(self, given: Float[Tensor, "*b o"]) -> Float[Tensor, "*b D"]:
        """The features of observations."""
        size = len(self.entries.mean)
        if not given.ndim or given.shape[-1] != size:
            raise ValueError(f"observations have shape {tuple(given.shape)}, expected [*b {size}]")
        rows = given.reshape(-1, size)
        parts, seen = [self.entries(rows)], rows
        if self.goals is not None:
            assert self.goal_features is not None
            seen = self.goal_features(rows)
            parts = [BESIDE * parts[0], self.goals(seen.float())]
        if self.phi is not None:
            phi = (self.phi(rows) if self.phi_of_goals is None else self.phi_of_goals(seen)).float()
            parts.append(phi * (BESIDE / math.sqrt(phi.shape[-1])))
        return torch.cat(parts, -1).reshape(*given.shape[:-1], -1)

    def to(self, device: torch.device | str) -> "RichFeatures":
        """The features on another device; the model must be there, too."""
        goals = None if self.goals is None else self.goals.to(device)
        return replace(self, entries=self.entries.to(device), goals=goals)

    def tensors(self) -> dict[str, Tensor]:
        """What ``restored`` needs, by name."""
        parts = {"entries": self.entries} if self.goals is None else {"entries": self.entries, "goals": self.goals}
        return {f"{part}.{name}": value for part, waves in parts.items() for name, value in vars(waves).items()}

    @classmethod
    def restored(cls, tensors: dict[str, Tensor], model: object, *, uses_phi: bool) -> "RichFeatures":
        """The features of a file; raises if this model lacks what they need."""
        goal_features, phi = maps_of(model)
        parts = {
            part: Waves(*(tensors[f"{part}.{name}"] for name in ("mean", "spread", "rates", "phases")))
            for part in ("entries", "goals")
            if f"{part}.mean" in tensors
        }
        for wanted, found, name in (("goals" in parts, goal_features, "goal features"), (uses_phi, phi, "φ")):
            if wanted and found is None:
                raise ValueError(f"its features use {name}, and {type(model).__name__} has none: pass its model")
        phi = phi if uses_phi else None
        if "goals" not in parts:
            return cls(parts["entries"], phi=phi)
        return cls(parts["entries"], parts["goals"], goal_features, phi, _phi_of_goals(model))


def _phi_of_goals(model: object) -> Map | None:
    if isinstance(model, HasPhiOfGoals) and defined_together(type(model), "phi", "phi_of_goals"):
        return model.phi_of_goals
    return None


def maps_of(model: object) -> tuple[Map | None, Map | None]:
    """The model's goal features and φ; None for what it has not."""
    return model.goal_features if isinstance(model, HasGoalFeatures) else None, getattr(model, "phi", None)
