"""One specialist for each task of a body: what reinforcement learning reaches with the reward known.

    python -m benchmarks.specialists --body walker --minutes 9 --device cuda --out specialists.json

trains TD3 (Fujimoto et al. 2018) on all tasks at once, each with its own bodies, data and networks, in batched tensors.
It writes the mean return of 10 episodes of 1,000 control steps for each task, with what was spent on it.
"""

import copy
import time
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Literal

import torch
import tyro
from jaxtyping import Float
from rich.console import Console
from torch import Generator, Tensor, nn

from zscout.base.files import write_json
from zscout.models.fb.graphs import as_graph
from zscout.worlds.bodies.physics import Body
from zscout.worlds.bodies.physics import body as make_body
from zscout.worlds.bodies.tasks import BodyTask, body_tasks

NOISE, CLIPPED = 0.2, 0.5  # of the actions in the target
EPISODES, HORIZON = 10, 1_000  # of the evaluation, in control steps
EVERY = 60.0  # seconds between two evaluations


@dataclass(frozen=True)
class Recipe:
    """What decides a training, apart from body and seed."""

    bodies: int = 32  # for each task
    batch: int = 256
    updates: int = 4  # for each step of all bodies
    hidden: int = 256
    rate: float = 3e-4
    tau: float = 0.005
    gamma: float = 0.99
    explore: float = 0.2  # standard deviation of the noise of actions
    warm_up: int = 100  # steps with random controls
    episode: int = 1_000  # control steps
    kept: int = 20_000  # steps of all bodies
    repeat: int = 1


class Networks(nn.Module):
    """K networks of two hidden layers, each for its own rows [K n in]; the first layer is normalised."""

    def __init__(self, copies: int, inputs: int, outputs: int, hidden: int, rng: Generator) -> None:
        super().__init__()
        sizes = (inputs, hidden, hidden, outputs)
        self.weights, self.biases = nn.ParameterList(), nn.ParameterList()
        for fan_in, fan_out in pairwise(sizes):
            draws = 2 * torch.rand(copies, fan_in, fan_out, generator=rng) - 1
            self.weights.append(nn.Parameter(draws / fan_in**0.5))
            self.biases.append(nn.Parameter(torch.zeros(copies, 1, fan_out)))

    def forward(self, x: Float[Tensor, "K n i"]) -> Float[Tensor, "K n o"]:
        """The outputs of each copy for its own rows."""
        for layer, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            x = torch.baddbmm(bias, x, weight)
            if layer == 0:
                x = torch.tanh(nn.functional.layer_norm(x, x.shape[-1:]))
            elif layer == 1:
                x = torch.relu(x)
        return x


class Specialists:
    """K actors with two critics each, and their data."""

    def __init__(self, world: Body, tasks: list[BodyTask], recipe: Recipe, seed: int, device: torch.device) -> None:
        self.world, self.tasks, self.recipe, self.device = world, tasks, recipe, device
        self.rng, self.physics_rng = Generator(device).manual_seed(seed), Generator().manual_seed(seed + 1)
        K, n, o, a = len(tasks), recipe.bodies, world.observation_space.shape[0], world.action_space.shape[0]
        weights = Generator().manual_seed(seed + 2)
        self.actor = Networks(K, o, a, recipe.hidden, weights).to(device)
        self.critics = Networks(2 * K, o + a, 1, recipe.hidden, weights).to(device)
        self.targets = copy.deepcopy(nn.ModuleList([self.actor, self.critics])).requires_grad_(False)
        fast = device.type == "cuda"
        self.optimisers = [
            torch.optim.Adam(part.parameters(), lr=recipe.rate, capturable=fast, fused=True)
            for part in (self.actor, self.critics)
        ]
        room = recipe.kept, K, n
        self.obs, self.next_obs = (torch.zeros(*room, o, device=device) for _ in range(2))
        self.action, self.reward = torch.zeros(*room, a, device=device), torch.zeros(room, device=device)
        self.size = torch.zeros((), device=device, dtype=torch.float64)
        self.mean, self.scale = torch.zeros(o, device=device), torch.ones(o, device=device)
        self.state = world.random_states(K * n, self.physics_rng)
        self.age = torch.randint(recipe.episode, (K * n,), generator=self.physics_rng)
        self.steps = self.updates = 0

    # Data

    @torch.no_grad()
    def collect(self) -> None:
        """One step of all bodies: random controls first, then the actors with noise."""
        recipe, shape = self.recipe, (len(self.tasks), self.recipe.bodies)
        obs = self._seen(self.state)
        noise = torch.randn(*shape, self.action.shape[-1], generator=self.rng, device=self.device)
        if self.steps < recipe.warm_up:
            action = noise.clamp(-1, 1)
        else:
            action = (torch.tanh(self.actor(self._input(obs))) + recipe.explore * noise).clamp(-1, 1)
        self.state, diverged = self.world.advance(self.state, action.flatten(0, 1).cpu())
        next_obs = self._seen(self.state)
        lost = diverged.to(self.device).reshape(shape)[..., None]
        next_obs = torch.where(lost, obs, next_obs)  # MuJoCo reset the body: no transition of the world
        place = self.steps % recipe.kept
        self.obs[place], self.action[place], self.next_obs[place] = obs, action, next_obs
        self.reward[place] = self.rewards(next_obs)
        self.steps += 1
        self.size.fill_(min(self.steps, recipe.kept))
        self.age += recipe.repeat
        ended = (diverged | (self.age >= recipe.episode)).nonzero()[:, 0]
        if len(ended):
            self.state[ended], self.age[ended] = self.world.random_states(len(ended), self.physics_rng), 0
        if self.steps == recipe.warm_up:
            seen = self.obs[: self.steps].flatten(0, 2)
            self.mean.copy_(seen.mean(0))
            self.scale.copy_(seen.std(0).clamp(min=1e-3))

    def rewards(self, obs: Float[Tensor, "K n o"]) -> Float[Tensor, "K n"]:
        """Of each task for its own rows."""
        return torch.stack([task(own).float() for task, own in zip(self.tasks, obs, strict=True)])

    def _seen(self, state: Float[Tensor, "m k"]) -> Float[Tensor, "K n o"]:
        obs: Tensor = self.world.observe(state).float().to(self.device)
        return obs.reshape(len(self.tasks), -1, obs.shape[-1])

    def _input(self, obs: Tensor) -> Tensor:
        return (obs - self.mean) / self.scale

    # Updates

    def update(self) -> Float[Tensor, ""]:
        """One step of the critics and of the actors, each on rows of its own task; returns the critics' loss."""
        recipe, K, device = self.recipe, len(self.tasks), self.device
        step = (torch.rand(K, recipe.batch, generator=self.rng, device=device, dtype=torch.float64) * self.size).long()
        run = torch.randint(recipe.bodies, (K, recipe.batch), generator=self.rng, device=device)
        where = step, torch.arange(K, device=device)[:, None], run
        obs, next_obs, action = self._input(self.obs[where]), self._input(self.next_obs[where]), self.action[where]
        actor, critics = self.targets
        with torch.no_grad():
            noise = NOISE * torch.randn(action.shape, generator=self.rng, device=device)
            following = (torch.tanh(actor(next_obs)) + noise.clamp(-CLIPPED, CLIPPED)).clamp(-1, 1)
            tail = self._values(critics, next_obs, following).amin(0)
            target = self.reward[where] + recipe.gamma * tail
        loss = (self._values(self.critics, obs, action) - target).square().mean((1, 2)).sum()
        loss.backward()
        self._descend(1)
        value = self._values(self.critics, obs, torch.tanh(self.actor(obs)))[0].mean(-1).sum()
        own = list(self.actor.parameters())
        for parameter, gradient in zip(own, torch.autograd.grad(-value, own), strict=True):
            parameter.grad = gradient
        self._descend(0)
        with torch.no_grad():
            for target_part, part in zip(self.targets, (self.actor, self.critics), strict=True):
                slow: list[Tensor] = list(target_part.parameters())
                torch._foreach_lerp_(slow, list[Tensor](part.parameters()), recipe.tau)
        mean: Tensor = loss.detach() / len(self.tasks)
        return mean

    def _values(self, critics: nn.Module, obs: Tensor, action: Tensor) -> Float[Tensor, "2 K n"]:
        rows = torch.cat([obs, action], -1).repeat(2, 1, 1)
        values: Tensor = critics(rows)[..., 0]
        return values.reshape(2, len(self.tasks), -1)

    def _descend(self, which: int) -> None:
        self.optimisers[which].step()
        self.optimisers[which].zero_grad(set_to_none=False)

    def live(self) -> dict[str, Tensor]:
        """What an update changes, in place."""
        parts = nn.ModuleDict({"actor": self.actor, "critics": self.critics, "targets": self.targets})
        found = dict(parts.state_dict())
        for number, optimiser in enumerate(self.optimisers):
            for index, parameter in enumerate(optimiser.param_groups[0]["params"]):
                for name, tensor in optimiser.state.get(parameter, {}).items():
                    found[f"adam.{number}.{index}.{name}"] = tensor
        return found

    # Evaluation

    @torch.no_grad()
    def returns(self, episodes: int = EPISODES, horizon: int = HORIZON) -> dict[str, float]:
        """Mean returns without noise, from the same starts for each task."""
        world = make_body(self.world.name, threads=self.world.threads)  # one control step at a time
        K, state = len(self.tasks), world.random_states(episodes, Generator().manual_seed(0)).repeat(len(self.tasks), 1)
        total = torch.zeros(K, episodes, device=self.device)
        for t in range(horizon):
            if t % self.recipe.repeat == 0:
                action = torch.tanh(self.actor(self._input(self._seen(state))))
            state, _ = world.advance(state, action.flatten(0, 1).cpu())
            total += self.rewards(self._seen(state))
        means = total.mean(1).tolist()
        return {task.name: round(mean, 2) for task, mean in zip(self.tasks, means, strict=True)}


def main(
    out: Path,
    body: str = "walker",
    minutes: float = 9.0,
    seed: int = 0,
    device: str = "cpu",
    settings: str = "",
    kinds: tuple[Literal["suite", "benchmark", "held-out"], ...] = (),
) -> None:
    """Train for a number of minutes; writes the returns about every minute, with the budget spent.

    ``settings`` changes the recipe: ``repeat=2,hidden=128``. ``kinds`` of tasks: all if none is named.
    """
    changes = dict(word.split("=", 1) for word in settings.split(",") if word)
    plain = asdict(Recipe())
    if unknown := sorted(changes.keys() - plain.keys()):
        raise SystemExit(f"there is no setting {unknown[0]}: there are {', '.join(plain)}")
    recipe = replace(Recipe(), **{name: type(plain[name])(value) for name, value in changes.items()})
    world = make_body(body, repeat=recipe.repeat)
    tasks = [task for kind in kinds or (None,) for task in body_tasks(world, kind)]
    learner = Specialists(world, tasks, recipe, seed, torch.device(device))
    console, began, judged = Console(), time.monotonic(), time.monotonic()
    while learner.steps < recipe.warm_up:
        learner.collect()
    update = learner.update
    if learner.device.type == "cuda":
        update = as_graph(learner.update, learner.live, learner.rng)
    while True:
        for _ in range(recipe.updates):
            update()
            learner.updates += 1
        learner.collect()
        now = time.monotonic()
        over = now - began > 60 * minutes
        if over or now - judged > EVERY:
            judged = now
            found = {
                "body": body,
                "returns": learner.returns(),
                "seconds": round(now - began, 1),
                "updates": learner.updates,
                "control_steps_a_task": learner.steps * recipe.bodies * recipe.repeat,
                "recipe": asdict(recipe),
                "seed": seed,
            }
            write_json(out, found)
            console.print(found["seconds"], found["updates"], found["returns"])
        if over:
            return


if __name__ == "__main__":
    tyro.cli(main)
