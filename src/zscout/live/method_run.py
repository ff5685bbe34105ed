"""One method in the world: its steps, and what the page shows of it."""

from typing import Any

import numpy as np
from jaxtyping import Float
from torch import Tensor

from zscout.lab.simulation import followed
from zscout.lab.trace_file import TracedRun
from zscout.live.explanation import Explanation, place_of
from zscout.live.live_world import Hidden, RecordedStep
from zscout.live.setup import Setup
from zscout.transfer.agent import OnlineTransfer
from zscout.transfer.rollout import Step, Walk
from zscout.transfer.rollout_searches import RolloutSearch
from zscout.transfer.search import AnyZ, AtEstimate, PosteriorDraw

DIGITS = 4  # of numbers sent to the page


class MethodRun:
    """An agent and every step that it took. ``reward`` [1 n] and ``noise`` [1] may be changed in place."""

    def __init__(
        self, setup: Setup, name: str, reward: Float[Tensor, "1 n"], noise: Float[Tensor, " 1"], asking: bool
    ) -> None:
        self.name, self._world, self._asking = name, setup.live_world, asking
        method = setup.build(name)
        self.agent = OnlineTransfer(self._world.model, method, seed=setup.seed)
        self._weighs = not isinstance(method.search, AtEstimate | AnyZ | PosteriorDraw | RolloutSearch)
        env = self._world.environment(reward, noise, self.agent.seeds.reshape(1))
        self._walk = Walk(self.agent, env, seed=0, beliefs=True)  # the agent's own resets lead to its first start
        self.steps: list[RecordedStep] = []
        self.untold: Step | None = None  # the last step, until the agent is told its reward
        self._features = self._world.features.cpu()
        self._judge = self._world.judge(self.agent.best_z)

    def move(self) -> None:
        """Choose an action and take it; the reward of the last step must have been told."""
        step = self._walk.move()
        assert step.belief is not None
        asks = self._asking and bool(self.agent.wants_reward(step.next_obs))
        action, z = np.asarray(step.action).tolist(), followed(step)
        self.steps.append(RecordedStep(step.obs, action, step.next_obs, z, step.belief, step.episode, asks))
        self.untold = step

    def tell(self, reward: float | None) -> None:
        """Tell the agent the reward of its last step, or that there is none."""
        assert self.untold is not None
        self._walk.tell(self.untold, reward)
        self.steps[-1].reward, self.untold = reward, None

    def tell_late(self, steps_ago: int, reward: float) -> None:
        """Tell the agent the reward of an earlier step that had none."""
        step = self.steps[-1 - steps_ago]
        self.agent.learn(np.asarray([step.entered]), [reward])
        step.reward = reward

    def assess(self, hidden: Hidden | None) -> None:
        """Judge the last step."""
        self._judge.assess(self.steps, self.agent.best_z, hidden)

    def frame(self, hidden: Hidden | None) -> dict[str, Any]:
        """What the page draws after the last step."""
        last = self.steps[-1] if self.steps else None
        posterior, features, place = self.agent.posterior, self._world.features, self._world.place
        estimate, doubt = posterior.reward(features).cpu(), posterior.reward_width(features).cpu()
        goal = None if last is None or last.belief.exploring else self._features @ last.z.cpu()
        rewards = [step.reward for step in self.steps if step.reward is not None]
        return {
            "at": place(self._walk.obs if last is None else last.entered),
            "from": None if last is None else place(last.state),
            "action": None if last is None else last.action,
            "reward": None if last is None else last.reward,
            "told": len(rewards),
            "asks": last is not None and last.asks,
            "mode": self._judge.mode,
            "heading": self._judge.target,
            "says": self._explain(estimate, doubt, rewards, hidden).sentence,
            "estimate": _rounded(estimate),
            "best": int(estimate.argmax()),
            "doubt": _rounded(doubt),
            "after": None if goal is None else _rounded(goal / goal.abs().max().clamp(min=1e-12)),
            "eigen": _rounded(1 / posterior.eigenvalues.cpu(), DIGITS + 2),
            **{name: _rounded(x) for name, x in self._judge.shown(self.steps, self._walk.obs, hidden).items()},
        }

    def traced(self) -> TracedRun:
        """Every step, as ``zscout compare --traces`` reads it."""
        steps, of_belief = self.steps, ("radius", "z_hat", "best_z")
        return TracedRun(
            method=self.name,
            **{name: [getattr(step, name) for step in steps] for name in ("state", "action", "entered", "reward")},
            **{name: [getattr(step.belief, name).tolist() for step in steps] for name in of_belief},
            exploring=[step.belief.exploring for step in steps],
            z=[step.z.tolist() for step in steps],
            final_z=self.agent.best_z.tolist(),
            final_z_hat=self.agent.z_hat.tolist(),
            intercept=self.agent.method.intercept,
        )

    def _explain(
        self,
        estimate: Float[Tensor, " S"],
        doubt: Float[Tensor, " S"],
        rewards: list[float],
        hidden: Hidden | None,
    ) -> Explanation:
        # A method that tries rollouts may be back at its start.
        world, judge = self._world, self._judge
        at = world.place(self.steps[-1].entered if self.untold else self._walk.obs)
        target = at if judge.target is None else judge.target
        place, here = (place_of(world.places[index], world.shape) for index in (target, at))
        radius = float(self.steps[-1].belief.radius) if self.steps else 0.0
        largest = max(map(abs, rewards), default=0.0)
        return Explanation(
            mode=judge.mode,
            place=place,
            there=judge.mode == "stays" or (judge.mode == "tries" and place == here),
            expected=float(estimate[target]),
            best=float(estimate.max()),
            possible=float(estimate[target]) + radius * float(doubt[target]),
            least_known=bool(doubt[target] >= 0.9 * doubt.max()),
            weighs=self._weighs,
            told=len(rewards),
            largest=largest,
            # The page's brush and buttons give at most 1; links and messages can give more.
            limit=max(1.0, largest if hidden is None else float(hidden.table.abs().max())),
        )


def _rounded(values: Tensor | float | None, digits: int = DIGITS) -> Any:
    return None if values is None else np.round(np.asarray(values), digits).tolist()
