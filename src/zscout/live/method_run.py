"""One method in the world: its steps, and what the page shows of it."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from zscout.lab.grid_viewer import end_of_way
from zscout.lab.simulation import TaskRuns, followed
from zscout.lab.trace_file import TracedRun
from zscout.lab.viewer import mode_of
from zscout.live.explanation import Explanation, LiveMode, place_of
from zscout.live.hidden_reward import HiddenReward
from zscout.live.setup import Setup
from zscout.transfer.agent import OnlineTransfer
from zscout.transfer.rollout import Belief, Step, Walk
from zscout.transfer.rollout_searches import RolloutSearch
from zscout.transfer.search import AnyZ, AtEstimate, PosteriorDraw

DIGITS = 4  # of numbers sent to the page


@dataclass(eq=False)
class RecordedStep:
    """The step from S_t to S_{t+1}; its reward may follow later."""

    state: int  # S_t
    action: int  # A_t
    entered: int  # S_{t+1}
    z: Float[Tensor, " d"]  # Z_t; while an explorer acts, the z it would keep
    belief: Belief  # at S_t
    asks: bool  # whether the agent wants a reward there
    reward: float | None = None  # R_{t+1}


class _SingleRun:
    """The laboratory's environment for one run, with plain numbers: same seed, same start and same noise."""

    def __init__(self, runs: TaskRuns) -> None:
        self._runs = runs

    def reset(self, *, seed: int | None = None) -> tuple[int, dict[str, Any]]:
        return int(self._runs.reset()[0]), {}

    def step(self, action: Any) -> tuple[int, float, bool, bool, dict[str, Any]]:
        state, reward, *_ = self._runs.step([int(action)])
        return int(state), float(reward), False, False, {}


class MethodRun:
    """An agent and every step that it took. ``reward`` [1 S] and ``noise`` [1] may be changed in place."""

    def __init__(
        self, setup: Setup, name: str, reward: Float[Tensor, "1 S"], noise: Float[Tensor, " 1"], asking: bool
    ) -> None:
        self.name, self._ground, self._asking = name, setup.ground, asking
        method = setup.build(name)
        self.agent = OnlineTransfer(self._ground.model, method, seed=setup.seed)
        self._weighs = not isinstance(method.search, AtEstimate | AnyZ | PosteriorDraw | RolloutSearch)
        runs = TaskRuns(self._ground.world, reward, noise, self.agent.seeds.reshape(1))
        self._walk = Walk(self.agent, _SingleRun(runs), beliefs=True)
        self.steps: list[RecordedStep] = []
        self.untold: Step | None = None  # the last step, until the agent is told its reward
        self._features, self._cells = self._ground.exact.features.cpu(), self._ground.world.cells.tolist()
        self._settled = self.agent.best_z, self._policies(self.agent.best_z)[0]  # what it would do without learning on
        self._mode: LiveMode = "begins"
        self._target: int | None = None  # where π(·,Z_t) leads
        self._regret: float | None = None  # of the last step
        self._lost = 0.0  # regret so far, in steps of random walking
        self._worth: float | None = None  # of the policy it would keep

    def move(self) -> None:
        """Choose an action and take it; the reward of the last step must have been told."""
        step = self._walk.move()
        assert step.belief is not None
        asks = self._asking and bool(self.agent.wants_reward(step.next_obs))
        action = int(step.action)
        self.steps.append(RecordedStep(step.obs, action, step.next_obs, followed(step), step.belief, asks))
        self.untold = step

    def tell(self, reward: float | None) -> None:
        """Tell the agent the reward of its last step, or that there is none."""
        assert self.untold is not None
        self._walk.tell(self.untold, reward)
        self.steps[-1].reward, self.untold = reward, None

    def tell_late(self, steps_ago: int, reward: float) -> None:
        """Tell the agent the reward of an earlier step that had none."""
        step = self.steps[-1 - steps_ago]
        self.agent.learn([step.entered], [reward])
        step.reward = reward

    def assess(self, hidden: HiddenReward | None) -> None:
        """Find where the last step leads, its regret, and the worth of the policy it would keep now."""
        (settled_z, settled), best_z = self._settled, self.agent.best_z
        if not self.steps:
            self._worth = None if hidden is None else hidden.worth(hidden.values(settled[None])[0])
            return
        last = self.steps[-1]
        before = settled if torch.equal(settled_z, last.belief.best_z) else self._policies(last.belief.best_z)[0]
        policies = self._policies(last.z, best_z)
        self._settled = best_z, policies[1]
        wanted, wanted_settled = (self._features @ torch.stack([last.z, last.belief.best_z]).cpu().T).T.tolist()
        cycle = self._cycle(policies[0], last.state)
        self._target = None if last.belief.exploring else max(cycle, key=wanted.__getitem__)
        settled_target = max(self._cycle(before, last.state), key=wanted_settled.__getitem__)
        self._mode = mode_of(self._target, settled_target, last.entered)
        if self._mode == "goes" and last.entered in cycle:  # it moves between a few places and is at one of them
            self._mode = "stays"
        if hidden is not None:
            value, settled_value = hidden.values(policies)
            # v*(S_t) − v of π(·,Z_t) there  (eq. 2); for an explorer's step, v of a random walk.
            achieved = hidden.random if last.belief.exploring else value
            self._regret = float((hidden.best - achieved)[last.state])
            self._lost += 0.0 if hidden.flat else self._regret / hidden.gap
            self._worth = hidden.worth(settled_value)

    def frame(self, hidden: HiddenReward | None) -> dict[str, Any]:
        """What the page draws after the last step."""
        last = self.steps[-1] if self.steps else None
        posterior, features = self.agent.posterior, self._ground.exact.features
        estimate, doubt = posterior.reward(features).cpu(), posterior.reward_width(features).cpu()
        goal = None if last is None or last.belief.exploring else self._features @ last.z.cpu()
        rewards = [step.reward for step in self.steps if step.reward is not None]
        return {
            "at": int(self._walk.obs) if last is None else last.entered,
            "from": None if last is None else last.state,
            "action": None if last is None else last.action,
            "reward": None if last is None else last.reward,
            "told": len(rewards),
            "asks": last is not None and last.asks,
            "mode": self._mode,
            "heading": self._target,
            "says": self._explain(estimate, doubt, rewards, hidden).sentence,
            "estimate": _rounded(estimate),
            "best": int(estimate.argmax()),
            "doubt": _rounded(doubt),
            "after": None if goal is None else _rounded(goal / goal.abs().max().clamp(min=1e-12)),
            "eigen": _rounded(1 / posterior.eigenvalues.cpu(), DIGITS + 2),
            "regret": _rounded(self._regret),
            "lost": None if hidden is None else _rounded(self._lost),
            "worth": _rounded(self._worth),
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

    def _policies(self, *z: Float[Tensor, " d"]) -> Int[Tensor, "n S"]:
        return self._ground.yardstick.policy(torch.stack(z).cpu())

    def _cycle(self, policy: Int[Tensor, " S"], state: int) -> list[int]:
        return end_of_way(self._ground.world.next_state.gather(1, policy[:, None])[:, 0].tolist(), state)

    def _explain(
        self,
        estimate: Float[Tensor, " S"],
        doubt: Float[Tensor, " S"],
        rewards: list[float],
        hidden: HiddenReward | None,
    ) -> Explanation:
        # A method that tries rollouts may be back at its start.
        at = self.steps[-1].entered if self.untold else int(self._walk.obs)
        target = at if self._target is None else self._target
        place, here = (place_of(self._cells[state], self._ground.world.shape) for state in (target, at))
        radius = float(self.steps[-1].belief.radius) if self.steps else 0.0
        largest = max(map(abs, rewards), default=0.0)
        return Explanation(
            mode=self._mode,
            place=place,
            there=self._mode == "stays" or (self._mode == "tries" and place == here),
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
