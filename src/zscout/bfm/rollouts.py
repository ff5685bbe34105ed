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
    """φ and ψ(·;z) of s_0 … s_m along one rollout; L steps are summed.

    After termination features are 0: L = m. A truncated rollout (by the environment, or because it is long enough)
    bootstraps with ψ(s_L;z), L = m − 1: one state beyond s_L is kept, to detect a ψ that begins too late.
    """

    phi: Float[Tensor, "m d"]
    psi: Float[Tensor, "m d"]  # of the model
    terminated: bool


@dataclass(frozen=True, eq=False)
class Pairs:
    """ψ(s_0;z) and two independent rollouts G, G′ of π(·|·,z) from each of many s_0, padded with zeros.

    (ψ − G)·(ψ − G′) has mean ‖ψ − E G‖², because the noise of the two rollouts is independent.
    """

    phi: Float[Tensor, "2 pairs m d"]
    psi: Float[Tensor, "2 pairs m d"]
    length: Int[Tensor, "2 pairs"]  # L
    terminated: Bool[Tensor, "2 pairs"]

    @classmethod
    def of(cls, pairs: list[tuple[Rollout, Rollout]]) -> "Pairs":
        """Stack pairs into one batch."""
        every = [rollout for column in zip(*pairs, strict=True) for rollout in column]
        pad = torch.nn.utils.rnn.pad_sequence
        phi, psi = (pad([getattr(one, name) for one in every], batch_first=True) for name in ("phi", "psi"))
        terminated = torch.tensor([rollout.terminated for rollout in every])
        length = torch.tensor([len(rollout.phi) for rollout in every]) - torch.where(terminated, 1, 2)
        return cls(*(part.unflatten(0, (2, -1)) for part in (phi, psi, length, terminated)))

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
    walks = _Walks(model, env, length, np.random.default_rng(seed))
    pairs: list[tuple[Rollout, Rollout]] = []
    twice = True
    while len(pairs) < MOST and walks.steps + (2 if twice else 1) * (length + 2 + length // 4) <= steps:
        i = len(pairs)
        pairs.append(walks.pair(z[i], z[MOST + i], bool(i % 2), twice))
        twice = twice and not (len(pairs) == ALIKE and all(map(_alike, pairs)))
    return Pairs.of(pairs)


class _Walks:
    """Walks of a model in an environment; counts the steps."""

    def __init__(
        self, model: BehaviorModel, env: "gymnasium.Env[Any, Any]", length: int, draws: np.random.Generator
    ) -> None:
        self.model, self.env, self.length, self.draws, self.steps = model, env, length, draws, 0

    def pair(
        self, z: Float[Tensor, " d"], first_z: Float[Tensor, " d"], walks: bool, twice: bool
    ) -> tuple[Rollout, Rollout]:
        """Two rollouts from the same start: a reset or, if it ``walks``, some steps with ``first_z`` after it."""
        steps = int(self.draws.integers(1, self.length // 4 + 2)) if walks else 0
        seed = int(self.draws.integers(2**31))
        obs = self._start(seed, steps, first_z)
        if obs is None:  # the episode ended before the start
            steps, obs = 0, self._start(seed, 0, first_z)
        first = self._rollout(obs, z)
        if not twice:
            return first, first
        again = self._start(seed, steps, first_z)
        if again is None or not np.allclose(obs, again, rtol=1e-5, atol=1e-8):
            raise ValueError(
                "check_model: two resets with the same seed and the same actions gave different observations: "
                "expected a reproducible environment"
            )
        return first, self._rollout(again, z)

    def _start(self, seed: int, steps: int, z: Float[Tensor, " d"]) -> Any:
        """The observation some steps after a reset; None if the episode ended before."""
        obs = np.array(self.env.reset(seed=seed)[0])[()]
        rng = Generator().manual_seed(seed)
        for _ in range(steps):
            obs, terminated, truncated = self._step(self.model.act(obs, z, rng))
            if terminated or truncated:
                return None
        return obs

    def _rollout(self, obs: Any, z: Float[Tensor, " d"]) -> Rollout:
        # From here on the noise of the two rollouts must be independent: reseed the environment's np_random, from which
        # Gymnasium environments draw.
        with contextlib.suppress(AttributeError):  # no setter: it uses its own generator
            self.env.unwrapped.np_random = np.random.default_rng(self.draws.integers(2**31))
        rng = Generator().manual_seed(int(self.draws.integers(2**31)))
        met, terminated, truncated = [obs], False, False
        while len(met) < self.length + 2 and not (terminated or truncated):
            obs, terminated, truncated = self._step(self.model.act(obs, z, rng))
            met.append(obs)
        states = torch.as_tensor(np.stack(met))
        phi, psi = self.model.phi(states), self.model.psi(states, z[None])[:, 0]
        return Rollout(phi.double().cpu(), psi.double().cpu(), terminated)

    def _step(self, action: Any) -> tuple[Any, bool, bool]:
        obs, _, terminated, truncated, _ = self.env.step(action)
        self.steps += 1
        return np.array(obs)[()], bool(terminated), bool(truncated)  # copy: environments may reuse their buffers


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
