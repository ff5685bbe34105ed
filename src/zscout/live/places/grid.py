"""Grid worlds on the live page: places are states, and values are exact."""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor

from zscout.lab.arenas.grid import GridArena
from zscout.lab.arenas.simulation import TaskRuns
from zscout.live.places.explanation import LiveMode, rounded
from zscout.live.places.hidden_reward import Hidden, HiddenReward
from zscout.live.places.maps import LiveMap, map_frame
from zscout.live.places.run_so_far import RecordedStep, RunSoFar
from zscout.watch.grid import end_of_way
from zscout.watch.viewer import mode_of


class LiveGrid(LiveMap):
    """A grid world with features and a model."""

    def __init__(self, name: str, features: str, model: str) -> None:
        self.arena = GridArena(name, features, model)
        self.ground = self.arena.ground
        self.features = self.ground.exact.features
        self.shape = self.ground.world.shape
        self.places = [(row, column) for row, column in self.ground.world.cells.tolist()]

    def place(self, obs: Any) -> int:
        """The state."""
        return int(obs)

    def random_task(self, number: int) -> Float[Tensor, " S"]:
        """φ·z_r of each state."""
        exact = self.ground.exact
        return exact.features.cpu() @ exact.sample_z(1, Generator().manual_seed(number)).cpu()[0]

    def hide(self, table: Float[Tensor, " S"]) -> HiddenReward:
        """The reward with its exact values."""
        return HiddenReward(self.ground, table)

    def run(self, reward: Float[Tensor, "1 S"], noise: Float[Tensor, " 1"], seeds: Int[Tensor, " 1"]) -> "GridRun":
        """One method's run; ``reward`` and ``noise`` may be changed in place."""
        return GridRun(self, reward, noise, seeds)


class GridRun:
    """The laboratory's environment for one run, and what the page shows: policies followed through the table of states.

    Same seed, same start and same noise as in the laboratory.
    """

    state: Any = None  # no more than the observation

    def __init__(
        self, world: LiveGrid, reward: Float[Tensor, "1 S"], noise: Float[Tensor, " 1"], seeds: Int[Tensor, " 1"]
    ) -> None:
        self.mode: LiveMode = "begins"
        self.target: int | None = None  # the place where π(·,Z_t) leads
        self._runs = TaskRuns(world.ground.world, reward, noise, seeds)
        self._world, self._ground, self._features = world, world.ground, world.features.cpu()
        self._settled: tuple[Float[Tensor, " d"], Int[Tensor, " S"]]  # what it would do without learning on
        self._regret: float | None = None  # of the last step
        self._lost = 0.0  # regret so far, in steps of random walking
        self._worth: float | None = None  # of the best policy so far

    def reset(self, *, seed: int | None = None) -> tuple[int, dict[str, Any]]:
        """The start, as a plain number."""
        return int(self._runs.reset()[0]), {}

    def step(self, action: Any) -> tuple[int, float, bool, bool, dict[str, Any]]:
        """S_{t+1} and R_{t+1}, as plain numbers."""
        state, reward, *_ = self._runs.step([int(action)])
        return int(state), float(reward), False, False, {}

    def assess(self, steps: Sequence[RecordedStep], best_z: Float[Tensor, " d"], hidden: Hidden | None) -> None:
        """Find where the last step leads, its regret, and the worth of the best policy so far."""
        assert hidden is None or isinstance(hidden, HiddenReward)
        if not steps:
            self._settled = best_z, self._policies(best_z)[0]
            self._worth = None if hidden is None else hidden.worth(hidden.values(self._settled[1][None])[0])
            return
        last, (settled_z, settled) = steps[-1], self._settled
        before = settled if torch.equal(settled_z, last.belief.best_z) else self._policies(last.belief.best_z)[0]
        policies = self._policies(last.z, best_z)
        self._settled = best_z, policies[1]
        wanted, wanted_settled = (self._features @ torch.stack([last.z, last.belief.best_z]).cpu().T).T.tolist()
        cycle = end_of_way(self._ground, policies[0], last.state)
        self.target = None if last.belief.exploring else max(cycle, key=wanted.__getitem__)
        settled_target = max(end_of_way(self._ground, before, last.state), key=wanted_settled.__getitem__)
        self.mode = mode_of(self.target, settled_target, last.entered)
        if self.mode == "goes" and last.entered in cycle:  # it moves between a few places and is at one of them
            self.mode = "stays"
        if hidden is not None:
            value, settled_value = hidden.values(policies)
            # v*(S_t) − v of π(·,Z_t) there  (eq. 2); for an explorer's step, v of a random walk.
            achieved = hidden.random if last.belief.exploring else value
            self._regret = float((hidden.best - achieved)[last.state])
            self._lost += 0.0 if hidden.flat else self._regret / hidden.gap
            self._worth = hidden.worth(settled_value)

    def shown(self, run: RunSoFar, hidden: Hidden | None) -> dict[str, Any]:
        """The maps and the exact numbers."""
        exact = {"regret": self._regret, "lost": None if hidden is None else self._lost, "worth": self._worth}
        parts = map_frame(self._world, run, hidden, self.mode, self.target)
        return {**parts, **{name: rounded(value) for name, value in exact.items()}}

    def _policies(self, *z: Float[Tensor, " d"]) -> Int[Tensor, "n S"]:
        return self._ground.yardstick.policy(torch.stack(z).cpu())
