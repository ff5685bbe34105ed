"""The networks of an FB model with targets and optimisers, and the FB update on given rows.

After Touati and Ollivier (2021) and Touati et al. (2023). With B centred over the batch the successor measure is
M(s,a,z,ds') = (F(s,a,z)·B(s') + 1/(1 − γ)) ρ(ds'), and its Bellman residual needs d × d moments of B only.
"""

import copy
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import torch
from gymnasium.spaces import Box
from jaxtyping import Float, Int
from torch import Generator, Tensor

from zscout.models.fb.graphs import Stopwatch
from zscout.models.fb.model import FB, FBConfig
from zscout.models.fb.recipe import FBProgress, LearnerRecipe
from zscout.models.fb.task_prior import random_tasks
from zscout.models.networks import fill_moments, moments_of
from zscout.models.sphere import goals_or_uniform

ARCHITECTURE = (
    "dim",
    "gamma",
    "hidden",
    "layers",
    "frequencies",
    "gated",
    "normalised",
    "quadratic",
    "goal_features",
    "angles",
)
SAMPLE = 200_000  # observations for moments


@dataclass(frozen=True, eq=False)
class Rows:
    """Training rows: Σ_{k<n} γᵏφ(S_{t+k+1}) is known, and γⁿψ(S_{t+n};z) is to be added."""

    obs: Float[Tensor, "n k"]
    action: Float[Tensor, "n a"]
    z: Float[Tensor, "n d"]
    features: Float[Tensor, "n d"]  # Σ_{k<n} γᵏφ(S_{t+k+1})
    tail_obs: Float[Tensor, "n k"]  # S_{t+n}
    discount: Float[Tensor, "n 1"]  # γⁿ; 0 if the episode terminated


class FBLearner:
    """The online networks, their targets, the optimisers and the random state."""

    def __init__(
        self,
        space: Box,
        actions: int,
        recipe: LearnerRecipe,
        seed: int = 0,
        device: torch.device | str = "cpu",
        *,
        compiled: bool = False,
    ) -> None:
        self.recipe, self.device = recipe, torch.device(device)
        self.rng = Generator(device=self.device).manual_seed(seed)
        config = FBConfig(
            observation_low=tuple(end if math.isfinite(end) else None for end in space.low.tolist()),
            observation_high=tuple(end if math.isfinite(end) else None for end in space.high.tolist()),
            actions=actions,
            prior=True,
            **{name: getattr(recipe, name) for name in ARCHITECTURE},
        )
        self.online = FB(config, seed).to(self.device)
        self.target = copy.deepcopy(self.online).requires_grad_(False)
        fast = self.device.type == "cuda"
        self.compiled = fast and compiled  # such an update joins the kernels of Adam's single operations
        self._rate_part: float | None = None
        # One for each network: a phase may train F alone.
        self.optimisers = {
            name: torch.optim.Adam(
                getattr(self.online, name).parameters(),
                lr=torch.zeros((), device=self.device) if fast else 0.0,
                fused=not self.compiled,
                foreach=self.compiled,
                capturable=fast,
            )
            for name in ("forward_map", "backward_map", "actor")
        }

    def standardise(self, obs: Float[Tensor, "n k"]) -> None:
        """Inputs with mean 0 over these observations and, if uniform, in [−1, 1]; a constant entry keeps its scale.

        Sines and cosines stay as they are: the first observations may have few of the angles.
        """
        for model in (self.online, self.target):
            config = model.config
            parts = ("obs", config.inputs(obs), config.angles), ("goal", config.goals(obs), config.goal_angles)
            for name, seen, angles in parts:
                mean, scale = getattr(model, f"{name}_mean"), getattr(model, f"{name}_scale")
                spread = seen.std(0)
                varies = spread > 1e-6 * seen.abs().amax(0).clamp(min=1e-30)
                mean.copy_(seen.mean(0))
                scale.copy_(torch.where(varies, spread * math.sqrt(3), 1.0))
                if angles:
                    mean[-2 * len(angles) :], scale[-2 * len(angles) :] = 0.0, 1.0

    def draw_z(self, B: Float[Tensor, "n d"], goals: Float[Tensor, "n g"] | None = None) -> Float[Tensor, "n d"]:
        """B of other rows, or uniform on the sphere; with ``goals``, whose B this is, also z of random rewards."""
        z = goals_or_uniform(B.roll(1, 0), self.recipe.goal_share, self.rng)
        tasks = round(self.recipe.task_share * len(B))
        if tasks and goals is not None:  # rows are in random order
            z[:tasks] = random_tasks(B, goals, tasks, self.rng, self.recipe.ramps, self.recipe.gates)
        return z

    def update(self, rows: Rows, goals: Float[Tensor, "n g"]) -> Float[Tensor, "3"]:
        """One step of F and B by the FB loss, and of the actor.

        ``goals`` are the goal features of ``rows.tail_obs``, and ``rows.features`` is B of them, centred.
        Returns the loss, ‖Cov(B) − I‖² and the mean value per step.
        """
        recipe, online, target = self.recipe, self.online, self.target
        here, z, B = online.encode(rows.obs), rows.z, rows.features
        with torch.no_grad():
            there = online.encode(rows.tail_obs)
            tail = rows.discount * least(target.forward_of(there, self.noisy(online.action_of(there, z)), z), z)
            target_B = centred(target.backward_of_goals(goals))
        orthonormality = orthonormality_loss(B)
        F = online.forward_of(here, rows.action, z)
        loss = fb_loss(F, B, tail, target_B) * (1 - recipe.gamma)
        whole = loss + recipe.orthonormality * orthonormality
        if recipe.value_weight:
            whole = whole + recipe.value_weight * value_loss(F, B.detach(), tail, z) * (1 - recipe.gamma)
        self.descend(whole, "forward_map", "backward_map")
        value = self.improve(here, z)
        self.follow()
        return torch.stack([loss.detach(), orthonormality.detach(), value])

    def improve(self, here: Float[Tensor, "n e"], z: Float[Tensor, "n d"]) -> Float[Tensor, ""]:
        """One step of the actor up F(s,π(s,z),z)·z; returns its mean per step."""
        online = self.online
        F = online.forward_of(here, self.noisy(online.action_of(here, z)), z)
        value = (F * z).sum(-1).amin(0).mean()
        self.descend(-value, "actor")
        return value.detach() * (1 - self.recipe.gamma)

    def noisy(self, action: Float[Tensor, "n a"]) -> Float[Tensor, "n a"]:
        """Actions with the recipe's noise."""
        noise = self.recipe.noise * torch.randn(action.shape, generator=self.rng, device=self.device)
        return (action + noise.clamp(-0.3, 0.3)).clamp(-1, 1)

    def descend(self, loss: Float[Tensor, ""], *names: str) -> None:
        """One step of these networks down the loss; no other network gets a gradient."""
        parameters = [each for name in names for each in getattr(self.online, name).parameters()]
        for parameter, gradient in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
            parameter.grad = gradient
        for name in names:
            self.optimisers[name].step()

    def follow(self) -> None:
        """Move the targets toward the networks."""
        with torch.no_grad():
            for name in ("forward_map", "backward_map"):
                target, online = (list(getattr(model, name).parameters()) for model in (self.target, self.online))
                torch._foreach_lerp_(target, online, self.recipe.tau)

    def set_rates(self, part: float) -> None:
        """Learning rates as a part of the recipe's."""
        if part == self._rate_part:
            return
        self._rate_part = part
        for name, optimiser in self.optimisers.items():
            rate = part * (self.recipe.actor_rate if name == "actor" else self.recipe.learning_rate)
            group = optimiser.param_groups[0]
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate

    def live_tensors(self) -> dict[str, Tensor]:
        """What an update changes, in place."""
        state = {f"online.{name}": tensor for name, tensor in self.online.state_dict().items()}
        state |= {f"target.{name}": tensor for name, tensor in self.target.state_dict().items()}
        for name, optimiser in self.optimisers.items():
            state |= moments_of(optimiser, f"adam.{name}")
        return state

    def resume(self, tensors: dict[str, Tensor]) -> None:
        """Continue from ``live_tensors`` and the random state of a checkpoint."""
        for optimiser in self.optimisers.values():
            fill_moments(optimiser)
        live = self.live_tensors()
        for name, tensor in tensors.items():
            if name in live:
                live[name].copy_(tensor)
        self.rng.set_state(tensors["rng"].cpu())


class LearnerTrainer:
    """A trainer with a learner: what it has done so far, and its checkpoints."""

    def __init__(self, learner: FBLearner, recipe: Any, seed: int) -> None:
        self.learner, self.recipe, self.seed, self.device = learner, recipe, seed, learner.device
        self.step = 0
        self.log: list[FBProgress] = []
        self.stopwatch = Stopwatch(self.device)
        self._update: Callable[[], Tensor] | None = None  # captured as a graph on CUDA

    @property
    def finished(self) -> bool:
        """Whether all updates are done."""
        done: bool = self.step >= self.recipe.steps
        return done

    def tensors(self) -> dict[str, Tensor]:
        """For a checkpoint: weights, targets, optimiser moments and random state."""
        return {**self.learner.live_tensors(), "rng": self.learner.rng.get_state()}

    def counters(self) -> dict[str, Any]:
        """For a checkpoint: the step and the log."""
        return {"step": self.step, "log": [asdict(line) for line in self.log]}

    def resume(self, tensors: dict[str, Tensor], counters: dict[str, Any]) -> None:
        """Continue from ``tensors`` and ``counters``."""
        self._update = None
        self.learner.resume(tensors)
        self.step = counters["step"]
        self.log = [FBProgress(**line) for line in counters["log"]]


# Losses, with B centred over the batch


def centred(B: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
    """B less its mean over the batch."""
    return B - B.mean(0)


def orthonormality_loss(B: Float[Tensor, "n d"]) -> Float[Tensor, ""]:
    """‖Cov(B) − I‖²."""
    return (B.mT @ B / len(B) - torch.eye(B.shape[1], device=B.device)).square().sum()


def fb_loss(
    F: Float[Tensor, "h n d"],
    B: Float[Tensor, "n d"],
    tail: Float[Tensor, "n d"],
    target_B: Float[Tensor, "n d"],
) -> Float[Tensor, ""]:
    """Σ_heads mean_ij ½(F_i·B_j − tail_i·B̄_j)² − mean_i F_i·B_i, without the part that has no gradient.

    ``tail`` is γF̄(s', π(s',z), z). The squares are written with BᵀB/n and BᵀB̄/n, so that no [n n] matrix is needed.
    """
    squares = 0.5 * (F @ (B.mT @ B / len(B)) * F).sum(-1)
    cross = (F @ (B.mT @ target_B / len(B)) * tail).sum(-1)
    return (squares - cross - (F * B).sum(-1)).mean(-1).sum()


def value_loss(
    F: Float[Tensor, "h n d"], B: Float[Tensor, "n d"], tail: Float[Tensor, "n d"], z: Float[Tensor, "n d"]
) -> Float[Tensor, ""]:
    """Σ_heads mean ½((F − B − tail)·z)²/d: the Bellman error of the value that the actor climbs.

    ``fb_loss`` weighs it like the error in any other of the d directions. Cov(B) is assumed to be I.
    """
    return 0.5 * ((F - B - tail) * z).sum(-1).square().mean(-1).sum() / z.shape[-1]


def least(F: Float[Tensor, "h n d"], z: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
    """F of the head with the lowest value F·z."""
    if len(F) == 1:
        return F[0]
    index: Int[Tensor, " n"] = (F * z).sum(-1).argmin(0)
    return F.gather(0, index[None, :, None].expand(1, -1, F.shape[-1]))[0]
