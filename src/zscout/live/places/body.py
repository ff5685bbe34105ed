"""A body on the live page: a stage seen from the side, and a hidden reward that is a sum of weighted parts.

The parts are the body's tasks, each a reward in [0, 1], and its goal features, each scaled to [−1, 1].
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor

from zscout.lab.arenas.body import BodyArena
from zscout.live.places.explanation import LiveMode, in_words, number, rounded
from zscout.live.places.live_world import Hidden, RecordedStep, RunSoFar
from zscout.live.places.vector import EpisodeReturn, LinearPart, VectorRun
from zscout.transfer.atlas.atlas import Atlas
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
        self.phi: Float[Tensor, "m d"] = self.arena.bfm.phi(self.obs).double().cpu()
        self._shown = [self.arena.world.goal_names.index(goal.feature) for goal in self.goals]
        goals = self.arena.world.goal_features(self.obs).double()[:, self._shown]
        self._middle = goals.median(0).values
        ends = torch.quantile(goals, torch.tensor([RARE, 1 - RARE], dtype=goals.dtype), 0)
        self._reach = (ends - self._middle).abs().amax(0)
        self._with_goals, self._last = Correlations(goals), (b"", goals[0])
        self._moments = {False: self._moments_of(self.phi)}  # of φ; True: of the atlas's features

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

    def linear_correlations(self, z: Float[Tensor, " d"], atlas: Atlas | None = None) -> list[float]:
        """``correlations`` of the reward φ·z + c, from moments of φ, or of the features of an atlas."""
        if atlas is not None and True not in self._moments:
            self._moments[True] = self._moments_of(atlas.features(self.obs).cpu())
        with_goals, spread = self._moments[atlas is not None]
        variance = float(z @ spread @ z)
        if variance < 1e-18:
            return [0.0] * len(self.goals)
        found: list[float] = (with_goals @ z / variance**0.5).tolist()
        return found

    def _moments_of(self, features: Float[Tensor, "m d"]) -> tuple[Float[Tensor, "g d"], Float[Tensor, "d d"]]:
        """Covariances of features with goal features, and with each other."""
        apart = features - features.mean(0)
        return self._with_goals.standard.T @ apart / len(apart), apart.T @ apart / len(apart)

    def correlations(self, reward: Float[Tensor, " m"]) -> list[float]:
        """Correlation of a reward with each goal feature over saved observations; 0 if the reward is constant."""
        found: list[float] = self._with_goals.of(reward).tolist()
        return found

    def random_task(self, number: int) -> Float[Tensor, " n"]:
        """A task or a goal feature, with either sign, and half as much of another goal feature."""
        rng = Generator().manual_seed(number)
        table = torch.zeros(self.entries, dtype=torch.float64)
        first, second = int(torch.randint(self.entries, (), generator=rng)), len(self._tasks)
        table[second + int(torch.randint(len(self.goals), (), generator=rng))] = 0.5
        sign = 1 if first < second or torch.rand((), generator=rng) < 0.5 else -1
        table[first] = sign
        return table

    def hide(self, table: Float[Tensor, " n"]) -> "BodyReward":
        """The reward, and how much of it the features express."""
        return BodyReward(self, table)

    @cached_property
    def linear(self) -> LinearPart:
        """All φ·z + c at the saved observations."""
        return LinearPart(self.phi)

    def environment(
        self, reward: Float[Tensor, "1 n"], noise: Float[Tensor, " 1"], seeds: Int[Tensor, " 1"]
    ) -> "_BodyRun":
        """The laboratory's environment for one run."""
        return _BodyRun(self, reward, noise, seeds)

    def judge(self, best_z: Float[Tensor, " d"]) -> "BodyJudge":
        """What seems to pay, and the return of each episode."""
        return BodyJudge(self)


class BodyScene(NamedTuple):
    """What is shown of a step."""

    ends: list[float]  # x and z of both ends of each capsule, one after the other
    true_reward: float  # without noise


class _BodyRun(VectorRun):
    scene: BodyScene

    def __init__(
        self, world: LiveBody, reward: Float[Tensor, "1 n"], noise: Float[Tensor, " 1"], seeds: Int[Tensor, " 1"]
    ) -> None:
        self._body, self._true_reward = world.arena.world, 0.0

        def reward_of(obs: Float[Tensor, "1 o"]) -> Float[Tensor, " 1"]:
            found = world.reward(reward[0], obs)
            self._true_reward = float(found)
            return found

        super().__init__(world.arena, reward_of, noise, seeds)

    @property
    def state(self) -> Float[Tensor, " k"]:
        return self._runs.state[0]

    def _see(self, state: Float[Tensor, "1 k"]) -> None:
        ends, _ = self._body.segments(state[0])
        self.scene = BodyScene(rounded(ends.flatten(), MILLIMETRES), self._true_reward)


class BodyReward:
    """A weighted sum of parts; nothing is known of the best policy."""

    attainable = None

    def __init__(self, world: LiveBody, table: Float[Tensor, " n"]) -> None:
        self.table, self._world = table, world
        self.labels = world.reward(table, world.obs)
        self.truth: list[float] | None = rounded(np.array(world.correlations(self.labels)), 3)

    @cached_property
    def expressed(self) -> float | None:
        """R² of the nearest φ·z + c over saved observations; None for a constant."""
        return self._world.linear.share_of(self.labels)


class BodyJudge:
    """Compares rewards with goal features, and adds up the reward of each episode."""

    def __init__(self, world: LiveBody) -> None:
        self.mode: LiveMode = "begins"
        self._world, self._episode = world, EpisodeReturn()

    def assess(self, steps: Sequence[RecordedStep], best_z: Float[Tensor, " d"], hidden: Hidden | None) -> None:
        """Whether the last step follows the best z; add its reward without noise to the episode's."""
        if not steps:
            return
        last = steps[-1]
        self._episode.add(last, 0.0 if hidden is None else last.scene.true_reward)
        same = bool(torch.cosine_similarity(last.z, last.belief.best_z, dim=-1) >= SAME_COSINE)
        self.mode = "wanders" if last.belief.exploring else "keeps" if same else "tries"
        if last.shown or last.done:
            self.mode = "shows" if last.shown else "done"

    def shown(self, run: RunSoFar, hidden: Hidden | None) -> dict[str, Any]:
        """The body, what seems to pay and what it tries in goal features, and the episode."""
        world, last = self._world, run.steps[-1] if run.steps else None
        z = None if last is None or last.belief.exploring else last.z.cpu().double()
        pays = world.linear_correlations(run.agent.z_hat.cpu(), run.agent.atlas)
        goal = None if z is None else world.linear_correlations(z)
        return {
            "ends": (run.scene if last is None else last.scene).ends,
            "says": self._sentence(run, pays, goal),
            "likes": in_words(world.goals, pays),
            "now": rounded(world.goal_values(run.obs if last is None else last.entered), MILLIMETRES),
            "pays": rounded(np.array(pays), 3),
            "goal": None if goal is None else rounded(np.array(goal), 3),
            "knows": run.progress.in_words(person=hidden is None),
            "sure": run.progress.sure,
            **self._episode.shown(hidden),
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
