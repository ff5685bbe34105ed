"""Forward-backward representations (Touati and Ollivier 2021): a BehaviorModel for vectors, with an actor."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import torch
from gymnasium.spaces import Box
from jaxtyping import Float
from torch import Generator, Tensor

from zscout.base.edge import (
    as_discount,
    as_finite,
    as_generator,
    as_given,
    as_size,
    as_vectors,
    check_entries,
    common_shape,
    known_name,
)
from zscout.base.types import Action, Obs, Vectors
from zscout.models.fb.networks import FBInference, Perceptrons, waves
from zscout.models.fb.task_prior import OBSERVATIONS, covariance_of_rewards
from zscout.models.networks import Freezable
from zscout.models.sphere import project_sphere
from zscout.worlds.bodies.goals import GEOMETRY, goal_features

GOALS = 256  # observations whose z are kept for ``sample_z``

GOAL_FEATURES: dict[str, Callable[[Tensor], Tensor]] = {
    "all": lambda obs: obs,
    **{name: partial(goal_features, name) for name in GEOMETRY},
}
"""Named functions of the observation that B may see; a program may add its own before it loads such a model."""


@dataclass(frozen=True, kw_only=True)
class FBConfig:
    """The architecture of an FB model; the same object is its config.json."""

    observation_low: tuple[float | None, ...]  # bounds of the observation space; None: unbounded
    observation_high: tuple[float | None, ...]
    actions: int  # entries of an action, each in [−1, 1]
    dim: int = 50
    gamma: float = 0.95
    hidden: int = 256
    layers: int = 2  # hidden layers
    heads: int = 2  # independent F networks
    frequencies: int = 3  # sines and cosines of each input at 1 … this many half periods; 0: the input alone
    gated: bool = True  # the first layer multiplies two linear maps of its input, so that s and z interact
    normalised: bool = False  # layer norm before every ReLU; before the first layer's tanh there always is one
    quadratic: bool = True  # B also holds the goal features and their squares, so that they can always be rewarded
    goal_features: str = "all"  # what B sees: indices such as "0,1", or a name in GOAL_FEATURES
    angles: tuple[int, ...] = ()  # entries of the observation that are seen as sine and cosine: a turn by 2π is none
    prior: bool = False  # whether a prior over tasks is saved with the model

    def __post_init__(self) -> None:
        for name, low in (("actions", 1), ("dim", 1), ("hidden", 1), ("layers", 1), ("heads", 1), ("frequencies", 0)):
            as_size(getattr(self, name), name, low, 100_000)
        as_discount(self.gamma)
        if len(self.observation_low) != len(self.observation_high) or not self.observation_low:
            raise ValueError(
                f"observation_low has {len(self.observation_low)} entries, "
                f"observation_high has {len(self.observation_high)}"
            )
        for entry in self.angles:
            as_size(entry, "an entry of angles", 0, len(self.observation_low) - 1)
        if twice := [entry for entry, after in pairwise(sorted(self.angles)) if entry == after]:
            raise ValueError(f"angles has entry {twice[0]} twice")
        if not self.goal_features[:1].isdecimal():
            known_name(self.goal_features, GOAL_FEATURES, "goal features")
        goals = self.goals(torch.zeros(1, len(self.observation_low))).shape[-1]
        if self.quadratic and self.dim <= 2 * goals:
            raise ValueError(f"dim is {self.dim}: {goals} goal features and their squares need more than {2 * goals}")

    def goals(self, obs: Float[Tensor, "*b k"]) -> Float[Tensor, "*b g"]:
        """What B sees of an observation."""
        named = GOAL_FEATURES.get(self.goal_features)
        return turned(obs[..., self._entries()] if named is None else named(obs), self.goal_angles)

    @property
    def goal_angles(self) -> tuple[int, ...]:
        """The angles among the entries that B sees, by their place there; named goal features have none."""
        if self.goal_features == "all" or not self.angles:
            return self.angles
        if self.goal_features in GOAL_FEATURES:
            return ()
        return tuple(place for place, entry in enumerate(self._entries()) if entry in self.angles)

    def _entries(self) -> list[int]:
        """The entries of an observation that ``goal_features`` lists."""
        size = len(self.observation_low)
        try:
            return [range(size)[int(word)] for word in self.goal_features.split(",")]
        except (ValueError, IndexError):
            raise ValueError(
                f"goal_features {self.goal_features!r}: expected indices of {size} entries, such as 0,1"
            ) from None

    def inputs(self, obs: Float[Tensor, "*b k"]) -> Float[Tensor, "*b i"]:
        """What F and the actor see of an observation, not scaled."""
        return turned(obs, self.angles)

    def shapes(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Name and shape of every tensor in a saved file."""
        k, d = len(self.observation_low) + len(self.angles), self.dim
        g = self.goals(torch.zeros(1, len(self.observation_low))).shape[-1]
        buffers = {"obs_mean": (k,), "obs_scale": (k,), "goal_mean": (g,), "goal_scale": (g,)}
        yield from {**buffers, "mean": (d,), "root": (d, d), "inverse_root": (d, d), "goals": (GOALS, d)}.items()
        if self.prior:
            yield "prior", (d, d)
        each = 2 * self.frequencies + 1
        networks = {
            "forward_map": (self.heads, k * each + self.actions + d, d),
            "backward_map": (1, g * each, d - 2 * g if self.quadratic else d),
            "actor": (1, k * each + d, self.actions),
        }
        for name, (copies, inputs, outputs) in networks.items():
            for layer in range(self.layers + 1):
                fan_in = self.hidden if layer else inputs
                fan_out = self.hidden if layer < self.layers else outputs
                fan_out *= 2 if self.gated and not layer else 1
                yield f"{name}.weights.{layer}", (copies, fan_in, fan_out)
                yield f"{name}.biases.{layer}", (copies, 1, fan_out)


def turned(x: Float[Tensor, "*b k"], angles: Sequence[int]) -> Float[Tensor, "*b i"]:
    """The entries that are no angles, then the sines of the angles, then their cosines."""
    if not angles:
        return x
    ends = pairwise([-1, *sorted(angles), x.shape[-1]])
    others = [x[..., before + 1 : after] for before, after in ends]  # slices: indices would wait for a GPU
    seen = torch.cat([x[..., entry : entry + 1] for entry in angles], -1)
    return torch.cat([*others, seen.sin(), seen.cos()], -1)


class FB(Freezable):
    """F(s,a,z), B(s') and an actor π(s,z), with F(s,a,z)·B(s') the density of discounted visits of s', less its mean.

    B has mean 0 over the data, so that a constant reward has no part in z. As a BehaviorModel its features are whitened
    with the data's covariance C of B: φ = C^{-1/2}(B − B̄) and ψ(s;w) = C^{1/2}F(s, π(s,z), z) with
    z = √d · C^{1/2}w / ‖C^{1/2}w‖. ``mean``, ``root`` and ``inverse_root`` hold B̄, C^{1/2} and C^{-1/2}.
    """

    format: ClassVar[str] = "zscout-fb-1"
    draws_for_each_run = True  # the policy is deterministic

    obs_mean: Tensor
    obs_scale: Tensor
    goal_mean: Tensor
    goal_scale: Tensor
    mean: Tensor
    root: Tensor
    inverse_root: Tensor
    goals: Tensor
    prior: Tensor  # Cov(w) over random tasks, if ``config.prior``
    rates: Tensor  # of sines and cosines, not saved
    forward_map: Perceptrons
    backward_map: Perceptrons
    actor: Perceptrons

    def __init__(self, config: FBConfig, seed: int = 0) -> None:
        super().__init__()
        rng = Generator().manual_seed(seed)
        self.config, self.dim, self.gamma = config, config.dim, config.gamma
        self.about: dict[str, Any] = {}  # origin, for the model card
        self.atlas: Any = None  # of its behaviours, if there is one
        shapes = dict(config.shapes())
        for name, shape in shapes.items():
            if "." not in name:  # not a network's
                blank = (
                    torch.eye(*shape)
                    if name.endswith(("root", "prior"))
                    else torch.full(shape, float(name.endswith("scale")))
                )
                self.register_buffer(name, blank)
        rates = torch.arange(1, config.frequencies + 1, dtype=torch.float64) * (math.pi / 2)
        self.register_buffer("rates", rates[:, None].float(), persistent=False)
        for name in ("forward_map", "backward_map", "actor"):
            inner = [shapes[f"{name}.weights.{layer}"] for layer in range(config.layers + 1)]
            setattr(self, name, Perceptrons(inner, rng, normalised=config.normalised))
        low = [-math.inf if end is None else end for end in config.observation_low]
        high = [math.inf if end is None else end for end in config.observation_high]
        self.observation_space = Box(np.array(low, dtype=np.float32), np.array(high, dtype=np.float32))
        self.action_space = Box(-1.0, 1.0, (config.actions,), np.float32)

    # The networks, for training: n rows; z in the coordinates of B, on the sphere of radius √d

    def encode(self, obs: Float[Tensor, "n k"]) -> Float[Tensor, "n e"]:
        """The networks' input for observations."""
        return waves((self.config.inputs(obs) - self.obs_mean) / self.obs_scale, self.rates)

    def forward_of(
        self, encoded: Float[Tensor, "n e"], action: Float[Tensor, "n a"], z: Float[Tensor, "n d"]
    ) -> Float[Tensor, "h n d"]:
        """F(s,a,z) of each head."""
        # The networks output features per step, of size near 1; F sums 1/(1 − γ) of them.
        out: Tensor = self.forward_map(torch.cat([encoded, action, z], -1))
        return out / (1 - self.config.gamma)

    def action_of(self, encoded: Float[Tensor, "n e"], z: Float[Tensor, "n d"]) -> Float[Tensor, "n a"]:
        """π(s,z)."""
        return torch.tanh(self.actor(torch.cat([encoded, z], -1))[0])

    def backward_of(self, obs: Float[Tensor, "n k"]) -> Float[Tensor, "n d"]:
        """B(s), not centred."""
        return self.backward_of_goals(self.config.goals(obs))

    def backward_of_goals(self, goals: Float[Tensor, "n g"]) -> Float[Tensor, "n d"]:
        """B of observations with these goal features."""
        goals = (goals - self.goal_mean) / self.goal_scale
        learned = self.derived("backward_map", self.backward_map.layers)(waves(goals, self.rates))[0]
        if not self.config.quadratic:
            return learned
        # Scaled to variance 1 for goal features that are uniform in [−1, 1]
        return torch.cat([learned, goals * math.sqrt(3), goals.square() * math.sqrt(45 / 4)], -1)

    def phi_of_goals(self, goals: Float[Tensor, "n g"]) -> Float[Tensor, "n d"]:
        """φ(s) = C^{-1/2}(B(s) − B̄) of observations with these goal features."""
        return (self.backward_of_goals(goals.to(self.mean.dtype)) - self.mean) @ self.inverse_root

    def features_of(self, obs: Float[Tensor, "n k"]) -> Float[Tensor, "n d"]:
        """φ of observations."""
        return self.phi_of_goals(self.config.goals(obs))

    # The BehaviorModel

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return self.mean.device

    @torch.no_grad()
    def phi(self, obs: Obs) -> Float[Tensor, "*b d"]:
        """φ(s) = C^{-1/2}(B(s) − B̄)."""
        given = self._obs(obs)
        return self.features_of(given.reshape(-1, given.shape[-1])).reshape(*given.shape[:-1], self.dim)

    def psi(self, obs: Obs, z: Vectors) -> Float[Tensor, "*b n d"]:
        """ψ(s;z): the mean of the heads."""
        return self._psi(obs, z, FBInference.psi)

    def psi_heads(self, obs: Obs, z: Vectors) -> Float[Tensor, "*b h n d"]:
        """ψ(s;z) of each head: C^{1/2}F(s, π(s,z), z)."""
        return self._psi(obs, z, FBInference.psi_heads)

    @torch.no_grad()
    def _psi(
        self, obs: Obs, z: Vectors, by: Callable[[FBInference, Tensor, Tensor], Tensor]
    ) -> Float[Tensor, "*b _ d"]:
        networks, own = self._inference(), self.to_z(self._z(z, candidates=True))
        runs, encoded = self._encoded(obs, networks, tuple(own.shape[:-2]))
        if not runs:
            return by(networks, encoded, own)
        pairs = (*runs, *own.shape[-2:])
        psi = by(networks, encoded, own.expand(pairs).reshape(-1, self.dim))
        return psi.reshape(pairs) if psi.ndim == 2 else psi.reshape(len(psi), *pairs).movedim(0, -3)

    @torch.no_grad()
    def act(self, obs: Obs, z: Vectors, rng: Any = None) -> Action:
        """π(s,z), deterministic; ``rng`` is not used."""
        networks, own = self._inference(), self.to_z(self._z(z))
        runs, encoded = self._encoded(obs, networks, tuple(own.shape[:-1]))
        action = networks.actions(encoded, own.expand(*runs, self.dim).reshape(-1, self.dim))
        return as_given(action.reshape(*runs, -1), obs)

    def sample_z(self, n: int, rng: Generator | int) -> Float[Tensor, "n d"]:
        """n draws as in training: half uniform on the sphere of radius √d, half z of goals, which are observations."""
        return self._chosen(*self._drawn(as_size(n, "n", 0), as_generator(rng, self.device)))

    def sample_z_each(self, n: int, rngs: Sequence[Generator]) -> Float[Tensor, "runs n d"]:
        """``sample_z`` for each generator, stacked."""
        as_size(n, "n", 0)
        if not rngs:
            return self.mean.new_empty(0, n, self.dim)
        each = [self._drawn(n, rng) for rng in rngs]
        return self._chosen(*(torch.stack(part) for part in zip(*each, strict=True)))

    def _drawn(self, n: int, rng: Generator) -> tuple[Tensor, Tensor, Tensor]:
        """The random numbers of n z: uniform z, the number of a goal, and which of both."""
        z = torch.randn(n, self.dim, generator=rng, dtype=self.mean.dtype, device=rng.device)
        goal = torch.randint(GOALS, (n,), generator=rng, device=rng.device)
        return z, goal, torch.rand(n, 1, generator=rng, device=rng.device)

    def _chosen(self, z: Tensor, goal: Tensor, wanted: Tensor) -> Float[Tensor, "*runs n d"]:
        """The z that these random numbers stand for."""
        goals = self.goals[goal.to(self.device)]
        wanted = (wanted.to(self.device) < 0.5) & goals.any(-1, keepdim=True)
        return project_sphere(torch.where(wanted, goals, z.to(self.device)))

    def project_z(self, z: Vectors) -> Float[Tensor, "*b d"]:
        """z projected to the sphere of radius √d; 0 maps to (1, …, 1)."""
        return project_sphere(self._z(z))

    def feature_moments(self) -> tuple[Float[Tensor, " d"], Float[Tensor, "d d"]]:
        """φ̄ = 0 and Cov(φ) = I over the data, by construction."""
        return torch.zeros_like(self.mean), torch.eye(self.dim, device=self.device)

    def goal_features(self, obs: Float[Tensor, "*b k"]) -> Float[Tensor, "*b g"]:
        """What B sees of an observation."""
        return self.config.goals(obs)

    def task_covariance(self) -> Float[Tensor, "d d"] | None:
        """The prior over tasks w: their covariance over random smooth rewards; None if the model has none."""
        return self.prior if self.config.prior else None

    def _apply(self, *args: Any, **kwargs: Any) -> "FB":
        """Move the atlas, too: ``to``, ``cpu`` and ``cuda`` come here."""
        super()._apply(*args, **kwargs)
        self.atlas = None if self.atlas is None else self.atlas.to(self.device)
        return self

    def to_z(self, w: Float[Tensor, "*b d"]) -> Float[Tensor, "*b d"]:
        """The networks' z for tasks w of the whitened features: C^{1/2}w, on the sphere of radius √d."""
        return project_sphere(w @ self.root)

    @torch.no_grad()
    def calibrate(self, obs: Float[Tensor, "n k"]) -> "FB":
        """Set B̄, C^{1/2}, C^{-1/2}, the goals of ``sample_z`` and the prior from observations in random order."""
        B = torch.cat([self.backward_of(part) for part in obs.split(65_536)]).double()
        variances, directions = torch.linalg.eigh(torch.cov(B.mT, correction=0).reshape(self.dim, self.dim))
        variances = variances.clamp(min=1e-6 * float(variances[-1]))  # a direction without variance stays finite
        self.mean.copy_(B.mean(0))
        self.root.copy_(directions * variances.sqrt() @ directions.mT)
        self.inverse_root.copy_(directions / variances.sqrt() @ directions.mT)
        self.goals[: len(obs)].copy_(project_sphere(self.features_of(obs[:GOALS])))
        if self.config.prior:
            some = obs[:OBSERVATIONS]
            self.prior.copy_(covariance_of_rewards(self.features_of(some).double(), self.config.goals(some).double()))
        return self

    def _inference(self) -> FBInference:
        def made() -> FBInference:
            k = len(self.obs_mean) * (2 * self.config.frequencies + 1)
            return FBInference(self.actor.layers(), self.forward_map.layers(), k, self.root / (1 - self.gamma))

        return self.derived("inference", made)

    def _encoded(
        self, obs: Obs, networks: FBInference, runs: tuple[int, ...]
    ) -> tuple[tuple[int, ...], Float[Tensor, "r e"]]:
        """The runs of obs and z, and the networks' input for each; one row if they share one observation."""
        # The last single observation is kept: a search asks for many z there.
        key = None
        if isinstance(obs, np.ndarray) and obs.ndim == 1 and obs.dtype.kind == "f":
            key = (obs.dtype, obs.tobytes())
        last = networks.last
        if key is not None and key == last[0]:
            return runs, last[1]
        given = self._obs(obs)
        if given.ndim > 1:
            runs = common_shape(tuple(given.shape[:-1]), runs, "observations and z")
            given = given.expand(*runs, -1)
        encoded = self.encode(given.reshape(-1, given.shape[-1]))
        if key is not None:
            networks.last = (key, encoded)
        return runs, encoded

    def _obs(self, obs: Obs) -> Float[Tensor, "*b k"]:
        given = as_finite(obs, "observation", self.device)
        check_entries(given, "observation", len(self.config.observation_low))
        return given.to(self.mean.dtype)

    def _z(self, z: Vectors, candidates: bool = False) -> Float[Tensor, "*b d"]:
        later = self.device.type == "cpu"  # there, ``project_sphere`` raises if z is not finite
        vectors = as_vectors(z, self.dim, device=self.device, candidates=candidates, finite=not later)
        return vectors.to(self.mean.dtype)
