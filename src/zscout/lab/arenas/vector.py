"""Arenas of learned models on vectors: named or linear rewards, episodes of a fixed length."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache, lru_cache
from typing import Any, ClassVar

import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor

from zscout.base.edge import as_finite, as_size, as_vectors, known_name
from zscout.base.randomness import Streams
from zscout.base.types import Action, Obs
from zscout.lab.arenas.arena import Arena, Batch, Task
from zscout.lab.arenas.simulation import WORLD_DRAWS
from zscout.loop.loading import load
from zscout.models.fb.model import FB
from zscout.transfer.inputs import checked_phi
from zscout.transfer.offline import TaskFit, fit_features

LINEAR = "linear"  # rewards φ·z_r
LABELS = 50_000  # labelled observations for the oracle
DATA_SEED = 7

Reward = Callable[[Float[Tensor, "R o"]], Float[Tensor, " R"]]


class VectorRuns:
    """R runs in the world of an arena; all episodes end together. Starts and noise come from each run's seed.

    ``entered`` are the states after the last step, also if a reset followed it; ``state`` are those now. ``reward`` may
    be changed between two steps.
    """

    state: Float[Tensor, "R k"]
    entered: Float[Tensor, "R k"]

    def __init__(self, arena: "VectorArena", reward: Reward, noise: float, seeds: Int[Tensor, " R"]) -> None:
        self.arena, self.reward, self.noise, self.seeds = arena, reward, noise, seeds
        self._t = self._resets = 0

    def true_reward(self, next_obs: Obs) -> Float[Tensor, " R"]:
        """R_{t+1} of each run without noise."""
        return self.reward(torch.as_tensor(next_obs))

    def reset(self, *, seed: int | None = None) -> tuple[Float[Tensor, "R o"], dict[str, Any]]:
        """The start of an episode: with a seed always the first one, else the next."""
        self._resets = self._resets + 1 if seed is None else 0
        self.state = self.arena.starts(Streams(self.seeds, WORLD_DRAWS + 2 * self._resets + 1))
        self._in_episode = 0
        return self.arena.observe(self.state), {}

    def step(self, action: Action) -> tuple[Float[Tensor, "R o"], Float[Tensor, " R"], bool, bool, dict[str, Any]]:
        """S_{t+1} and R_{t+1} of every run."""
        force = as_finite(action, "action", self.state.device).float()
        self.state = self.entered = self.arena.advance(self.state, force)
        self._t, self._in_episode = self._t + 1, self._in_episode + 1
        obs = self.arena.observe(self.state)
        reward = self.true_reward(obs)
        if self.noise:
            reward = reward + self.noise * Streams(self.seeds, WORLD_DRAWS + 2 * self._t).normal()
        return obs, reward, False, self._in_episode >= self.arena.decisions, {}


@dataclass(frozen=True)
class VectorArena(Arena, ABC):
    """A saved model, a kind of rewards, and the length of an episode; subclasses add the world and its tasks."""

    model: str  # a saved model's name or folder
    rewards: str
    horizon: int
    device: str = "cpu"

    kinds: ClassVar[Sequence[str]]  # of rewards

    def __post_init__(self) -> None:
        known_name(self.rewards, self.kinds, "kind of rewards,")
        as_size(self.horizon, "horizon", 1, 100_000)

    # The world and its tasks

    @property
    @abstractmethod
    def place(self) -> str:
        """The name of the world."""

    @property
    @abstractmethod
    def world(self) -> Any:
        """A point maze or a body."""

    @abstractmethod
    def starts(self, draws: Streams) -> Float[Tensor, "R k"]:
        """A start for each run, from its own random numbers."""

    @abstractmethod
    def task_names(self, n: int, rng: Generator) -> list[str]:
        """n tasks of this kind of rewards."""

    @abstractmethod
    def reward_of(self, name: str) -> Callable[[Float[Tensor, "*b o"]], Float[Tensor, "*b"]]:
        """The reward of a name."""

    @abstractmethod
    def observations(self, n: int, seed: int) -> Float[Tensor, "n o"]:
        """Observations to be labelled for the oracle, distributed as the model's training data."""

    def advance(self, state: Float[Tensor, "R k"], action: Float[Tensor, "R a"]) -> Float[Tensor, "R k"]:
        """The next states."""
        entered: Tensor = self.world.advance(state, action)[0]
        return entered

    def observe(self, state: Float[Tensor, "R k"]) -> Float[Tensor, "R o"]:
        """What the model sees of states."""
        seen: Tensor = self.world.observe(state).float()
        return seen

    @property
    def decisions(self) -> int:
        """Actions in an episode."""
        return self.horizon

    def followed(
        self, state: Float[Tensor, "R k"], z: Float[Tensor, "R d"], actions: int
    ) -> Iterator[Float[Tensor, "R k"]]:
        """The states that π(·,z) enters, one action after the other."""
        for _ in range(actions):
            state = self.advance(state, torch.as_tensor(self.bfm.act(self.observe(state), z)).float())
            yield state

    # An Arena

    @property
    def key(self) -> str:
        """place/rewards/model."""
        return f"{self.place}/{self.rewards}/{self.model}"

    @property
    def bfm(self) -> FB:
        """The model, loaded once."""
        return _model(self.model, self.device, self.place)

    @property
    def fingerprint(self) -> str:
        """Digest of the world and the weights."""
        digest = hashlib.sha256(self.place.encode())
        state = self.starts(Streams(torch.arange(8)))
        digest.update(state.numpy().tobytes())
        obs, z = self.observe(self.advance(state, torch.ones(8, self.bfm.config.actions))), self.bfm.sample_z(4, 0)
        for answer in (obs, self.bfm.phi(obs), self.bfm.psi(obs, z)):
            digest.update(answer.cpu().numpy().tobytes())
        return digest.hexdigest()

    def to_json(self) -> dict[str, Any]:
        """The names, without the device."""
        names = {name: value for name, value in asdict(self).items() if name != "device"}
        return {"arena": self.place, **names}

    def sample_tasks(self, n: int, rng: Generator) -> list[Task]:
        """Named rewards, or z_r uniform on the sphere of radius √d."""
        if self.rewards != LINEAR:
            return list(self.task_names(n, rng))
        return super().sample_tasks(n, rng)

    def vectors(self, tasks: Sequence[Task]) -> Float[Tensor, "R d"]:
        """z_r; of named rewards ẑ by regression on labelled observations."""
        found = [self.fit(task).z_hat.tolist() if isinstance(task, str) else list(task) for task in tasks]
        return as_vectors(found, self.bfm.dim, "tasks", torch.device("cpu"))

    def fit(self, name: str, labels: int = LABELS) -> TaskFit:
        """Offline inference of a named reward from labelled observations, at most ``LABELS``."""
        return _fit(self, name, labels)

    def environment(self, batch: Batch) -> VectorRuns:
        """Episodes of ``horizon`` steps from random starts."""
        if batch.outside:
            raise ValueError("--outside adds to rewards of a finite world; here named rewards are not linear in φ")
        return VectorRuns(self, self.rewards_of(batch), batch.noise, torch.tensor(batch.seeds))

    def rewards_of(self, batch: Batch) -> Reward:
        """The rewards of a batch of tasks, by what was entered."""
        if self.rewards == LINEAR:
            task = self.vectors(batch.tasks)
            return lambda obs: (self.bfm.phi(obs).double().cpu() * task).sum(-1) + batch.offset
        rows: dict[str, list[int]] = {}
        for row, name in enumerate(batch.tasks):
            rows.setdefault(str(name), []).append(row)
        groups = [(self.reward_of(name), torch.tensor(where)) for name, where in rows.items()]

        def named(obs: Float[Tensor, "R o"]) -> Float[Tensor, " R"]:
            reward = torch.empty(len(obs), dtype=torch.float64)
            for task, where in groups:
                reward[where] = task(obs.cpu()[where]).double()
            return reward + batch.offset

        return named


@cache
def _model(name: str, device: str, place: str) -> FB:
    if name in ("exact", "network"):
        raise ValueError(f"{place} takes the name or folder of a saved model, got {name}")
    found: Any = load(name)
    if not isinstance(found, FB) or found.about.get("world", place) != place:
        raise ValueError(f"{name} is not a model of {place}: it expects {found.observation_space}")
    return found.to(device)


@cache
def _fit(arena: VectorArena, name: str, labels: int) -> TaskFit:
    obs, phi = (part[:labels] for part in _labelled(arena))
    return fit_features(arena.bfm, phi, arena.reward_of(name)(obs))


@lru_cache(maxsize=4)
def _labelled(arena: VectorArena) -> tuple[Tensor, Tensor]:
    """Observations and their φ, for all tasks."""
    obs = arena.observations(LABELS, DATA_SEED)
    return obs, checked_phi(arena.bfm, obs)
