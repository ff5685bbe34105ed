"""A prior over tasks: the covariance of z_r over random smooth rewards of the goal features."""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Generator, Tensor

from zscout.base.edge import all_finite, as_finite
from zscout.base.smooth_rewards import random_rewards
from zscout.base.types import BehaviorModel
from zscout.models.sphere import project_sphere

PRIOR_TASKS = 1_024  # random rewards
OBSERVATIONS = 10_000  # used at most
NO_VARIANCE = 1e-6  # relative to the largest variance of φ: directions that vary less are rounding
LEAN = 0.3  # standard deviation of the other slopes of a ramp along one goal feature
ROUGH_SHARE = 0.2  # added to every direction, relative to their mean: rough rewards are possible, too


def task_covariance(
    model: BehaviorModel, observations: Any, goals: Float[Tensor, "n g"] | None = None, *, seed: int = 0
) -> Float[Tensor, "d d"]:
    """Cov(z_r) over random rewards, scaled so that φ·z_r has variance d over the observations.

    A reward is a ramp or a Gaussian bump over some of the ``goals`` (default: the entries of the observations), in
    standard deviations. Such rewards are smooth, so they use few directions of φ: a prior that knows these needs fewer
    rewards to find the task. Return it from ``task_covariance()`` of your own model.
    """
    seen = as_finite(observations, "observations")
    goals = seen.double() if goals is None else as_finite(goals, "goals").double()
    if len(seen) < 2 or len(goals) != len(seen):
        raise ValueError(f"got {len(seen)} observations and {len(goals)} rows of goals: expected 2 or more of each")
    with torch.no_grad():
        phi = model.phi(observations[:OBSERVATIONS]).double()
    return covariance_of_rewards(phi, goals[:OBSERVATIONS], seed)


def covariance_of_rewards(
    phi: Float[Tensor, "n d"], goals: Float[Tensor, "n g"], seed: int = 0
) -> Float[Tensor, "d d"]:
    """The same, from the features and goal features of observations."""
    if not all_finite(phi):
        raise ValueError("φ of these observations holds NaN or inf: run zscout.check_model(model)")
    deviation = goals.std(0, correction=0)
    scaled = ((goals - goals.mean(0)) / torch.where(deviation > 0, deviation, 1.0)).cpu()
    rewards = random_rewards(scaled, PRIOR_TASKS, Generator().manual_seed(seed)).to(phi)
    rewards = rewards - rewards.mean(0)
    rewards = rewards / rewards.std(0, correction=0).clamp(min=1e-9)
    apart = phi - phi.mean(0)
    own = torch.linalg.pinv(apart.mT @ apart / len(phi), hermitian=True, rtol=NO_VARIANCE)  # Cov(φ)⁻¹
    tasks = own @ (apart.mT @ rewards) / len(phi)  # z_r by regression
    covariance = tasks @ tasks.mT
    sizes = (apart @ tasks).square().sum() / len(phi) / len(own)  # of φ·z_r, for each direction
    found: Tensor = (covariance / sizes + ROUGH_SHARE * own) / (1 + ROUGH_SHARE)
    return found + NO_VARIANCE * found.diagonal().mean() * torch.eye(len(found)).to(found)  # where φ does not vary


def random_tasks(
    B: Float[Tensor, "n d"],
    goals: Float[Tensor, "n g"],
    tasks: int,
    rng: Generator,
    ramps: Sequence[int] = (),
    gates: Sequence[int] = (),
) -> Float[Tensor, "tasks d"]:
    """z = E[B r] of random rewards, on the sphere of radius √d; ``B`` is centred, both are of the same observations.

    Half of the rewards are ramps up or down one of the goal features ``ramps``, if there are any. With ``gates`` such
    a reward is the product of what the ramp and each gate are above their means: to move fast while lying is worth
    nothing.
    """
    scaled = (goals - goals.mean(0)) / goals.std(0).clamp(min=1e-6)
    along = tasks // 2 if ramps else 0
    rewards = random_rewards(scaled, tasks - along, rng)
    if along:
        slopes = LEAN * torch.randn(scaled.shape[1], along, generator=rng, dtype=scaled.dtype, device=scaled.device)
        which = torch.randint(2 * len(ramps), (along,), generator=rng, device=scaled.device)
        for place, feature in enumerate(ramps):  # no table of features: a captured graph cannot copy it
            slopes[feature] += (which == 2 * place).to(slopes) - (which == 2 * place + 1).to(slopes)
        sloped = scaled @ slopes
        for feature in gates:
            sloped = sloped.relu() * scaled[:, feature : feature + 1].relu()
        rewards = torch.cat([sloped, rewards], 1)
    return project_sphere(rewards.mT @ B)
