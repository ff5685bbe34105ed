"""Optimal policies for φ·z, for many z at once, cached."""

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from zscout.models.exact.planning import EPS, Dynamics, optimal_policies, values_of

REMEMBERED = 2**23  # bytes of cached policies
SMALLEST_BATCH = 16  # fewest z solved together: sweeps copy rows of them
CHUNK = 2**16  # numbers per step of a computation: fits a core's cache
TURN = threading.Lock()  # guards the caches; global, so that models can be copied


class Solver:
    """π* of many z, and values of given policies."""

    def __init__(self, dynamics: Dynamics, features: Float[Tensor, "S d"], gamma: float) -> None:
        self._dynamics, self._features, self._gamma = dynamics, features, gamma
        self.solved = Solved(len(features), dynamics.small, features.device)

    def policy(self, z: Float[Tensor, "m d"]) -> Int[Tensor, "m S"]:
        """π*, in a small dtype."""
        return self.solved.recall(z, self._solve)

    def worth(self, policy: Int[Tensor, "m S"], z: Float[Tensor, "m d"]) -> Float[Tensor, "m S"]:
        """v_π(s) of each policy for its z."""
        parts = []
        for part, task in zip(*(chunks(rows, len(self._features)) for rows in (policy, z)), strict=True):
            reward = self._rewards(task)
            v = values_of(self._dynamics, part, reward.shape.T, self._gamma)
            parts.append((v * reward.span[:, None] + (reward.low / (1 - self._gamma))[:, None]) * reward.size[:, None])
        return torch.cat(parts)

    def _solve(self, z: Float[Tensor, "m d"]) -> Int[Tensor, "m S"]:
        rewards = (self._rewards(part) for part in chunks(z, len(self._features), SMALLEST_BATCH))
        return torch.cat([optimal_policies(self._dynamics, r.shape, self._gamma, r.error).T for r in rewards])

    def _rewards(self, z: Float[Tensor, "m d"]) -> "_Rewards":
        size = z.abs().amax(1).clamp(min=1e-300)
        reward = self._features @ (z.T / size)
        low, high = torch.aminmax(reward, dim=0)
        error = 8 * EPS * (self._features.abs() @ (z.T / size).abs()).amax(0)  # rounding error of the products φ·z
        flat = high - low <= error  # states differ only by rounding
        span = torch.where(flat, 1, high - low)
        return _Rewards(torch.where(flat, 0, (reward - low) / span), error / span, span, low, size)


@dataclass(frozen=True, eq=False)
class _Rewards:
    """φ·z of m tasks as (low + span·shape)·size: offset and scale do not change the optimal policy."""

    shape: Float[Tensor, "S m"]  # from 0 to 1
    error: Float[Tensor, " m"]  # rounding error of shape
    span: Float[Tensor, " m"]
    low: Float[Tensor, " m"]
    size: Float[Tensor, " m"]


class Solved:
    """Cached policies, by the bits of z; cleared when full."""

    def __init__(self, n_states: int, dtype: torch.dtype, device: torch.device) -> None:
        self._most = max(1, REMEMBERED // (n_states * dtype.itemsize))
        with torch.inference_mode(False):  # the cache may be used outside inference mode
            self._policies = torch.empty(0, n_states, dtype=dtype, device=device)
        self._place: dict[bytes, int] = {}

    def recall(
        self, rows: Float[Tensor, "m d"], solve: Callable[[Float[Tensor, "m d"]], Int[Tensor, "m S"]]
    ) -> Int[Tensor, "m S"]:
        """The policy of each row; unknown rows are solved together, each once."""
        keys = bits(rows)
        with TURN:
            places = [self._place.get(key, -1) for key in keys]
            where = torch.tensor(places, dtype=torch.long, device=rows.device).clamp(min=0)
            known = self._policies if self._place else self._policies.new_empty(1, self._policies.shape[1])
            policies = known.index_select(0, where)
        if -1 in places:
            unknown = [i for i, place in enumerate(places) if place < 0]
            first, whose = distinct([keys[i] for i in unknown])
            solved = solve(rows[[unknown[i] for i in first]])
            policies[unknown] = solved[whose]
            with TURN:
                self._keep({keys[unknown[i]]: n for n, i in enumerate(first)}, solved)
        return policies

    def _keep(self, number: dict[bytes, int], policies: Int[Tensor, "m S"]) -> None:
        """Cache the policies that no other thread cached meanwhile, if they fit."""
        new = {key: n for key, n in number.items() if key not in self._place}
        if len(self._place) + len(new) > self._most:
            self._place, new = {}, number
        if not 0 < len(new) <= self._most:
            return
        begin, end = len(self._place), len(self._place) + len(new)
        if end > len(self._policies):
            with torch.inference_mode(False):
                room = self._policies.new_empty(min(self._most, 2 * end), self._policies.shape[1])
                room[:begin] = self._policies[:begin]
                self._policies = room
        self._policies[begin:end] = policies[list(new.values())]
        self._place |= {key: begin + i for i, key in enumerate(new)}

    def forget(self) -> None:
        """Clear the cache."""
        with TURN:
            self._place = {}

    def __getstate__(self) -> dict[str, object]:
        """A pickled copy starts with an empty cache."""
        return {**vars(self), "_policies": self._policies[:0].clone(), "_place": {}}


def distinct(keys: Sequence[bytes]) -> tuple[list[int], list[int]]:
    """The first position of each distinct key, and for each key the index of its distinct key."""
    number: dict[bytes, int] = {}
    whose = [number.setdefault(key, len(number)) for key in keys]
    first = dict(zip(reversed(whose), reversed(range(len(keys))), strict=True))
    return [first[n] for n in range(len(number))], whose


def bits(rows: Float[Tensor, "m d"]) -> list[bytes]:
    """Each row as bytes, to compare rows exactly."""
    return [row.tobytes() for row in rows.cpu().numpy()]


def chunks(rows: Tensor, numbers_a_row: int, least: int = 1) -> Iterator[Tensor]:
    """Split rows into parts that fit the cache; at least one part, to keep the shape."""
    return iter(rows.split(max(least, CHUNK // numbers_a_row))) if len(rows) else iter([rows])
