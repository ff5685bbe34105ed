"""A walk on which a person can pause the agent and show a behaviour instead."""

from typing import Any

import numpy as np
from jaxtyping import Float
from torch import Tensor

from zscout.base.edge import in_range
from zscout.loop.rollout import Belief, Environment, Step, Walk
from zscout.transfer.agent import OnlineTransfer
from zscout.transfer.inputs import Flags, Rewards

LARGEST_Z = 1e3  # of an entry of z: far beyond any z of a model, and safe in single precision


class ShownWalk(Walk):
    """While ``z`` is set, π(·,z) acts. The agent chooses nothing and its time stands still, but rewards still count."""

    agent: OnlineTransfer

    def __init__(self, agent: OnlineTransfer, env: Environment, seed: int | None = None) -> None:
        super().__init__(agent, env, seed, beliefs=True)
        self.z: Float[Tensor, " d"] | None = None

    def move(self) -> Step:
        """One step, of the agent or of the shown behaviour."""
        if self.z is None:
            return super().move()
        agent = self.agent
        belief = Belief(exploring=False, radius=agent.radius, z_hat=agent.z_hat, best_z=agent.best_z)
        action = agent.bfm.act(self.obs, self.z)
        entered, reward, terminated, truncated, _ = self.env.step(action)
        flags = terminated, truncated, self._episode
        return Step(self._t, self.obs, action, entered, reward, *flags, z=self.z, belief=belief)

    def tell(self, step: Step, reward: Rewards | None, seen: Flags | None = None) -> None:
        """The reward of a step; the agent learns from it in both cases."""
        if self.z is None:
            super().tell(step, reward, seen)
            return
        if reward is not None:
            self.agent.learn(np.asarray([step.next_obs]), [reward])
        self.obs, self._t = step.next_obs, self._t + 1
        if step.terminated or step.truncated:
            self.obs, _ = self.env.reset(seed=None)
            self._episode += 1


def behaviour_in(z: Any, agent: OnlineTransfer) -> Float[Tensor, " d"]:
    """A z from outside, projected to the model's Z."""
    dim = agent.bfm.dim
    if not isinstance(z, list) or len(z) != dim:
        raise ValueError(f"z must be a list of {dim} numbers")
    numbers = [in_range(entry, "an entry of z", -LARGEST_Z, LARGEST_Z) for entry in z]
    like = agent.best_z
    return agent.bfm.project_z(like.new_tensor(numbers)).to(like)
