"""Trains an FB model of a body: updates on the device while the bodies' physics runs on the CPU.

The bodies follow the model's own policies, of random z and of random rewards, half of them those that explore most;
some have random controls.
"""

from collections.abc import Callable, Iterator

import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor

from zscout.models.fb.buffer import CELLS, Buffer, BufferTrainer
from zscout.models.fb.learner import FBLearner, centred
from zscout.models.fb.model import FB
from zscout.models.fb.recipe import BodyRecipe, FBProgress
from zscout.models.fb.task_prior import random_tasks
from zscout.models.sphere import goals_or_uniform, project_sphere
from zscout.worlds.bodies.physics import Body

ARCHIVE, SEEN, COMPARED = 50_000, 16, 64  # states kept; added in each step; compared for each start
DRAWN_TASKS = 2_048  # random rewards, from which those of a step's new z are drawn
NOISE, DRIFT = 0.2, 0.9  # of actions; of random controls, from step to step

Record = Callable[[Tensor, Tensor, Tensor, Tensor], None]  # obs, action, next_obs, and which did not diverge


class BodyTrainer(BufferTrainer):
    """The learner, the bodies and the last transitions.

    A checkpoint has no transitions: a resumed training collects new ones first, so it is not the uninterrupted one.
    """

    recipe: BodyRecipe

    def __init__(self, world: Body, recipe: BodyRecipe, seed: int = 0, device: torch.device | str = "cpu") -> None:
        learner = FBLearner(world.observation_space, world.action_space.shape[0], recipe, seed, device, compiled=True)
        super().__init__(learner, recipe, recipe.buffer, seed)
        self.world = world
        self.collector = Collector(world, recipe, self.buffer, seed, self.device)

    def train(self, every: int = 1_000) -> Iterator[FBProgress]:
        """Train to the end; yield a log line about every ``every`` updates."""
        self._warm_up()
        update, online = self._captured(), self.learner.online
        while not self.finished:
            end = min(self.step + every, self.recipe.steps)
            total, done = torch.zeros(3, device=self.device), 0
            while self.step < end:
                self.buffer.weigh()
                action = self.collector.choose(online)
                on_cpu = action.cpu()
                self._set_rates()
                with self.stopwatch.updates():
                    for _ in range(self.recipe.updates):  # on CUDA these run beside the physics
                        total += update()
                        self.step, done = self.step + 1, done + 1
                self.collector.step(action, on_cpu, online)
                self.stopwatch.frames += self.recipe.bodies
            self.log.append(FBProgress(self.step, *(total / done).tolist()))
            yield self.log[-1]

    def _warm_up(self) -> None:
        """Transitions under random controls, or under the policies of a resumed model."""
        model = self.learner.online if self.step else None
        while self.buffer.added < self.recipe.warm_up:
            action = self.collector.choose(model if self.buffer.added else None)
            self.collector.step(action, action.cpu(), model)
            self.buffer.weigh()
        if not self.step:
            self._standardise(self.buffer.next_obs[: self.buffer.added])

    @property
    def fixed(self) -> list[Tensor]:
        """Nothing: transitions are collected anew."""
        return []


def cells_of(world: Body, obs: Float[Tensor, "n o"]) -> Int[Tensor, " n"]:
    """The cell of each observation in the map of two goal features, such as heights and speeds."""
    first, second = world.mapped
    goals = world.goal_features(obs)[:, [first.feature, second.feature]]
    low, high = (torch.tensor(ends, dtype=goals.dtype) for ends in zip(first[1:], second[1:], strict=True))
    row, column = ((goals - low) / (high - low)).clamp(0, 0.999).mul(CELLS).long().unbind(1)
    cell: Int[Tensor, " n"] = row * CELLS + column
    return cell


class Archive:
    """States seen before, from which those with rare heights and speeds are drawn."""

    def __init__(self, state_size: int, rng: Generator) -> None:
        self.rng = rng
        self.states = torch.zeros(ARCHIVE, state_size, dtype=torch.float64)
        self.cells = torch.zeros(ARCHIVE, dtype=torch.long)
        self.visits = torch.ones(CELLS * CELLS)
        self.added = 0

    def see(self, state: Float[Tensor, "n k"], cells: Int[Tensor, " n"]) -> None:
        """Count the cells of all states, and keep a few of them."""
        self.visits += torch.bincount(cells, minlength=len(self.visits))
        kept = torch.randint(len(state), (SEEN,), generator=self.rng)
        where = (torch.arange(SEEN) + self.added) % ARCHIVE
        self.states[where], self.cells[where] = state[kept], cells[kept]
        self.added += SEEN

    def draw(self, n: int) -> Float[Tensor, "n k"]:
        """States, each the draw of 64 with weights 1 ÷ visits of its cell."""
        tried = torch.randint(min(self.added, ARCHIVE), (n, COMPARED), generator=self.rng)
        rare = torch.multinomial(1 / self.visits[self.cells[tried]], 1, generator=self.rng)
        return self.states[tried.gather(1, rare)[:, 0]]


class Collector:
    """Bodies that act, each with its z, its episode and, if it explores, its V."""

    def __init__(
        self,
        world: Body,
        recipe: BodyRecipe,
        buffer: Buffer,
        seed: int,
        device: torch.device,
        record: Record | None = None,
    ) -> None:
        self.world, self.recipe, self.buffer, self.device, self.record = world, recipe, buffer, device, record
        self.rng = Generator(device=device).manual_seed(seed + 1)
        self.physics_rng = Generator().manual_seed(seed + 2)
        n, d, actions = recipe.bodies, recipe.dim, world.action_space.shape[0]
        self.state = world.random_states(n, self.physics_rng)
        self.archive = Archive(self.state.shape[1], self.physics_rng)
        self.age = torch.randint(recipe.episode, (n,), generator=self.physics_rng)  # episodes do not end all at once
        self.role = torch.rand(n, generator=self.rng, device=device)  # explorers first, random controls last
        self.z = project_sphere(torch.randn(n, d, generator=self.rng, device=device))
        self.V_inv = torch.eye(d, device=device).repeat(n, 1, 1)
        self.control = torch.zeros(n, actions, device=device)  # random controls
        self.steps = 0
        self._obs = self._seen(world.observe(self.state))

    @torch.no_grad()
    def choose(self, model: FB | None) -> Float[Tensor, "n a"]:
        """The next actions; random controls without a model."""
        noise = torch.randn(self.control.shape, generator=self.rng, device=self.device)
        self.control = DRIFT * self.control + 0.3 * noise
        if model is None:
            return self.control.clamp(-1, 1)
        encoded = model.encode(self._obs)
        if self.steps % self.recipe.hold == 0:
            self._renew(model, encoded)
        wanted = model.action_of(encoded, self.z) + NOISE * noise
        return torch.where((self.role >= 1 - self.recipe.random)[:, None], self.control, wanted).clamp(-1, 1)

    @torch.no_grad()
    def step(self, action: Float[Tensor, "n a"], on_cpu: Float[Tensor, "n a"], model: FB | None) -> None:
        """Advance all bodies and store their transitions; those that diverged start anew."""
        obs = self._obs
        self.state, diverged = self.world.advance(self.state, on_cpu)
        entered = self.world.observe(self.state)
        cells = cells_of(self.world, entered)
        self.archive.see(self.state, cells)
        self._obs = self._seen(entered)
        good = ~diverged.to(self.device) if diverged.any() else slice(None)
        self.buffer.add(obs[good], action[good], self._obs[good], cells.to(self.device)[good])
        if self.record is not None:
            self.record(obs, action, self._obs, ~diverged)
        if model is not None:
            phi = centred(model.backward_of(self._obs))
            toward = (self.V_inv @ phi[..., None])[..., 0]
            narrowing = toward[:, :, None] * toward[:, None] / (1 + (phi * toward).sum(-1))[:, None, None]
            self.V_inv = self.V_inv - narrowing  # (V + φφᵀ)⁻¹ of each body
        self.age += 1
        self.steps += 1
        ended = (diverged | (self.age >= self.recipe.episode)).nonzero()[:, 0]
        if len(ended):
            self._restart(ended)

    def _renew(self, model: FB, encoded: Float[Tensor, "n e"]) -> None:
        """New z for a quarter of the bodies; explorers take the widest of several."""
        n, k = len(self.z), self.recipe.candidates
        tried = self._draw_z(model, n * k).reshape(n, k, -1)
        rows, flat = encoded.repeat_interleave(k, 0), tried.flatten(0, 1)
        F = model.forward_of(rows, model.action_of(rows, flat), flat).mean(0).reshape(n, k, -1)
        widest = torch.einsum("nkd,nde,nke->nk", F, self.V_inv, F).argmax(1)  # ‖F‖_{V⁻¹}
        choice = torch.where(self.role < self.recipe.explorers, widest, 0)
        chosen = tried[torch.arange(n, device=self.device), choice]
        renewed = torch.rand(n, 1, generator=self.rng, device=self.device) < 0.25
        self.z = torch.where(renewed, chosen, self.z)

    def _draw_z(self, model: FB, n: int) -> Float[Tensor, "n d"]:
        """z of random rewards, as many as the recipe says; of the others half uniform, half B of observations."""
        obs = self.buffer.next_obs[self.buffer.draw(n, self.rng)]
        B = centred(model.backward_of(obs))
        z = goals_or_uniform(B, 0.5, self.rng)
        if share := self.recipe.task_share:
            goals = model.config.goals(obs[:DRAWN_TASKS])
            tasks = random_tasks(B[:DRAWN_TASKS], goals, DRAWN_TASKS, self.rng, self.recipe.ramps, self.recipe.gates)
            which = torch.rand(n, 1, generator=self.rng, device=self.device) < share
            drawn = torch.randint(DRAWN_TASKS, (n,), generator=self.rng, device=self.device)
            z = torch.where(which, tasks[drawn], z)
        return z

    def _restart(self, which: Int[Tensor, " m"]) -> None:
        count = len(which)
        start = self.world.random_states(count, self.physics_rng)
        again = torch.rand(count, generator=self.physics_rng) < self.recipe.archive
        if again.any() and self.archive.added >= ARCHIVE // 10:
            start[again] = self.archive.draw(int(again.sum()))
        self.state[which], self.age[which] = start, 0
        there = which.to(self.device)
        self._obs[there] = self._seen(self.world.observe(start))
        self.V_inv[there] = torch.eye(self.V_inv.shape[-1], device=self.device)

    def _seen(self, obs: Float[Tensor, "m o"]) -> Float[Tensor, "m o"]:
        return obs.float().to(self.device)
