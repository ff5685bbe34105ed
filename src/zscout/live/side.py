"""One method at work in the world: it moves, it hears a reward, and what it thinks can be shown."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from zscout.edge import as_index
from zscout.lab.ground import Ground
from zscout.lab.simulation import WORLD, followed
from zscout.lab.trace_file import TracedRun
from zscout.lab.viewer import end_of_way, mode_of
from zscout.live.truth import Truth
from zscout.live.words import Doing, Thought, place_of, sentence
from zscout.randomness import Streams
from zscout.transfer.agent import OnlineTransfer
from zscout.transfer.methods import Method
from zscout.transfer.rollout import Belief, Step, Walk
from zscout.transfer.rollout_searches import RolloutSearch
from zscout.transfer.search import AnyZ, AtEstimate, PosteriorDraw
from zscout.worlds import GridWorld

DIGITS = 4  # of numbers that are drawn
LEAST_KNOWN = 0.9  # a place as unknown as this share of the most unknown one's


@dataclass(eq=False)
class ShownStep:
    """A step of the run, and what is found out about it later."""

    step: Step
    asks: bool  # whether a reward would teach
    reward: float | None = None  # R_{t+1}, once it was given
    regret: float | None = None  # where there is a truth
    judged: bool = False  # whether its regret and goal were computed

    @property
    def state(self) -> int:
        """S_t."""
        return int(self.step.obs)

    @property
    def entered(self) -> int:
        """S_{t+1}."""
        return int(self.step.next_obs)

    @property
    def action(self) -> int:
        """A_t."""
        return int(self.step.action)

    @property
    def belief(self) -> Belief:
        """What the agent knew at S_t."""
        assert self.step.belief is not None
        return self.step.belief

    @property
    def z(self) -> Float[Tensor, " d"]:
        """Z_t; while an explorer acts, the z that would be kept."""
        return followed(self.step)


class _OneRun:
    """The world of one run; its reward is given after the step, by a person or a painting."""

    def __init__(self, world: GridWorld, seeds: Int[Tensor, ""]) -> None:
        # The same draws as in the laboratory's runs: a run can be repeated there from its seed.
        self._world, self._start = world, int(Streams(seeds, WORLD).uniform() * world.n_states)
        self._state = self._start

    def reset(self, *, seed: int | None = None) -> tuple[int, dict[str, Any]]:
        self._state = self._start
        return self._state, {}

    def step(self, action: Any) -> tuple[int, None, bool, bool, dict[str, Any]]:
        move = int(as_index(action, self._world.n_actions, "action"))
        self._state = int(self._world.step(self._state, move))
        return self._state, None, False, False, {}


class Side:
    """An agent, where it is, and every step that it took."""

    def __init__(self, ground: Ground, name: str, method: Method, seed: int) -> None:
        self.name = name
        self.agent = OnlineTransfer(ground.model, method, seed=seed)
        self.steps: list[ShownStep] = []
        self.told = 0
        self.lost = 0.0  # steps
        self._largest = 0.0  # of the rewards it heard, whatever the sign
        self._weighs = not isinstance(method.search, AtEstimate | AnyZ | PosteriorDraw | RolloutSearch)
        self.untold = False  # whether what came of the last step is still to be told
        self._ground = ground
        self._walk = Walk(self.agent, _OneRun(ground.world, self.agent.seeds), beliefs=True)
        self._features = ground.exact.features.cpu()
        best_z = self.agent.best_z
        self._settled = best_z, self._policies(best_z)[0]  # what it would do with no more to learn
        self._goes_to: int | None = None
        self._doing: Doing = "begins"

    @property
    def at(self) -> int:
        """Where the agent is; a method that asked for it is back at its start."""
        return self.steps[-1].entered if self.untold else int(self._walk.obs)

    def noise(self) -> float:
        """The noise of the last step's reward, for σ = 1."""
        return float(Streams(self.agent.seeds, WORLD + len(self.steps)).normal())

    def move(self, asking: bool) -> None:
        """Choose, act, and be where that leads; what came of the step before must have been told.

        With ``asking`` it is also looked at whether a reward would teach something there.
        """
        step = self._walk.move()
        asks = asking and bool(self.agent.wants_reward(step.next_obs))
        self.steps.append(ShownStep(step, asks))
        self.untold = True

    def hear(self, reward: float | None) -> None:
        """What came of the last step."""
        step = self.steps[-1]
        self._walk.tell(step.step, reward)
        step.reward, self.untold = reward, False
        self._heard(reward)

    def hear_late(self, steps_ago: int, reward: float) -> None:
        """What came of an earlier step, of which nothing was told."""
        step = self.steps[-1 - steps_ago]
        self.agent.learn([step.entered], [reward])
        step.reward = reward
        self._heard(reward)

    def _heard(self, reward: float | None) -> None:
        if reward is not None:
            self.told += 1
            self._largest = max(self._largest, abs(reward))

    def show(self, truth: Truth | None) -> dict[str, Any]:
        """What is drawn of it now."""
        last = self.steps[-1] if self.steps else None
        worth = self._judge(last, truth)
        agent, features = self.agent, self._features
        posterior, states = agent.posterior, self._ground.exact.features
        estimate, doubt = posterior.reward(states).cpu(), posterior.reward_width(states).cpu()
        after = None if last is None or last.belief.exploring else features @ last.z.cpu()
        return {
            "at": self.at if last is None else last.entered,
            "from": None if last is None else last.state,
            "action": None if last is None else last.action,
            "reward": None if last is None else last.reward,
            "told": self.told,
            "asks": last is not None and last.asks,
            "mode": self._doing,
            "heading": self._goes_to,
            "says": sentence(self._thought(estimate, doubt, self._limit(truth))),
            "estimate": _numbers(estimate),
            "best": int(estimate.argmax()),
            "doubt": _numbers(doubt),
            "after": None if after is None else _numbers(after / after.abs().max().clamp(min=1e-12)),
            "eigen": _numbers(1 / posterior.eigenvalues.cpu(), DIGITS + 2),
            "regret": None if last is None else _rounded(last.regret),
            "lost": None if truth is None else _rounded(self.lost),
            "worth": _rounded(worth),
        }

    def traced(self) -> TracedRun:
        """Every step, as the laboratory reads it."""
        steps, beliefs = self.steps, [step.belief for step in self.steps]
        return TracedRun(
            method=self.name,
            **{name: [getattr(step, name) for step in steps] for name in ("state", "action", "entered", "reward")},
            exploring=[belief.exploring for belief in beliefs],
            radius=[float(belief.radius) for belief in beliefs],
            z=[step.z.tolist() for step in steps],
            z_hat=[belief.z_hat.tolist() for belief in beliefs],
            best_z=[belief.best_z.tolist() for belief in beliefs],
            final_z=self.agent.best_z.tolist(),
            final_z_hat=self.agent.z_hat.tolist(),
            intercept=self.agent.method.intercept,
        )

    def _judge(self, last: ShownStep | None, truth: Truth | None) -> float | None:
        """What the last step was, beside what would have been settled for, and what that is worth now."""
        (best_z, settled), now = self._settled, self.agent.best_z
        if last is None:
            return None if truth is None else truth.worth(truth.values(settled[None])[0])
        if last.judged:  # shown again with its reward: what it was has not changed
            return None
        last.judged = True
        before = settled if torch.equal(best_z, last.belief.best_z) else self._policies(last.belief.best_z)[0]
        policies = self._policies(last.z, now)  # one look for both
        self._settled = now, policies[1]
        worth, worth_settled = (self._features @ torch.stack([last.z, last.belief.best_z]).cpu().T).T.tolist()
        leads = self._end(policies[0], last.state)
        self._goes_to = None if last.belief.exploring else max(leads, key=worth.__getitem__)
        self._doing = mode_of(
            self._goes_to, max(self._end(before, last.state), key=worth_settled.__getitem__), last.entered
        )
        if self._doing == "goes" and last.entered in leads:  # it paces between a few places and is there already
            self._doing = "stays"
        if truth is None:
            return None
        followed, settled = truth.values(policies)
        # v*(S_t) − v of π(·,Z_t) there  (eq. 2); of an explorer's step, v of a random walk.
        last.regret = float((truth.best - (truth.random if last.belief.exploring else followed))[last.state])
        self.lost += 0.0 if truth.flat else last.regret / truth.gap
        return truth.worth(settled)

    def _policies(self, *z: Float[Tensor, " d"]) -> Int[Tensor, "n S"]:
        return self._ground.yardstick.policy(torch.stack(z).cpu())

    def _end(self, policy: Int[Tensor, " S"], state: int) -> list[int]:
        return end_of_way(self._ground.world.next_state.gather(1, policy[:, None])[:, 0].tolist(), state)

    def _limit(self, truth: Truth | None) -> float:
        """The largest reward there can be: 1 by the page's brush and buttons, more where more was painted or given."""
        return max(1.0, self._largest if truth is None else float(truth.table.abs().max()))

    def _thought(self, estimate: Float[Tensor, " S"], doubt: Float[Tensor, " S"], limit: float) -> Thought:
        goal = self.at if self._goes_to is None else self._goes_to
        radius = float(self.steps[-1].belief.radius) if self.steps else 0.0
        return Thought(
            doing=self._doing,
            place=self._place(goal),
            there=self._doing == "stays" or (self._doing == "tries" and self._place(goal) == self._place(self.at)),
            expected=float(estimate[goal]),
            best=float(estimate.max()),
            possible=float(estimate[goal]) + radius * float(doubt[goal]),
            least_known=bool(doubt[goal] >= LEAST_KNOWN * doubt.max()),
            weighs=self._weighs,
            told=self.told,
            largest=self._largest,
            limit=limit,
        )

    def _place(self, state: int) -> str:
        row, column = self._ground.world.cells[state].tolist()
        return place_of((row, column), self._ground.world.shape)


def _numbers(values: Tensor, digits: int = DIGITS) -> list[float]:
    numbers: list[float] = np.round(values.numpy(), digits).tolist()
    return numbers


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, DIGITS)
