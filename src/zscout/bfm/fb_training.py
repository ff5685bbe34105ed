"""Trains an FB model on reward-free transitions; yields metrics and does not print or plot.

After Touati and Ollivier (2021) and Touati et al. (2023). With B centred over the batch the successor measure is
M(s,a,z,ds') = (F(s,a,z)·B(s') + 1/(1 − γ)) ρ(ds'), and its Bellman residual needs d × d moments of B only.
"""

import copy
import math
from collections.abc import Callable, Iterator
from dataclasses import asdict
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


class FBTrainer:
    """The networks, their targets, the optimisers, the data and the random state."""

    def __init__(
        self, world: BatchWorld, recipe: FBRecipe, seed: int = 0, device: torch.device | str = "cpu"
    ) -> None:
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
        self.data = data.to(self.device)
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
        return model if self._evaluating else model.calibrate(self.data.next_obs[:200_000])

    @property
    def _evaluating(self) -> bool:
        return self.step >= self.recipe.policy_steps

    def train(self, judge: Callable[[FB], float] | None = None, every: int = 500) -> Iterator[FBProgress]:
        """Train to the end; yield a log line every ``every`` steps, with the judge's score of the model."""
        recipe = self.recipe
        while not self.finished:
            end = recipe.steps if self._evaluating else recipe.policy_steps
            steps = min(every - self.step % every, end - self.step)
            if self.step in (0, recipe.policy_steps):
                self._begin_phase()
            elif recipe.explore and not self._evaluating:
                self._explore(steps)
            loss, orthonormality, value = self._advance(steps)
            score = judge(self.model) if judge is not None else None
            self.log.append(FBProgress(self.step, loss, orthonormality, value, score))
            yield self.log[-1]

    def _advance(self, steps: int) -> tuple[float, float, float]:
        update, refill = self._functions()
        total = torch.zeros(3, device=self.device)
        for done in range(steps):
            if done % self.recipe.refresh == 0:  # also at each start, so that a resumed training does the same
                refill()
            self._set_rates()
            total += update()
            self.step += 1
        loss, orthonormality, value = (total / steps).tolist()
        return loss, orthonormality, value

    def _begin_phase(self) -> None:
        """Before evaluation: B and the actor are fixed, so ψ of the whitened features is a plain regression."""
        self._update = None
        if self._evaluating:
            for model in (self.online, self.target):
                model.backward_map.load_state_dict(self.online.backward_map.state_dict())
                model.actor.load_state_dict(self.online.actor.state_dict())
                model.calibrate(self.data.next_obs[:200_000])

    def _explore(self, steps: int) -> None:
        """Replace the oldest transitions, so that ``explore`` of all are replaced by the end of the phase."""
        share = self.recipe.explore * steps / self.recipe.policy_steps
        found = exploration(self.model, self.world, max(1, int(share * len(self.data))), self.rng)
        place = int(self.recipe.explore * self.step / self.recipe.policy_steps * len(self.data))
        index = (torch.arange(len(found), device=self.device) + place) % len(self.data)
        for name, part in vars(self.data).items():
            part[index] = getattr(found, name)

    # One update

    def _batch(self, whitened: bool) -> tuple[Rows, int]:
        """Rows of the data, then rows of rollouts; and how many are of the data."""
        recipe, data, online = self.recipe, self.data, self.online
        n = recipe.batch - int(recipe.on_policy * recipe.batch)
        index = torch.randint(len(data), (n,), generator=self.rng, device=self.device)
        next_obs = data.next_obs[index]
        B = online.backward_of(next_obs)
        B = (B - online.mean) @ online.inverse_root if whitened else centred(B)
        discount = (recipe.gamma * ~data.over[index])[:, None]
        z = self._draw_z(B.detach() @ online.root if whitened else B.detach())
        rows = Rows(data.obs[index], data.action[index], z, B, next_obs, discount)
        if n == recipe.batch:
            return rows, n
        more = self.rollouts.draw(recipe.batch - n, recipe.gamma, self.rng)
        pairs = zip(vars(rows).values(), vars(more).values(), strict=True)
        return Rows(*(torch.cat(pair) for pair in pairs)), n

    def _draw_z(self, B: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
        """B of other transitions, or uniform on the sphere."""
        draws = torch.randn(B.shape, generator=self.rng, device=self.device)
        goal = torch.rand(len(B), 1, generator=self.rng, device=self.device) < self.recipe.goal_share
        return project_sphere(torch.where(goal, B.roll(1, 0), draws))

    def _refill_rollouts(self) -> Tensor:
        index = torch.randint(len(self.data), (self.recipe.runs,), generator=self.rng, device=self.device)
        with torch.no_grad():
            z = self._draw_z(centred(self.online.backward_of(self.data.next_obs[index])))
        return self.rollouts.refill(self.online, z, self._evaluating, self.rng)

    def _noisy(self, action: Float[Tensor, "n a"]) -> Float[Tensor, "n a"]:
        noise = self.recipe.noise * torch.randn(action.shape, generator=self.rng, device=self.device)
        return (action + noise.clamp(-0.3, 0.3)).clamp(-1, 1)

    def _policy_update(self) -> Float[Tensor, "3"]:
        recipe, online, target = self.recipe, self.online, self.target
        rows, n = self._batch(whitened=False)
        here, z, B = online.encode(rows.obs), rows.z, rows.features[:n]
        with torch.no_grad():
            there = online.encode(rows.tail_obs)
            tail = rows.discount * least(target.forward_of(there, self._noisy(online.action_of(there, z)), z), z)
            target_B = centred(target.backward_of(rows.tail_obs[:n]))
        F = online.forward_of(here, rows.action, z)
        orthonormality = orthonormality_loss(B)
        loss = n / recipe.batch * fb_loss(F[:, :n], B, tail[:n], B, target_B)
        if n < recipe.batch:  # rollouts train F alone: their features have no gradient
            more = fb_loss(F[:, n:], rows.features[n:].detach(), tail[n:], B.detach(), target_B)
            loss = loss + (1 - n / recipe.batch) * more
        loss = loss * (1 - recipe.gamma)
        (loss + recipe.orthonormality * orthonormality).backward()
        self._descend("forward_map")
        self._descend("backward_map")
        value = least_value(online.forward_of(here, self._noisy(online.action_of(here, z)), z), z)
        actor = list(online.actor.parameters())
        for parameter, gradient in zip(actor, torch.autograd.grad(-value.mean(), actor), strict=True):
            parameter.grad = gradient
        self._descend("actor")
        self._follow()
        return torch.stack([loss.detach(), orthonormality.detach(), value.detach().mean() * (1 - recipe.gamma)])

    def _evaluation_update(self) -> Float[Tensor, "3"]:
        """‖ψ(s,a;z) − Σ_{k<n} γᵏφ(S_{k+1}) − γⁿψ(S_n,π(S_n,z);z)‖² of the whitened features, for each head."""
        recipe, online, target = self.recipe, self.online, self.target
        with torch.no_grad():
            rows, _ = self._batch(whitened=True)
            here, there = online.encode(rows.obs), online.encode(rows.tail_obs)
            tail = target.forward_of(there, online.action_of(there, rows.z), rows.z).mean(0) @ online.root
            wanted = rows.features + rows.discount * tail
        psi = online.forward_of(here, rows.action, rows.z) @ online.root
        loss = ((psi - wanted) * (1 - recipe.gamma)).square().mean()
        loss.backward()
        self._descend("forward_map")
        self._follow()
        value = (psi.detach().mean(0) @ online.inverse_root * rows.z).sum(-1).mean() * (1 - recipe.gamma)
        return torch.stack([loss.detach(), torch.zeros_like(value), value])

    def _descend(self, name: str) -> None:
        self.optimisers[name].step()
        self.optimisers[name].zero_grad(set_to_none=False)  # a captured graph needs the same tensors each time

    def _follow(self) -> None:
        with torch.no_grad():
            for name in ("forward_map", "backward_map"):
                pair = (list(getattr(model, name).parameters()) for model in (self.target, self.online))
                torch._foreach_lerp_(*pair, self.recipe.tau)

    def _set_rates(self) -> None:
        recipe = self.recipe
        done, total = self.step, recipe.policy_steps
        if self._evaluating:
            done, total = self.step - recipe.policy_steps, recipe.evaluation_steps
        part = 0.5 + 0.5 * math.cos(math.pi * done / total)
        for name, optimiser in self.optimisers.items():
            rate = part * (recipe.actor_rate if name == "actor" else recipe.learning_rate)
            group = optimiser.param_groups[0]
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate

    def _functions(self) -> tuple[Callable[[], Tensor], Callable[[], Tensor]]:
        """The update of this phase and the refill of rollouts; on CUDA one graph each, instead of hundreds of launches."""
        if self._update is None or self._refill is None:
            self._refill = self._refill_rollouts
            self._update = self._evaluation_update if self._evaluating else self._policy_update
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
        """What must be the same for a training to be resumed: the seed's data (until exploration replaces it)."""
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
