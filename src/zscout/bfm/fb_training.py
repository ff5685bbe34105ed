"""Trains an FB model on reward-free transitions; yields metrics and does not print or plot.

After Touati and Ollivier (2021) and Touati et al. (2023). With B centred over the batch the successor measure is
M(s,a,z,ds') = (F(s,a,z)·B(s') + 1/(1 − γ)) ρ(ds'), and its Bellman residual needs d × d moments of B only.
"""

import copy
import math
from collections.abc import Callable, Iterator
from dataclasses import asdict
from itertools import accumulate
from typing import Any

import torch
from jaxtyping import Float
from torch import Generator, Tensor

from zscout.bfm.cuda_graph import as_graph
from zscout.bfm.fb import FB, FBConfig
from zscout.bfm.fb_data import BatchWorld, exploration, random_forces
from zscout.bfm.fb_losses import centred, fb_loss, least, least_value, orthonormality_loss
from zscout.bfm.fb_recipe import FBProgress, FBRecipe
from zscout.bfm.fb_rollouts import Rollouts, Rows
from zscout.bfm.sphere import project_sphere

SAMPLE = 200_000  # observations for moments


class FBTrainer:
    """The networks, their targets, the optimisers, the data and the random state."""

    def __init__(self, world: BatchWorld, recipe: FBRecipe, seed: int = 0, device: torch.device | str = "cpu") -> None:
        self.world, self.recipe, self.seed, self.device = world, recipe, seed, torch.device(device)
        self.rng = Generator(device=self.device).manual_seed(seed)
        space = world.observation_space
        config = FBConfig(
            observation_low=tuple(space.low.tolist()),
            observation_high=tuple(space.high.tolist()),
            actions=world.action_space.shape[0],
            dim=recipe.dim,
            gamma=recipe.gamma,
            hidden=recipe.hidden,
            layers=recipe.layers,
            frequencies=recipe.frequencies,
            gated=recipe.gated,
            quadratic=recipe.quadratic,
            goal_features=recipe.goal_features,
        )
        # On the CPU, so that the same seed gives the same data on every device
        data = random_forces(
            world,
            recipe.transitions,
            Generator().manual_seed(seed),
            correlation=recipe.correlation,
            size=recipe.force,
        )
        self.data = data.shuffled(Generator().manual_seed(seed)).to(self.device)
        self.online = FB(config, seed).to(self.device)
        _standardise(self.online, self.data.next_obs)
        self.target = copy.deepcopy(self.online).requires_grad_(False)
        fast = self.device.type == "cuda"
        # One for each network: the evaluation phase steps F alone.
        self.optimisers = {
            name: torch.optim.Adam(
                getattr(self.online, name).parameters(),
                lr=torch.zeros((), device=self.device) if fast else 0.0,
                fused=True,
                capturable=fast,
            )
            for name in ("forward_map", "backward_map", "actor")
        }
        self.rollouts = Rollouts(self.online, world, self.data, recipe.runs, recipe.chain)
        self.step = 0
        self.log: list[FBProgress] = []
        self._refill: Callable[[], Tensor] | None = None
        self._update: Callable[[], Tensor] | None = None  # of the current phase, captured as a graph on CUDA

    @property
    def finished(self) -> bool:
        """Whether all steps are done."""
        return self.step >= self.recipe.steps

    @property
    def model(self) -> FB:
        """A frozen copy of the current model, with its moments."""
        model = copy.deepcopy(self.online).freeze()
        return model.calibrate(self.data.next_obs[:SAMPLE]) if self.phase == 0 else model

    @property
    def phase(self) -> int:
        """0: features, 1: policies, 2: evaluation."""
        return sum(self.step >= end for end in self._ends[:2])

    @property
    def _ends(self) -> list[int]:
        return list(accumulate(self.recipe.phases))

    def train(self, judge: Callable[[FB], float] | None = None, every: int = 500) -> Iterator[FBProgress]:
        """Train to the end; yield a log line every ``every`` steps, with the judge's score of the model."""
        recipe = self.recipe
        while not self.finished:
            steps = min(every - self.step % every, self._ends[self.phase] - self.step)
            if self.step in (0, *self._ends):
                self._begin_phase()
            elif recipe.explore and self.phase < 2:
                self._explore(steps)
            loss, orthonormality, value = self._advance(steps)
            score = judge(self.model) if judge is not None else None
            self.log.append(FBProgress(self.step, loss, orthonormality, value, score))
            yield self.log[-1]

    def _advance(self, steps: int) -> tuple[float, float, float]:
        update, refill = self._functions()
        total = torch.zeros(3, device=self.device)
        for done in range(steps):
            if self.phase and done % self.recipe.refresh == 0:  # also at each start, as when training is resumed
                refill()
            self._set_rates()
            total += update()
            self.step += 1
        loss, orthonormality, value = (total / steps).tolist()
        return loss, orthonormality, value

    def _begin_phase(self) -> None:
        """Once B is fixed, ψ of the whitened features is a plain regression."""
        self._update = None
        if self.phase == 1:
            self.target.backward_map.load_state_dict(self.online.backward_map.state_dict())
            for model in (self.online, self.target):
                model.calibrate(self.data.next_obs[:SAMPLE])

    def _explore(self, steps: int) -> None:
        """Replace the oldest transitions, so that ``explore`` of all are replaced by the end of the policy phase."""
        total = self.recipe.feature_steps + self.recipe.policy_steps
        found = exploration(
            self.model, self.world, max(1, int(self.recipe.explore * steps / total * len(self.data))), self.rng
        )
        place = int(self.recipe.explore * self.step / total * len(self.data))
        index = (torch.arange(len(found), device=self.device) + place) % len(self.data)
        for name, part in vars(self.data).items():
            part[index] = getattr(found, name)

    # One update

    def _rows(self, n: int) -> Rows:
        """Rows of the data; the features are those of one step."""
        data, online = self.data, self.online
        index = torch.randint(len(data), (n,), generator=self.rng, device=self.device)
        next_obs = data.next_obs[index]
        B = centred(online.backward_of(next_obs)) if self.phase == 0 else online.features_of(next_obs)
        z = self._draw_z(B.detach() if self.phase == 0 else B @ online.root)
        discount = (self.recipe.gamma * ~data.over[index])[:, None]
        return Rows(data.obs[index], data.action[index], z, B, next_obs, discount)

    def _draw_z(self, B: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
        """B of other transitions, or uniform on the sphere."""
        draws = torch.randn(B.shape, generator=self.rng, device=self.device)
        goal = torch.rand(len(B), 1, generator=self.rng, device=self.device) < self.recipe.goal_share
        return project_sphere(torch.where(goal, B.roll(1, 0), draws))

    def _refill_rollouts(self) -> Tensor:
        index = torch.randint(len(self.data), (self.recipe.runs,), generator=self.rng, device=self.device)
        with torch.no_grad():
            z = self._draw_z(centred(self.online.backward_of(self.data.next_obs[index])))
        return self.rollouts.refill(self.online, z, self.rng)

    def _noisy(self, action: Float[Tensor, "n a"]) -> Float[Tensor, "n a"]:
        noise = self.recipe.noise * torch.randn(action.shape, generator=self.rng, device=self.device)
        return (action + noise.clamp(-0.3, 0.3)).clamp(-1, 1)

    def _feature_update(self) -> Float[Tensor, "3"]:
        recipe, online, target = self.recipe, self.online, self.target
        rows = self._rows(recipe.batch)
        here, z, B = online.encode(rows.obs), rows.z, rows.features
        with torch.no_grad():
            there = online.encode(rows.tail_obs)
            tail = rows.discount * least(target.forward_of(there, self._noisy(online.action_of(there, z)), z), z)
            target_B = centred(target.backward_of(rows.tail_obs))
        orthonormality = orthonormality_loss(B)
        loss = fb_loss(online.forward_of(here, rows.action, z), B, tail, target_B) * (1 - recipe.gamma)
        (loss + recipe.orthonormality * orthonormality).backward()
        self._descend("forward_map")
        self._descend("backward_map")
        value = self._improve(here, z)
        self._follow()
        return torch.stack([loss.detach(), orthonormality.detach(), value])

    def _regression_update(self) -> Float[Tensor, "3"]:
        """‖ψ(s,a;z) − Σ_{k<n} γᵏφ(S_{k+1}) − γⁿψ(S_n,π(S_n,z);z)‖² for each head, n = 1 for rows of the data."""
        recipe, online, target = self.recipe, self.online, self.target
        # The last phase needs ψ at the policies' own actions only.
        share = int(recipe.on_policy * recipe.batch) if self.phase == 1 else recipe.batch
        with torch.no_grad():
            parts = [self._rows(recipe.batch - share), self.rollouts.draw(share, recipe.gamma, self.rng)]
            rows = Rows(*(torch.cat(both) for both in zip(*(vars(part).values() for part in parts), strict=True)))
            here, there, z = online.encode(rows.obs), online.encode(rows.tail_obs), rows.z
            tails = target.forward_of(there, online.action_of(there, z), z)
            tail = least(tails, z) if self.phase == 1 else tails.mean(0)
            wanted = rows.features + rows.discount * (tail @ online.root)
        psi = online.forward_of(here, rows.action, z) @ online.root
        loss = ((psi - wanted) * (1 - recipe.gamma)).square().mean()
        loss.backward()
        self._descend("forward_map")
        value = self._improve(here, z) if self.phase == 1 else torch.zeros_like(loss)
        self._follow()
        return torch.stack([loss.detach(), torch.zeros_like(loss), value.detach()])

    def _improve(self, here: Float[Tensor, "n e"], z: Float[Tensor, "n d"]) -> Float[Tensor, ""]:
        """One step of the actor up F(s,π(s,z),z)·z; returns its mean per step."""
        online, actor = self.online, list(self.online.actor.parameters())
        value = least_value(online.forward_of(here, self._noisy(online.action_of(here, z)), z), z).mean()
        for parameter, gradient in zip(actor, torch.autograd.grad(-value, actor), strict=True):
            parameter.grad = gradient
        self._descend("actor")
        return value.detach() * (1 - self.recipe.gamma)

    def _descend(self, name: str) -> None:
        self.optimisers[name].step()
        self.optimisers[name].zero_grad(set_to_none=False)  # a captured graph needs the same tensors each time

    def _follow(self) -> None:
        with torch.no_grad():
            for name in ("forward_map", "backward_map"):
                target, online = (list(getattr(model, name).parameters()) for model in (self.target, self.online))
                torch._foreach_lerp_(target, online, self.recipe.tau)

    def _set_rates(self) -> None:
        recipe = self.recipe
        length = recipe.phases[self.phase]
        part = 0.5 + 0.5 * math.cos(math.pi * (1 - (self._ends[self.phase] - self.step) / length))
        for name, optimiser in self.optimisers.items():
            rate = part * (recipe.actor_rate if name == "actor" else recipe.learning_rate)
            group = optimiser.param_groups[0]
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate

    def _functions(self) -> tuple[Callable[[], Tensor], Callable[[], Tensor]]:
        """The update of this phase and the refill of rollouts; on CUDA one graph each."""
        if self._update is None or self._refill is None:
            self._refill = self._refill_rollouts
            self._update = self._regression_update if self.phase else self._feature_update
            if self.device.type == "cuda":
                self._refill = as_graph(self._refill, dict, self.rng)
                self._update = as_graph(self._update, self._live_tensors, self.rng)
        return self._update, self._refill

    def _live_tensors(self) -> dict[str, Tensor]:
        """What an update changes, in place."""
        state = {f"online.{name}": tensor for name, tensor in self.online.state_dict().items()}
        state |= {f"target.{name}": tensor for name, tensor in self.target.state_dict().items()}
        for network, optimiser in self.optimisers.items():
            for index, parameter in enumerate(optimiser.param_groups[0]["params"]):
                moments = optimiser.state.get(parameter, {})
                state |= {f"adam.{network}.{index}.{name}": tensor for name, tensor in moments.items()}
        return state

    # Checkpoints, as tensors and plain values

    @property
    def fixed(self) -> list[Tensor]:
        """What must be the same when training is resumed: the seed's data, unless exploration replaces it."""
        return [] if self.recipe.explore else [self.data.obs, self.data.next_obs]

    def tensors(self) -> dict[str, Tensor]:
        """For a checkpoint: weights, targets, optimiser moments, random state, and data that exploration changed."""
        explored = vars(self.data) if self.recipe.explore else {}
        data = {f"data.{name}": part for name, part in explored.items()}
        return {**self._live_tensors(), **data, "rng": self.rng.get_state()}

    def counters(self) -> dict[str, Any]:
        """For a checkpoint: the step and the log."""
        return {"step": self.step, "log": [asdict(line) for line in self.log]}

    def resume(self, tensors: dict[str, Tensor], counters: dict[str, Any]) -> None:
        """Resume from ``tensors`` and ``counters``; the result equals uninterrupted training."""
        self._update = None
        for optimiser in self.optimisers.values():
            _fill_moments(optimiser)
        live = {**self._live_tensors(), **{f"data.{name}": part for name, part in vars(self.data).items()}}
        for name, tensor in tensors.items():
            if name in live:
                live[name].copy_(tensor)
        self.rng.set_state(tensors["rng"].cpu())
        self.step = counters["step"]
        self.log = [FBProgress(**line) for line in counters["log"]]


def _standardise(model: FB, obs: Float[Tensor, "n k"]) -> None:
    """Inputs with mean 0 and, if uniform, in [−1, 1]."""
    for name, seen in (("obs", obs), ("goal", model.config.goals(obs))):
        getattr(model, f"{name}_mean").copy_(seen.mean(0))
        getattr(model, f"{name}_scale").copy_(seen.std(0).clamp(min=1e-6) * math.sqrt(3))


def _fill_moments(optimiser: torch.optim.Adam) -> None:
    """Adam's state before its first step; by default it appears only with that step."""
    on_device = optimiser.defaults["capturable"] or optimiser.defaults["fused"]
    for parameter in optimiser.param_groups[0]["params"]:
        step = torch.zeros((), device=parameter.device if on_device else None)
        zeros = (torch.zeros_like(parameter, memory_format=torch.preserve_format) for _ in range(2))
        optimiser.state[parameter] = dict(zip(("step", "exp_avg", "exp_avg_sq"), (step, *zeros), strict=True))
