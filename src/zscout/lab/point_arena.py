"""The point maze as an arena: a learned model on vectors, named or linear rewards, Monte-Carlo evaluation."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor

from zscout.bfm.fb import FB
from zscout.bfm.fb_data import random_forces
from zscout.bfm.pretrained import load
from zscout.bfm.sphere import sample_sphere
from zscout.edge import as_finite, as_size, as_vectors, known_name
from zscout.lab.arena import Batch, Evaluation, Task
from zscout.lab.monte_carlo import evaluate_returns
from zscout.lab.plugins import is_plugin
from zscout.lab.simulation import WORLD
from zscout.randomness import Streams
from zscout.transfer.agent import OnlineTransfer
from zscout.transfer.offline import TaskFit, fit_task
from zscout.transfer.rollout import Step
from zscout.types import Action, BehaviorModel, Obs
from zscout.worlds.point_maze import PointMaze, at_rest, point_maze
from zscout.worlds.point_tasks import KINDS, PointTask, point_tasks

POINT_MAZE = "point-maze"
REWARDS = ("named", "linear")
LABELS = 50_000  # labelled observations for the oracle
DATA_SEED = 7


class PointRuns:
    """R runs in a point maze; all episodes end together after ``horizon`` steps. Starts and noise come from seeds."""

    def __init__(
        self,
        world: PointMaze,
        reward: Callable[[Float[Tensor, "R 4"]], Float[Tensor, " R"]],
        noise: float,
        seeds: Int[Tensor, " R"],
        horizon: int,
    ) -> None:
        self.world, self.noise, self.seeds, self.horizon = world, noise, seeds, horizon
        self._reward = reward
        self._t = self._resets = 0

    def true_reward(self, next_obs: Obs) -> Float[Tensor, " R"]:
        """R_{t+1} of each run without noise."""
        return self._reward(torch.as_tensor(next_obs))

    def reset(self, *, seed: int | None = None) -> tuple[Float[Tensor, "R 4"], dict[str, Any]]:
        """Every run at rest at a random place; with a seed always at the first start, else at the next one."""
        self._resets = self._resets + 1 if seed is None else 0
        draw = Streams(self.seeds, WORLD + 2 * self._resets + 1).uniform(3)  # [R 3]
        cells = self.world.grid.cells
        self._state = at_rest(cells[(draw[:, 0] * len(cells)).long()], draw[:, 1:]).float()
        self._in_episode = 0
        return self._state, {}

    def step(self, action: Action) -> tuple[Float[Tensor, "R 4"], Float[Tensor, " R"], bool, bool, dict[str, Any]]:
        """S_{t+1} and R_{t+1} of every run."""
        force = as_finite(action, "action", self._state.device).float()
        self._state, _ = self.world.advance(self._state, force)
        self._t, self._in_episode = self._t + 1, self._in_episode + 1
        noise = self.noise * Streams(self.seeds, WORLD + 2 * self._t).normal()
        return self._state, self.true_reward(self._state) + noise, False, self._in_episode >= self.horizon, {}


@dataclass(frozen=True)
class PointArena:
    """A point maze in four rooms, a model, and a kind of rewards."""

    model: str = "pointmaze-fb"  # a saved model's name or folder
    rewards: str = "named"  # named: goals, regions, directions, places to avoid, velocities; linear: φ·z_r
    horizon: int = 70
    device: str = "cpu"

    def __post_init__(self) -> None:
        known_name(self.rewards, REWARDS, "kind of rewards,")
        as_size(self.horizon, "horizon", 1, 100_000)

    @property
    def world(self) -> PointMaze:
        """Four rooms."""
        return _world()

    @property
    def key(self) -> str:
        """point-maze/rewards/model."""
        return f"{POINT_MAZE}/{self.rewards}/{self.model}"

    @property
    def bfm(self) -> BehaviorModel:
        """The model, loaded once."""
        return _model(self.model, self.device)

    @property
    def fingerprint(self) -> str:
        """Digest of the map and the weights."""
        digest = hashlib.sha256(f"{self.world}".encode())
        obs, z = self.world.random_states(8, Generator().manual_seed(0)), self.bfm.sample_z(4, 0)
        for answer in (self.bfm.phi(obs), self.bfm.psi(obs, z)):
            digest.update(answer.cpu().numpy().tobytes())
        return digest.hexdigest()

    @property
    def look_ahead(self) -> None:
        """None: states are not countable."""
        return

    @property
    def has_plugin(self) -> bool:
        """False."""
        return False

    def to_json(self) -> dict[str, Any]:
        """The names, without the device."""
        names = {name: value for name, value in asdict(self).items() if name != "device"}
        return {"arena": POINT_MAZE, **names}

    def sample_tasks(self, n: int, rng: Generator) -> list[Task]:
        """Named rewards, or z_r uniform on the sphere of radius √d."""
        if self.rewards == "named":
            numbers = torch.randint(2**31, (n,), generator=rng).tolist()
            return [f"{list(KINDS)[i % len(KINDS)]} {number}" for i, number in enumerate(numbers)]
        return [tuple(z) for z in sample_sphere(n, self.bfm.dim, rng).tolist()]

    def vectors(self, tasks: Sequence[Task]) -> Float[Tensor, "R d"]:
        """z_r; of named rewards ẑ by regression on 50,000 labelled observations."""
        found = [self.fit(task).z_hat.tolist() if isinstance(task, str) else list(task) for task in tasks]
        return as_vectors(found, self.bfm.dim, "tasks", torch.device("cpu"))

    def fit(self, name: str, labels: int = LABELS, seed: int = DATA_SEED) -> TaskFit:
        """Offline inference of a named reward from labelled observations."""
        return _fit(self, name, labels, seed)

    def environment(self, batch: Batch) -> PointRuns:
        """Episodes of ``horizon`` steps from random starts."""
        if batch.outside:
            raise ValueError("--outside adds to rewards of a finite world; here named rewards are not linear in φ")
        return PointRuns(self.world, self._reward(batch), batch.noise, torch.tensor(batch.seeds), self.horizon)

    def evaluate(self, batch: Batch, agent: OnlineTransfer, steps: Sequence[Step]) -> Evaluation:
        """Monte-Carlo returns."""
        return evaluate_returns(self, batch, agent, steps)

    def _reward(self, batch: Batch) -> Callable[[Float[Tensor, "R 4"]], Float[Tensor, " R"]]:
        if self.rewards == "linear":
            task = self.vectors(batch.tasks)
            return lambda obs: (self.bfm.phi(obs).double().cpu() * task).sum(-1) + batch.offset
        rows: dict[str, list[int]] = {}
        for row, name in enumerate(batch.tasks):
            rows.setdefault(str(name), []).append(row)
        groups = [(task_named(name), torch.tensor(where)) for name, where in rows.items()]

        def named(obs: Float[Tensor, "R 4"]) -> Float[Tensor, " R"]:
            reward = torch.empty(len(obs), dtype=torch.float64)
            for task, where in groups:
                reward[where] = task(obs.cpu()[where]).double()
            return reward + batch.offset

        return named


@cache
def task_named(name: str) -> PointTask:
    """The task of a name such as ``goal 12``: a kind of ``point_tasks``, and its seed."""
    kind, _, number = name.partition(" ")
    if not number.isdecimal():
        raise ValueError(f"expected a task such as 'goal 12', a kind ({', '.join(KINDS)}) and a number, got {name!r}")
    return point_tasks(_world(), kind, 1, int(number))[0]


@cache
def _world() -> PointMaze:
    return point_maze()


@cache
def _model(name: str, device: str) -> BehaviorModel:
    if name in ("exact", "network") or is_plugin(name):
        raise ValueError(f"{POINT_MAZE} takes the name or folder of a saved model, got {name}")
    found: Any = load(name)
    if not isinstance(found, FB):
        raise ValueError(f"{name} is no model of the point maze: it expects {found.observation_space}")
    return found.to(device)


@cache
def _fit(arena: PointArena, name: str, labels: int, seed: int) -> TaskFit:
    obs = _observations(labels, seed)
    return fit_task(arena.bfm, obs, task_named(name)(obs))


@cache
def _observations(labels: int, seed: int) -> Float[Tensor, "n 4"]:
    """Observations entered under random forces, distributed as the shipped model's training data."""
    data = random_forces(_world(), max(labels, 100_000), Generator().manual_seed(seed))
    return data.shuffled(Generator().manual_seed(seed)).next_obs[:labels]
