"""The cross-entropy method over z: how good the best policy is that a model holds for a task."""

from collections.abc import Callable, Iterator

import torch
from jaxtyping import Float
from torch import Generator, Tensor

Returns = Callable[[Float[Tensor, "K n d"]], Float[Tensor, "K n"]]
Projection = Callable[[Float[Tensor, "*b d"]], Float[Tensor, "*b d"]]


def cross_entropy(
    returns: Returns,
    project: Projection,
    z: Float[Tensor, "K d"],
    rng: Generator,
    *,
    population: int,
    elite: int,
    rounds: int,
    spread: float,
) -> Iterator[tuple[Float[Tensor, "K d"], Float[Tensor, "K d"]]]:
    """The cross-entropy method from ``z``: after each round the best z so far and the mean of the elites, for K tasks.

    A round tries ``population`` z ~ N(mean, spread²), their mean, and the best z so far; mean and spread of the
    ``elite`` best are those of the next round. ``project`` maps to the model's set of z.
    """
    mean, deviation, best = z, torch.full_like(z, spread), z
    for _ in range(rounds):
        noise = torch.randn(len(z), population, z.shape[1], generator=rng, dtype=z.dtype)
        tried = project(mean[:, None] + deviation[:, None] * noise).to(z)
        tried = torch.cat([best[:, None], project(mean).to(z)[:, None], tried], 1)
        top = returns(tried).topk(elite, 1).indices
        kept = tried.gather(1, top[..., None].expand(-1, -1, z.shape[1]))
        mean, deviation, best = kept.mean(1), kept.std(1) + 0.02, kept[:, 0]  # 0.02: the search never stops moving
        yield best, project(mean).to(z)
