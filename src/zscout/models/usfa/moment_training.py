"""Trains the occupancy network of a MomentUSFA for the policies of a frozen USFA, on reward-free transitions."""

import math
from collections.abc import Iterator
from dataclasses import replace

import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor

from zscout.models.sphere import sample_sphere
from zscout.models.usfa.model import USFA
from zscout.models.usfa.moments import MomentUSFA, path_inputs
from zscout.models.usfa.recipe import Recipe
from zscout.models.usfa.transitions import Transitions

PAIRS_A_STEP, USES_OF_A_PAIR = 2048, 25  # of state and z, from a table made first
# Transitions that a target follows; it counts the last state for the rest of the weight, .8³² = .08 %
TARGET_STEPS = 32


class MomentTrainer:
    """Fits the occupancy network by cross-entropy; ψ, policies and features stay those of the given frozen model."""

    def __init__(self, model: USFA, data: Transitions, recipe: Recipe, seed: int = 0) -> None:
        if model.config.temperature:
            raise ValueError(f"temperature={model.config.temperature}: M is learned for deterministic policies only")
        names = ("moment_gamma", "moment_hidden", "moment_layers")
        config = replace(model.config, **{name: getattr(recipe, name) for name in names})
        self.recipe, self.step, self.base, self.data = recipe, 0, model, data.to(model.device)
        self.online = MomentUSFA(config, model.features, model.state_inputs, seed).to(model.device).eval()
        self.online.load_state_dict({**self.online.state_dict(), **model.state_dict()})
        self.rng = Generator(device=model.device).manual_seed(seed)
        network = self.online.occupancy_network
        self.optimiser = torch.optim.Adam(network.parameters(), lr=recipe.learning_rate, fused=True)

    @property
    def model(self) -> MomentUSFA:
        """The model, frozen."""
        return self.online.freeze()

    def train(self, every: int = 250) -> Iterator[float]:
        """Train to the end; yield the mean loss of each ``every`` steps."""
        inputs, actions = self._tabulate()
        while self.step < self.recipe.moment_steps:
            steps = min(every, self.recipe.moment_steps - self.step)
            losses = [self._train_step(inputs, actions) for _ in range(steps)]
            yield float(torch.stack(losses).mean())

    @torch.no_grad()
    def _tabulate(self) -> tuple[Float[Tensor, "n S k"], Int[Tensor, "n S"]]:
        """The network's inputs and the actions of random z, in every state."""
        model, every, found = self.base, self.base.states(), []
        tasks = max(1, PAIRS_A_STEP * self.recipe.moment_steps // (USES_OF_A_PAIR * len(every)))
        for z in sample_sphere(tasks, model.dim, self.rng, torch.float32).split(8):
            own = z.repeat_interleave(len(every), 0)
            found.append(path_inputs(model, every.repeat(len(z)), own).unflatten(0, (len(z), -1)))
        inputs = torch.cat(found)
        return inputs, inputs[..., 2 * model.dim :].argmax(-1)

    def _train_step(self, inputs: Float[Tensor, "n S k"], actions: Int[Tensor, "n S"]) -> Float[Tensor, ""]:
        recipe, (n, S) = self.recipe, actions.shape
        for group in self.optimiser.param_groups:
            group["lr"] = recipe.learning_rate * (0.5 + 0.5 * math.cos(math.pi * self.step / recipe.moment_steps))
        task, state = (
            torch.randint(high, (PAIRS_A_STEP,), generator=self.rng, device=self.rng.device) for high in (n, S)
        )
        logits = self.online.occupancy_logits(state, inputs[task, state])
        loss = -(self._visits(actions[task], state) * logits.log_softmax(-1)).sum(-1).mean()
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        self.optimiser.step()
        self.step += 1
        return loss.detach()

    def _visits(self, actions: Int[Tensor, "n S"], state: Int[Tensor, " n"]) -> Float[Tensor, "n S"]:
        """(1 − g) Σ_{k≥0} gᵏ 1[S_{t+k+1} = s'] along stored transitions of these actions."""
        gamma, rows = self.recipe.moment_gamma, torch.arange(len(state), device=state.device)
        visits = torch.zeros(actions.shape, device=state.device)
        for k in range(TARGET_STEPS):
            state = self.data.draw(state, actions[rows, state], self.rng)
            visits[rows, state] += gamma**k * (1 - gamma if k < TARGET_STEPS - 1 else 1)
        return visits
