"""A body on the live page: a stage seen from the side, and a hidden reward that is a sum of weighted parts.

The parts are the body's tasks, each a reward in [0, 1], and its goal features, each scaled to [−1, 1].
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor

from zscout.lab.arenas.body import BodyArena
from zscout.live.places.explanation import in_words, number, rounded
from zscout.live.places.hidden_reward import Hidden, VectorReward
from zscout.live.places.run_so_far import RecordedStep, RunSoFar
from zscout.live.places.vector import LinearPart, VectorRun
from zscout.transfer.atlas.limits import Limit
from zscout.watch.body import COMPARED, SAME_COSINE, Correlations
from zscout.worlds.bodies.planar import PlanarBody
from zscout.worlds.bodies.tasks import body_tasks
from zscout.worlds.registry import PLACES

MILLIMETRES = 3  # digits of positions
HEADROOM = 1.35  # the stage's height over that of the body at rest: room to jump
LOWEST_STAGE = 1.75  # metres
RARE = 0.02  # a share of the saved observations: those beyond it count as the most that a goal feature can be


class LiveBody:
    """A body with a shipped model."""

    def __init__(self, body: str, model: str) -> None:
        self.arena = BodyArena(model, body=body)
        self.goals, self._fall = PLACES[body].goals, PLACES[body].fall
        self._tasks = body_tasks(self.arena.world)
        self.obs: Float[Tensor, "m o"] = self.arena.observations(COMPARED, 0)  # on which rewards are compared
        phi = self.arena.bfm.phi(self.obs).double().cpu()
        self._linear = LinearPart(phi)  # all φ·z + c at the saved observations
        self._shown = [self.arena.world.goal_names.index(goal.feature) for goal in self.goals]
        goals = self.arena.world.goal_features(self.obs).double()[:, self._shown]
        self._middle = goals.median(0).values
        ends = torch.quantile(goals, torch.tensor([RARE, 1 - RARE], dtype=goals.dtype), 0)
        self._reach = (ends - self._middle).abs().amax(0)
        self._last = b"", goals[0]
        self.correlations = Correlations(goals, self.obs, phi)  # of a reward with each goal feature

    @property
    def entries(self) -> int:
        """The number of parts."""
        return len(self._tasks) + len(self.goals)

    @property
    def on_feet(self) -> Limit | None:
        """Only behaviours that are rarely on the ground."""
        fall = self._fall
        if fall is None:
            return None
        names = self.arena.world.goal_names
        return Limit(at_most=fall.rare, name="fall", cost=lambda obs: fall.cost(self._goals(obs), names))

    @property
    def constants(self) -> dict[str, Any]:
        """Radii of the capsules and height of the stage in metres, which are far, whether planar, seconds of a step."""
        world = self.arena.world
        ends, radii = world.segments(world.rest)
        tall = float((ends[..., 1].amax(-1) + radii).max())
        return {
            "radii": rounded(radii, MILLIMETRES),
            "far": world.far,
            "planar": isinstance(world, PlanarBody),
            "above": round(max(LOWEST_STAGE, HEADROOM * tall), 2),
            "seconds": world.seconds,
        }

    def reward(self, table: Float[Tensor, " n"], obs: Float[Tensor, "*b o"]) -> Float[Tensor, "*b"]:
        """The weighted sum of the parts at observations."""
        total = torch.zeros(obs.shape[:-1], dtype=torch.float64)
        if not table.any():  # a person gives the reward
            return total
        goals = self._goals(obs)
        for task, weight in zip(self._tasks, table.tolist(), strict=False):
            if weight:  # a step has no time for parts that do not count
                total += weight * task.field(goals)
        scaled = ((goals[..., self._shown] - self._middle) / self._reach).clamp(-1, 1)
        return total + scaled @ table[len(self._tasks) :]

    def goal_values(self, obs: Any) -> Float[Tensor, " g"]:
        """The goal features of one observation, in metres and seconds."""
        return self._goals(torch.as_tensor(obs))[self._shown]

    def _goals(self, obs: Float[Tensor, "*b o"]) -> Float[Tensor, "*b g"]:
        """All goal features; of a single observation they are kept, since a step needs them several times."""
        if obs.ndim > 1 and len(obs) > 1:
            return self.arena.world.goal_features(obs).double()
        key = obs.numpy().tobytes()
        if key != self._last[0]:
            self._last = key, self.arena.world.goal_features(obs.reshape(-1)).double()
        return self._last[1].expand(*obs.shape[:-1], -1)

    def random_task(self, number: int) -> Float[Tensor, " n"]:
        """A task or a goal feature, with either sign, and half as much of another goal feature."""
        rng = Generator().manual_seed(number)
        table = torch.zeros(self.entries, dtype=torch.float64)
        first, second = int(torch.randint(self.entries, (), generator=rng)), len(self._tasks)
        table[second + int(torch.randint(len(self.goals), (), generator=rng))] = 0.5
        sign = 1 if first < second or torch.rand((), generator=rng) < 0.5 else -1
        table[first] = sign
        return table

    def hide(self, table: Float[Tensor, " n"]) -> VectorReward:
        """The reward, how much of it the features express, and what goes with it."""
        labels = self.reward(table, self.obs)
        return VectorReward(table, self._linear.share_of(labels), rounded(np.array(self.correlations.of(labels)), 3))

    def run(self, reward: Float[Tensor, "1 n"], noise: Float[Tensor, " 1"], seeds: Int[Tensor, " 1"]) -> "BodyRun":
        """One method's run; ``reward`` and ``noise`` may be changed in place."""
        return BodyRun(self, reward, noise, seeds)

    def poses(self, states: Float[Tensor, "*b k"]) -> Any:
        """x and z of both ends of each capsule, one after the other, as they are sent to the page."""
        return rounded(self.arena.world.segments(states)[0].flatten(-3), MILLIMETRES)


class BodyRun(VectorRun):
    """Compares rewards with goal features."""

    def __init__(
        self, world: LiveBody, reward: Float[Tensor, "1 n"], noise: Float[Tensor, " 1"], seeds: Int[Tensor, " 1"]
    ) -> None:
        super().__init__(world.arena, lambda obs: world.reward(reward[0], obs), noise, seeds)
        self._world = world

    def assess(self, steps: Sequence[RecordedStep], best_z: Float[Tensor, " d"], hidden: Hidden | None) -> None:
        """Whether the last step follows the best z; add its reward to the episode's."""
        if not steps:
            return
        last = steps[-1]
        self._count(last)
        same = bool(torch.cosine_similarity(last.z, last.belief.best_z, dim=-1) >= SAME_COSINE)
        self.mode = "wanders" if last.belief.exploring else "keeps" if same else "tries"
        if last.shown or last.done:
            self.mode = "shows" if last.shown else "done"

    def shown(self, run: RunSoFar, hidden: Hidden | None) -> dict[str, Any]:
        """The body, what seems to pay and what it tries in goal features, and the episode."""
        world, last = self._world, run.steps[-1] if run.steps else None
        z = None if last is None or last.belief.exploring else last.z.cpu().double()
        pays = world.correlations.of_linear(run.agent.z_hat.cpu(), run.agent.atlas)
        goal = None if z is None else world.correlations.of_linear(z)
        return {
            "ends": world.poses((self._runs.state if last is None else self._runs.entered)[0]),
            "says": self._sentence(run, pays, goal),
            "likes": in_words(world.goals, pays),
            "now": rounded(world.goal_values(run.obs if last is None else last.entered), MILLIMETRES),
            "pays": rounded(np.array(pays), 3),
            "goal": None if goal is None else rounded(np.array(goal), 3),
            "knows": run.progress.in_words(person=hidden is None),
            "sure": run.progress.sure,
            **self._shown_episode(hidden),
        }

    def _sentence(self, run: RunSoFar, pays: list[float], goal: list[float] | None) -> str:
        if self.mode == "begins":
            return "Nothing is known yet: any behaviour could be the best."
        if self.mode == "wanders" or goal is None:
            return "Moving at random to see a bit of everything."
        towards = in_words(self._world.goals, goal)
        what = f": {towards}" if towards else ""
        if self.mode == "shows":
            return f"Showing a saved behaviour{what}. The agent is paused; rewards still count."
        if self.mode == "done":
            return f"I know what you like{what}. I do it and ask no more; your thumbs still count."
        if not run.told.largest and not any(pays):  # comparisons teach without a reward
            return f"Trying a behaviour{what}. {'Every reward so far was 0' if run.told.count else 'No reward yet'}."
        phase = run.progress.phase
        if self.mode == "tries":
            why = "It could be worth more than what seems best" if run.weighs else "It is not what seems best now"
            return f"{phase.capitalize()}: trying a behaviour{what}.{f' {why}.' if phase == 'learning' else ''}"
        recent = f" Lately {number(float(np.mean(run.told.recent)))} a step." if run.told.count else ""
        return f"{phase.capitalize()}: doing what seems best{what}.{recent}"
