"""One trainer for every recipe: Bellman regression for ψ, and an actor where the recipe has one.

It trains on reward-free transitions and yields metrics; it does not print or plot.
"""

import copy
import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor

from zscout.models.networks import fill_moments, moments_of
from zscout.models.sphere import sample_sphere
from zscout.models.usfa.judging import Verdict
from zscout.models.usfa.model import USFA, USFAConfig
from zscout.models.usfa.recipe import Recipe
from zscout.models.usfa.transitions import Transitions


@dataclass(frozen=True)
class Progress:
    """One line of the training log."""

    step: int
    loss: float  # mean squared Bellman error of ψ, in features per step; 0 while ψ is not trained
    actor_loss: float  # cross-entropy; 0 while the actor is not trained
    verdict: Verdict | None  # of the judge, if there is one


class Trainer:
    """The networks, their average, the optimiser and the random state."""

    def __init__(
        self,
        data: Transitions,
        features: Float[Tensor, "S d"],
        places: Float[Tensor, "S p"],
        recipe: Recipe,
        seed: int = 0,
        device: torch.device | str = "cpu",
    ) -> None:
        n_states, n_actions, _ = data.outcomes.shape
        self.recipe, self.seed, self.device = recipe, seed, torch.device(device)
        inputs = torch.eye(n_states)
        if recipe.place:
            inputs = torch.cat([inputs, places.float(), features.float()], dim=1)
        config = USFAConfig(
            n_states=n_states,
            n_actions=n_actions,
            dim=features.shape[1],
            inputs=inputs.shape[1],
            unit_z=not recipe.ball,
            **{name: getattr(recipe, name) for name in ("gamma", "hidden", "layers", "heads", "actor", "dropout")},
        )
        self.online = USFA(config, features, inputs, seed).to(self.device)
        self.average = USFA(config, features, inputs, seed).to(self.device).freeze()
        self.optimiser = torch.optim.Adam(self.online.parameters(), lr=recipe.learning_rate, fused=True)
        self.rng = Generator(device=self.device).manual_seed(seed)
        self.step = 0
        self.log: list[Progress] = []
        self.best_value = -math.inf
        self._best: dict[str, Tensor] = {}  # the weights with the best score
        self._stale = 0  # log lines since the best score
        self.data = data.to(self.device)
        self._every = torch.arange(n_states, device=self.device)
        self._states, self._tried = self.data.known_states, self.data.tried

    @property
    def finished(self) -> bool:
        """Whether all steps are done."""
        return self.step >= self.recipe.steps

    @property
    def model(self) -> USFA:
        """A frozen copy of the current model."""
        return copy.deepcopy(self._source).freeze()

    @property
    def _source(self) -> USFA:
        """The network whose weights become the model."""
        return self.average if self.recipe.averaged else self.online

    def train(
        self,
        judge: Callable[[USFA], Verdict] | None = None,
        every: int = 250,
        patience: int = 20,
        score: Callable[[Verdict], float] = lambda verdict: verdict.value,
    ) -> Iterator[Progress]:
        """Train to the end; yield a log line every ``every`` steps.

        The judge's normalised value (or another ``score`` of its verdict), not the loss, selects the weights. Policy
        training stops after ``patience`` lines without a better score.
        """
        while not self.finished:
            acting = self.step < self.recipe.policy_steps
            end = self.recipe.policy_steps if acting else self.recipe.steps
            steps = min(every - self.step % every, end - self.step)
            loss, actor_loss = torch.stack([self._train_step() for _ in range(steps)]).mean(0).tolist()
            verdict = judge(self.model) if judge is not None else None
            progress = Progress(self.step, loss, actor_loss, verdict)
            self.log.append(progress)
            if acting and verdict is not None:
                self._select(score(verdict), patience)
            yield progress

    def _select(self, value: float, patience: int) -> None:
        """Keep the best weights; restore them when policy training ends or stops improving."""
        self._stale += 1
        if value > self.best_value:
            self.best_value, self._stale = value, 0
            self._best = {name: tensor.detach().clone() for name, tensor in self._source.state_dict().items()}
        if self.step >= self.recipe.policy_steps or self._stale >= patience:
            self.online.load_state_dict(self._best)
            self.average.load_state_dict(self._best)
            self.step = self.recipe.policy_steps

    # Checkpoints, as tensors and plain values

    @property
    def fixed(self) -> list[Tensor]:
        """What must be the same when training is resumed: the data, the features and the inputs."""
        return [self.data.outcomes, self.data.frequency, self.online.features, self.online.state_inputs]

    def tensors(self) -> dict[str, Tensor]:
        """For a checkpoint: weights, average, best weights, optimiser moments, random state."""
        groups = {"online": self.online.state_dict(), "average": self.average.state_dict(), "best": self._best}
        state = {f"{group}.{name}": tensor for group, named in groups.items() for name, tensor in named.items()}
        return state | moments_of(self.optimiser, "adam") | {"rng": self.rng.get_state()}

    def counters(self) -> dict[str, Any]:
        """For a checkpoint: counters and the log."""
        best = self.best_value if math.isfinite(self.best_value) else None
        log = [asdict(progress) for progress in self.log]
        return {"step": self.step, "best_value": best, "stale": self._stale, "log": log}

    def resume(self, tensors: dict[str, Tensor], counters: dict[str, Any]) -> None:
        """Resume from ``tensors`` and ``counters``; the result equals uninterrupted training."""
        fill_moments(self.optimiser)
        live = {name: own for name, own in self.tensors().items() if not name.startswith("best.") and name != "rng"}
        for name, own in live.items():
            if name not in tensors and name.startswith("adam."):
                continue  # no update was made before the checkpoint
            if name not in tensors or tensors[name].shape != own.shape:
                raise ValueError(f"the checkpoint has no {name} of shape {list(own.shape)}")
            own.copy_(tensors[name])
        self._best = {
            name.removeprefix("best."): tensor.to(self.device)
            for name, tensor in tensors.items()
            if name.startswith("best.")
        }
        self.rng.set_state(tensors["rng"].cpu())
        best = counters["best_value"]
        self.step, self._stale = counters["step"], counters["stale"]
        self.best_value = -math.inf if best is None else best
        lines = [line | {"verdict": line["verdict"] and Verdict(**line["verdict"])} for line in counters["log"]]
        self.log = [Progress(**line) for line in lines]

    # One step

    def _train_step(self) -> Float[Tensor, "2"]:
        """Train ψ and the actor for one step; return their losses."""
        recipe = self.recipe
        for group in self.optimiser.param_groups:
            group["lr"] = recipe.learning_rate * self._rate()
        acting = recipe.actor and self.step < recipe.policy_steps
        trains_psi = not acting or recipe.bootstraps
        z = self._draw_z()
        self.online.train()
        logits = None
        if recipe.actor:  # trained or fixed
            logits = (self.online if acting else self.average).preferences(self._every, z)
        target, best = self._targets(z, logits, trains_psi)
        losses = torch.zeros(2, device=self.device)
        if trains_psi:
            psi = self.online.psi_of_actions(self._states, z)  # [h n s A d]
            gap = (psi - target) * (1 - recipe.gamma)
            losses[0] = (gap.square() * self._tried[self._states][..., None]).mean()
        if acting and logits is not None:
            losses[1] = -(best * torch.log_softmax(logits[:, self._states], -1)).sum(-1).mean()
        self.optimiser.zero_grad(set_to_none=True)
        losses.sum().backward()
        self.optimiser.step()
        with torch.no_grad():
            torch._foreach_lerp_(list(self.average.parameters()), list(self.online.parameters()), recipe.tau)
        self.step += 1
        return losses.detach()

    def _rate(self) -> float:
        """Factor of the learning rate: a half cosine in each phase."""
        if not self.recipe.cosine:
            return 1.0
        first, second = self.recipe.policy_steps, self.recipe.evaluation_steps
        done, steps = (self.step, first) if self.step < first else (self.step - first, second)
        return 0.5 + 0.5 * math.cos(math.pi * done / steps)

    def _draw_z(self) -> Float[Tensor, "n d"]:
        z = sample_sphere(self.recipe.tasks, self.online.dim, self.rng, torch.float32)
        if self.recipe.ball:
            z = z * torch.rand(len(z), 1, generator=self.rng, device=self.device) ** (1 / self.online.dim)
        return z

    @torch.no_grad()
    def _targets(
        self, z: Float[Tensor, "n d"], logits: Float[Tensor, "n S A"] | None, trains_psi: bool
    ) -> tuple[Float[Tensor, "n s A d"], Float[Tensor, "n s A"]]:
        """Targets of ψ(s,a;z) and labels of the actor, from stored transitions and the average's ψ."""
        recipe = self.recipe
        psi = None
        if trains_psi:
            psi = self.average.psi_of_actions(self._every, z)  # [h n S A d]
            logits = self.average.preferences(self._every, z, psi) if logits is None else logits
        assert logits is not None
        action = logits.masked_fill(~self._tried, -math.inf).argmax(-1)  # [n S]
        tail = None if psi is None else _least(psi, action, z)
        entered = self.online.features + recipe.gamma * self._follow(action, tail)  # φ(s') + γψ(s'), [n S d]
        outcomes, frequency = self.data.outcomes[self._states], self.data.frequency[self._states].float()
        target = (entered[:, outcomes] * frequency[..., None]).sum(-2)  # [n s A d]
        q = torch.einsum("nsad,nd->nsa", target, z).masked_fill(~self._tried[self._states], -math.inf)
        if recipe.softness:
            return target, torch.softmax(q / recipe.softness, -1)
        best = (q >= q.amax(-1, keepdim=True) - 1e-3).float()
        return target, best / best.sum(-1, keepdim=True)

    def _follow(self, action: Int[Tensor, "n S"], psi: Float[Tensor, "n S d"] | None) -> Float[Tensor, "n S d"]:
        """Σ_{k<chain} γᵏ φ(S_{k+1}) + γ^chain ψ(S_chain), along stored transitions of the policy's actions."""
        if not self.recipe.chain:
            assert psi is not None  # chain = 0 always bootstraps
            return psi
        reached = self.data.draw(self._every.expand_as(action), action, self.rng)
        total, weight = self.online.features[reached], self.recipe.gamma
        if self.data.outcomes.shape[-1] == 1:  # pointer doubling: after j rounds 2ʲ steps are summed
            for _ in range(int(math.log2(self.recipe.chain))):
                total = total + weight * _pick(total, reached)
                reached, weight = reached.gather(1, reached), weight * weight
        else:
            for _ in range(self.recipe.chain - 1):
                reached = self.data.draw(reached, action.gather(1, reached), self.rng)
                total, weight = total + weight * self.online.features[reached], weight * self.recipe.gamma
        return total if psi is None else total + weight * _pick(psi, reached)


def _least(
    psi: Float[Tensor, "h n S A d"], action: Int[Tensor, "n S"], z: Float[Tensor, "n d"]
) -> Float[Tensor, "n S d"]:
    """ψ at the actions, of the head with the lowest value."""
    heads, d = len(psi), psi.shape[-1]
    at_action = psi.gather(3, action[None, :, :, None, None].expand(heads, -1, -1, 1, d))[..., 0, :]
    least = torch.einsum("hnsd,nd->hns", at_action, z).argmin(0)
    return at_action.gather(0, least[None, ..., None].expand(1, -1, -1, d))[0]


def _pick(table: Float[Tensor, "n S d"], state: Int[Tensor, "n S"]) -> Float[Tensor, "n S d"]:
    return table.gather(1, state[..., None].expand(-1, -1, table.shape[-1]))
