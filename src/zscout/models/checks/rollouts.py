"""Pairs of rollouts of a model's policy from the same start, in a Gymnasium environment."""

import contextlib
import math
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Dict, Discrete
from jaxtyping import Bool, Float, Int
from torch import Generator, Tensor

from zscout.base.edge import check_array_space, entries_of, for_each_entry
from zscout.base.types import BehaviorModel, HasTransitionFeatures

BOOTSTRAPPED_SHARE = 0.1  # γᴸ, the weight of the model's own ψ after L steps: at most this share of an error is hidden
FEWEST_PAIRS, MOST_PAIRS = 16, 250
EQUAL_PAIRS = 4  # after this many pairs of equal rollouts, assume determinism and run one rollout per pair
SHORTEST_ROLLOUT = 20  # steps of a rollout: also detects a γ that is too small


@dataclass(frozen=True, eq=False)
class Rollout:
    """φ and ψ(·;z) of s_0 … s_m along one rollout; L steps are summed. φ of a transition: NaN at s_0.

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
    """The L with γᴸ = .1, at least ``SHORTEST_ROLLOUT``."""
    return max(
        math.ceil(math.log(BOOTSTRAPPED_SHARE) / math.log(gamma)) if BOOTSTRAPPED_SHARE < gamma < 1 else 1,
        SHORTEST_ROLLOUT,
    )


def rollout_pairs(model: BehaviorModel, env: "gymnasium.Env[Any, Any]", length: int, steps: int, seed: int) -> Pairs:
    """Run pairs of rollouts with at most ``steps`` steps in total; each pair has its own z and start.

    Every other start is some steps after the reset. Rollouts have ``length`` steps, or fewer to fit enough pairs.
    """
    # A pair takes 2 · (length + 1) steps and, every second time, up to 2 · length/4 to reach its start.
    length = min(length, steps // (2 * FEWEST_PAIRS + FEWEST_PAIRS // 2) - 2)
    z = model.sample_z(2 * MOST_PAIRS, Generator().manual_seed(seed))
    walks = _Walks(model, env, length, np.random.default_rng(seed))
    pairs: list[tuple[Rollout, Rollout]] = []
    twice = True
    while len(pairs) < MOST_PAIRS and walks.steps + (2 if twice else 1) * (length + 2 + length // 4) <= steps:
        i = len(pairs)
        pairs.append(walks.pair(z[i], z[MOST_PAIRS + i], bool(i % 2), twice))
        twice = twice and not (len(pairs) == EQUAL_PAIRS and all(map(_alike, pairs)))
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
        pairs = zip(entries_of(obs), entries_of(again), strict=False)
        if again is None or not all(np.allclose(one, other, rtol=1e-5, atol=1e-8) for one, other in pairs):
            raise ValueError(
                "check_model: two resets with the same seed and the same actions gave different observations: "
                "expected a reproducible environment"
            )
        return first, self._rollout(again, z)

    def _start(self, seed: int, steps: int, z: Float[Tensor, " d"]) -> Any:
        """The observation some steps after a reset; None if the episode ended before."""
        obs = _copied(self.env.reset(seed=seed)[0])
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
        model, met, actions, terminated, truncated = self.model, [obs], [], False, False
        while len(met) < self.length + 2 and not (terminated or truncated):
            actions.append(model.act(obs, z, rng))
            obs, terminated, truncated = self._step(actions[-1])
            met.append(obs)
        states = _stacked(met)
        if isinstance(model, HasTransitionFeatures):
            entered = model.phi_of_transition(_stacked(met[:-1]), _stacked(actions), _stacked(met[1:]))
            # No transition enters s_0, so conventions that count it cannot be tried: NaN is never a better fit.
            phi = torch.cat([torch.full_like(entered[:1], torch.nan), entered])
        else:
            phi = model.phi(states)
        return Rollout(phi.double().cpu(), model.psi(states, z[None])[:, 0].double().cpu(), terminated)

    def _step(self, action: Any) -> tuple[Any, bool, bool]:
        obs, _, terminated, truncated, _ = self.env.step(action)
        self.steps += 1
        return _copied(obs), bool(terminated), bool(truncated)


def _copied(obs: Any) -> Any:
    """A numpy copy of an observation: environments may reuse their buffers."""
    return for_each_entry(lambda part: np.array(part)[()], obs)


def _stacked(parts: list[Any]) -> Any:
    return for_each_entry(lambda *each: torch.as_tensor(np.stack(each)), *parts)


def _alike(pair: tuple[Rollout, Rollout]) -> bool:
    one, other = (rollout.phi for rollout in pair)
    return one.shape == other.shape and torch.allclose(one, other, equal_nan=True)


def check_env(model: BehaviorModel, env: object) -> "gymnasium.Env[Any, Any]":
    """The environment; raises unless its spaces match the model's."""
    if not isinstance(env, gymnasium.Env):
        raise ValueError(
            f"check_model: env must be a gymnasium.Env, or a function that makes one, got {type(env).__name__}"
        )
    check_array_space(env.observation_space, "check_model: the environment's")
    for name in ("observation_space", "action_space"):
        own, its = getattr(model, name), getattr(env, name)
        if not _fits(own, its):
            raise ValueError(f"check_model: the model's {name} is {own}, the environment's is {its}")
    return env


def _fits(own: Any, its: Any) -> bool:
    """Whether elements of the environment's space are valid for the model; a Dict may have further entries."""
    if isinstance(own, Dict):
        return isinstance(its, Dict) and all(name in its.spaces and _fits(own[name], its[name]) for name in own)
    if isinstance(own, Discrete) or isinstance(its, Discrete):
        return isinstance(own, Discrete) and isinstance(its, Discrete) and bool(own.n == its.n)
    return not isinstance(its, Dict) and bool(own.shape == its.shape)
