"""One method in the world: its steps, and what the page shows of it."""

from typing import Any

import numpy as np
from jaxtyping import Float
from torch import Tensor

from zscout.lab.arenas.simulation import followed
from zscout.live.places.body import LiveBody
from zscout.live.places.explanation import DIGITS, rounded
from zscout.live.places.hidden_reward import Hidden
from zscout.live.places.run_so_far import RecordedStep, RunSoFar, Told
from zscout.live.session.rehearsal import ACTIONS, OF_AN_ANSWER, Clip, Rehearsals, telling_clips
from zscout.live.session.run_reward import RunReward
from zscout.live.session.setup import Setup
from zscout.live.session.shown_walk import ShownWalk, behaviour_in
from zscout.loop.rollout import Step
from zscout.transfer.agent import OnlineTransfer
from zscout.transfer.baselines.explorers import Exploring
from zscout.transfer.baselines.rollout_searches import RolloutSearch
from zscout.transfer.score.search import AnyZ, AtEstimate, PosteriorDraw
from zscout.watch.progress import Progress

NEWEST = 100  # steps of a body of which everything is kept
DOUBTS = 9  # eigenvalues that are shown
SELDOM = 5  # steps of a body: what changes slowly, and takes as long as an action


class MethodRun:
    """An agent and every step that it took.

    On a map it asks a person about places. A body that is sure keeps its z and learns from a person's thumbs only.
    """

    def __init__(self, setup: Setup, name: str, reward: RunReward) -> None:
        self.name, self._world = name, setup.live_world
        self._body = self._world if isinstance(self._world, LiveBody) else None
        self._person = setup.who == "person"
        method = setup.build(name)
        limit = self._body.on_feet if self._body is not None and setup.upright else None
        self.agent = OnlineTransfer(self._world.arena.bfm, method, seed=setup.seed, limit=limit)
        self._weighs = not isinstance(method.search, AtEstimate | AnyZ | PosteriorDraw | RolloutSearch | Exploring)
        self._env = self._world.run(reward.table, reward.noise, self.agent.seeds.reshape(1))
        self.shown_z: Float[Tensor, " d"] | None = None  # what a person wants to see; None: the agent chooses
        self._walk = ShownWalk(self.agent, self._env, seed=0)  # the agent's own resets lead to its first start
        self.steps: list[RecordedStep] = []
        self._told, self._answers = Told(), 0
        self._seldom_due, self._seldom = 0, dict[str, Any]()
        self._rehearsals: Rehearsals | None = None
        if self._body is not None and type(self.agent) is OnlineTransfer:
            self._rehearsals = Rehearsals(self._body.arena, self.agent)
        self.untold: Step | None = None  # the last step, until the agent is told its reward

    def move(self) -> None:
        """Choose an action and take it; the reward of the last step must have been told."""
        done = self.shown_z is None and self.done
        self._walk.z = self.agent.best_z if done else self.shown_z
        step = self._walk.move()
        assert step.belief is not None
        asks = self._person and self._body is None and bool(self.agent.wants_reward(step.next_obs))
        action, z = np.asarray(step.action).tolist(), followed(step)
        shown = self.shown_z is not None
        parts = step.obs, action, step.next_obs, z, step.belief, step.episode, asks, shown, done
        self.steps.append(RecordedStep(*parts))
        if self._body is not None and len(self.steps) > NEWEST:
            older = self.steps[-NEWEST - 2 : -NEWEST]
            older[-1].slim(older[0] if len(older) > 1 else None)
        self.untold = step

    def behaviour_in(self, z: Any) -> Float[Tensor, " d"] | None:
        """A z from outside, projected to the model's Z, for ``shown_z``; None stays None."""
        if isinstance(self.agent.method.search, RolloutSearch):
            raise ValueError(f"{self.name} scores whole rollouts and cannot pause: choose another method")
        return None if z is None else behaviour_in(z, self.agent)

    @property
    def best_z(self) -> list[float]:
        """The z to keep, as it is sent to the page."""
        found: list[float] = rounded(self.agent.best_z.cpu(), 6)
        return found

    @property
    def done(self) -> bool:
        """Whether it is sure and keeps its z."""
        return self._person and self._rehearsals is not None and self._rehearsals.progress.sure

    def learn_on(self) -> None:
        """Be sure no more: choose again, and ask."""
        if self._rehearsals is not None:
            self._rehearsals.start_anew()

    def ghost(self) -> list[list[float]] | None:
        """The behaviour of the best z, as the ends of the capsules at each action; once after each rehearsal."""
        if self._body is None or self._rehearsals is None or self._rehearsals.kept is None:
            return None
        kept, self._rehearsals.kept = self._rehearsals.kept, None
        poses: list[list[float]] = self._body.poses(kept)
        return poses

    def prefer(self, better: Clip, worse: Clip) -> None:
        """Tell the agent which clip a person likes more."""
        self.agent.prefer(better.observations, worse.observations)
        self._answers += 1
        self._rehearse(ACTIONS + 1)  # to its end: nobody waits for a step

    def clips(self, seed: int) -> tuple[Clip, Clip]:
        """Two behaviours of a body from where it is now, to be compared by a person."""
        assert self._body is not None
        return telling_clips(self._body, self.agent, self._env.state, seed)

    def tell(self, reward: float | None) -> None:
        """Tell the agent the reward of its last step, or that there is none."""
        assert self.untold is not None
        self._walk.tell(self.untold, reward)
        self._record(self.steps[-1], reward)
        self.untold = None

    def credit(self, first: int, last: int, reward: float) -> list[int]:
        """Tell the agent one reward for all steps of a range that have none, counted from 1; returns these."""
        found = [step for step in range(first, last + 1) if self.steps[step - 1].reward is None]
        if found:
            self.agent.learn(np.stack([self.steps[step - 1].entered for step in found]), [reward] * len(found))
        for step in found:
            self._record(self.steps[step - 1], reward)
        return found

    def _record(self, step: RecordedStep, reward: float | None) -> None:
        step.reward = reward
        if reward is not None:
            self._told.add(reward)

    def _rehearse(self, actions: int = 1) -> None:
        if self._rehearsals is not None and (self._told.largest or self._answers):
            labels = self._told.count + OF_AN_ANSWER * self._answers
            self._rehearsals.go_on(labels, self._env.state, self._walk.obs, actions)

    def assess(self, hidden: Hidden | None) -> None:
        """Judge the last step."""
        self._env.assess(self.steps, self.agent.best_z, hidden)
        self._rehearse()

    def frame(self, hidden: Hidden | None) -> dict[str, Any]:
        """What the page draws after the last step."""
        last = self.steps[-1] if self.steps else None
        # A method that tries rollouts may be back at its start.
        at = self.steps[-1].entered if self.untold else self._walk.obs
        progress = Progress() if self._rehearsals is None else self._rehearsals.progress
        so_far = RunSoFar(self.agent, self.steps, self._told, at, self._weighs, progress)
        return {
            "action": None if last is None else last.action,
            "reward": None if last is None else last.reward,
            "told": self._told.count,
            "asks": last is not None and last.asks,
            "mode": self._env.mode,
            **self._shown_seldom(),
            **self._env.shown(so_far, hidden),
        }

    def _shown_seldom(self) -> dict[str, Any]:
        """Some eigenvalues of V⁻¹, from the largest to the smallest."""
        if len(self.steps) >= self._seldom_due:
            # A late reward changes V without a step, so 0.
            self._seldom_due = len(self.steps) + (0 if self._body is None else SELDOM)
            all_of_them = 1 / self.agent.posterior.eigenvalues.cpu()
            some = np.linspace(0, len(all_of_them) - 1, min(len(all_of_them), DOUBTS)).round().astype(int)
            self._seldom = {"eigen": rounded(all_of_them[some], DIGITS + 2)}
        return self._seldom
