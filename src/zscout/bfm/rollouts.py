"""Pairs of rollouts of a model's policy from the same start, in a Gymnasium environment."""

import contextlib
import math
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Discrete
from jaxtyping import Bool, Float, Int
from torch import Generator, Tensor

from zscout.edge import check_array_space
from zscout.types import BehaviorModel

LEFT = 0.1  # γᴸ, the weight of the model's own ψ after L steps: at most this share of an error is hidden
FEWEST, MOST = 16, 250  # pairs
ALIKE = 4  # after this many pairs of equal rollouts, assume determinism and run one rollout per pair
SHORTEST = 20  # steps of a rollout: also detects a γ that is too small


@dataclass(frozen=True, eq=False)
class Rollout:
    """φ and ψ(·;z) of s_0 … s_m along one rollout; at most L steps are summed.

    After termination features are 0: L = m. A truncated rollout (by the environment, or because it is long enough)
    bootstraps with ψ(s_L;z), L = m − 1: one state beyond s_L is kept, to detect a ψ that begins too late.
    """

    phi: Float[Tensor, "m d"]
    psi: Float[Tensor, "m d"]  # of the model
    terminated: bool

    @property
    def length(self) -> int:
        """L, the steps that are summed."""
        return len(self.phi) - (1 if self.terminated else 2)


@dataclass(frozen=True, eq=False)
class Pairs:
    """ψ(s_0;z) and two independent rollouts G, G′ of π(·|·,z) from each of many s_0, padded with zeros.

    (ψ − G)·(ψ − G′) has mean ‖ψ − E G‖², because the noise of the two rollouts is independent.
    """

    phi: Float[Tensor, "2 pairs m d"]
    psi: Float[Tensor, "2 pairs m d"]
    length: Int[Tensor, "2 pairs"]
    terminated: Bool[Tensor, "2 pairs"]

    @classmethod
    def of(cls, pairs: list[tuple[Rollout, Rollout]]) -> "Pairs":
        """Stack pairs into one batch."""
        columns = list(zip(*pairs, strict=True))
        longest = max(len(rollout.phi) for column in columns for rollout in column)

        def padded(which: str) -> Tensor:
            rows = [[getattr(rollout, which) for rollout in column] for column in columns]
            pads = [[torch.nn.functional.pad(row, (0, 0, 0, longest - len(row))) for row in column] for column in rows]
            return torch.stack([torch.stack(column) for column in pads])

        length = torch.tensor([[rollout.length for rollout in column] for column in columns])
        terminated = torch.tensor([[rollout.terminated for rollout in column] for column in columns])
        return cls(padded("phi"), padded("psi"), length, terminated)

    def discounted(self, gamma: float, begins: int, scale: float, most: int | None) -> Float[Tensor, "2 pairs d"]:
        """Σ_{k<n} γᵏ φ(s_{k+begins}) · scale + γⁿ ψ(s_n;z), with n = min(L, ``most``)."""
        n = self.length if most is None else self.length.clamp(max=most)
        met = self.phi[:, :, begins : begins + int(n.max())]
        k = torch.arange(met.shape[2])
        weights = torch.where(k < n[..., None], gamma ** k.double(), 0.0)
        goes_on = ~self.terminated | (n < self.length)
        tail = self.psi.gather(2, n[..., None, None].expand(-1, -1, 1, self.psi.shape[-1]))[:, :, 0]
        return scale * torch.einsum("rpk,rpkd->rpd", weights, met) + (goes_on * gamma ** n.double())[..., None] * tail


def horizon(gamma: float) -> int:
    """The L with γᴸ = .1, at least ``SHORTEST``."""
    return max(math.ceil(math.log(LEFT) / math.log(gamma)) if LEFT < gamma < 1 else 1, SHORTEST)


def rollout_pairs(model: BehaviorModel, env: "gymnasium.Env[Any, Any]", length: int, steps: int, seed: int) -> Pairs:
    """Run pairs of rollouts with at most ``steps`` steps in total; each pair has its own z and start.

    Every other start is some steps after the reset. Rollouts have ``length`` steps, or fewer to fit enough pairs.
    """
    # A pair takes 2 · (length + 1) steps and, every second time, up to 2 · length/4 to reach its start.
    length = min(length, steps // (2 * FEWEST + FEWEST // 2) - 2)
    z = model.sample_z(2 * MOST, Generator().manual_seed(seed))
    draws = np.random.default_rng(seed)
    pairs: list[tuple[Rollout, Rollout]] = []
    counted = _Counted(env)
    twice = True
    while len(pairs) < MOST and counted.steps + (2 if twice else 1) * (length + 2 + length // 4) <= steps:
        i = len(pairs)
        walk = int(draws.integers(1, length // 4 + 2)) if i % 2 else 0
        start = _Start(int(draws.integers(2**31)), walk, z[MOST + i])
        pairs.append(_pair(model, counted, start, z[i], length, draws, twice))
        twice = twice and not (len(pairs) == ALIKE and all(map(_alike, pairs)))
    return Pairs.of(pairs)


@dataclass(frozen=True, eq=False)
class _Start:
    """How to reach a start: reset with ``seed``, then take ``walk`` steps with ``z``."""

    seed: int
    walk: int
    z: Float[Tensor, " d"]


class _Counted:
    """An environment that counts its steps."""

    def __init__(self, env: "gymnasium.Env[Any, Any]") -> None:
        self.env, self.steps = env, 0

    def step(self, action: Any) -> tuple[Any, bool, bool]:
        obs, _, terminated, truncated, _ = self.env.step(action)
        self.steps += 1
        return np.array(obs)[()], bool(terminated), bool(truncated)  # copy: environments may reuse their buffers


def _pair(
    model: BehaviorModel,
    env: _Counted,
    start: _Start,
    z: Float[Tensor, " d"],
    length: int,
    draws: np.random.Generator,
    twice: bool,
) -> tuple[Rollout, Rollout]:
    obs = _walked(model, env, start)
    if obs is None:  # the episode ended before the start
        start = _Start(start.seed, 0, start.z)
        obs = _walked(model, env, start)
    first = _rollout(model, env, obs, z, length, draws)
    if not twice:
        return first, first
    again = _walked(model, env, start)
    if again is None or not np.allclose(obs, again, rtol=1e-5, atol=1e-8):
        raise ValueError(
            "check_model: two resets with the same seed and the same actions gave different observations: the check "
            "needs a reproducible environment"
        )
    second = _rollout(model, env, again, z, length, draws)
    return first, second


def _walked(model: BehaviorModel, env: _Counted, start: _Start) -> Any:
    """The observation at the start; None if the episode ended before it."""
    obs, _ = env.env.reset(seed=start.seed)
    obs = np.array(obs)[()]
    rng = Generator().manual_seed(start.seed)
    for _ in range(start.walk):
        obs, terminated, truncated = env.step(model.act(obs, start.z, rng))
        if terminated or truncated:
            return None
    return obs


def _rollout(
    model: BehaviorModel, env: _Counted, obs: Any, z: Float[Tensor, " d"], length: int, draws: np.random.Generator
) -> Rollout:
    # From here on the noise of the two rollouts must be independent: reseed the environment's np_random, from which
    # Gymnasium environments draw.
    with contextlib.suppress(AttributeError):  # no setter: it uses its own generator
        env.env.unwrapped.np_random = np.random.default_rng(draws.integers(2**31))
    rng = Generator().manual_seed(int(draws.integers(2**31)))
    met, terminated, truncated = [obs], False, False
    while len(met) < length + 2 and not (terminated or truncated):
        obs, terminated, truncated = env.step(model.act(obs, z, rng))
        met.append(obs)
    states = torch.as_tensor(np.stack(met))
    return Rollout(model.phi(states).double().cpu(), model.psi(states, z[None])[:, 0].double().cpu(), terminated)


def _alike(pair: tuple[Rollout, Rollout]) -> bool:
    one, other = (rollout.phi for rollout in pair)
    return one.shape == other.shape and torch.allclose(one, other)


def check_env(model: BehaviorModel, env: object) -> "gymnasium.Env[Any, Any]":
    """The environment; raises unless its spaces match the model's."""
    if not isinstance(env, gymnasium.Env):
        raise ValueError(
            f"check_model: env must be a gymnasium.Env, or a function that makes one, got {type(env).__name__}"
        )
    check_array_space(env.observation_space, "check_model: the environment's")
    for name in ("observation_space", "action_space"):
        own, its = getattr(model, name), getattr(env, name)
        same = own.n == its.n if isinstance(own, Discrete) and isinstance(its, Discrete) else own.shape == its.shape
        if not same or isinstance(own, Discrete) != isinstance(its, Discrete):
            raise ValueError(f"check_model: the model's {name} is {own}, the environment's is {its}")
    return env
