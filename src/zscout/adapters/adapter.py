"""A frozen model of another project as a BehaviorModel."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import gymnasium
import torch
from gymnasium.spaces import Dict
from jaxtyping import Float
from torch import Generator, Tensor

from zscout.base.edge import as_discount, as_finite, as_generator, as_given, as_vectors, common_shape
from zscout.base.types import Action, Obs, Vectors
from zscout.models.sphere import project_sphere, sample_sphere, sample_sphere_each

Rows: TypeAlias = Tensor | dict[str, Tensor]
"""n observations, [n …], or a dict of such tensors."""

CPU = torch.device("cpu")
PART = 16_384  # rows in one call of the networks: bounds the memory of a large search


@dataclass(frozen=True, kw_only=True)
class Networks:
    """What an adapter needs of a model: three functions of n rows, without gradients or not."""

    features: Callable[[Rows], Float[Tensor, "n f"]]
    successors: Callable[[Rows, Float[Tensor, "n d"], Float[Tensor, "n a"]], Float[Tensor, "h n d"]]
    action: Callable[[Rows, Float[Tensor, "n d"]], Float[Tensor, "n a"]]
    dim: int  # d, entries of z
    observation_space: "gymnasium.Space[Any]"
    action_space: "gymnasium.Space[Any]"
    device: torch.device = CPU
    needs: Mapping[str, Sequence[str]] = field(default_factory=dict)  # entries of a Dict that φ, ψ and act need


class Adapter:
    """φ, ψ and π of another project's networks; Z is the sphere of radius √d.

    ψ(s;z) is the mean of the heads at the policy's own action, ``act`` that action. Draws of z are uniform on Z.
    ``gamma`` is there only if it is known.
    """

    gamma: float
    draws_for_each_run = True  # the action is the policy's mean

    def __init__(self, networks: Networks, gamma: float | None = None) -> None:
        self.networks = networks
        self.dim = networks.dim
        self.observation_space, self.action_space = networks.observation_space, networks.action_space
        self.device = networks.device
        if gamma is not None:
            self.gamma = as_discount(gamma)

    def phi(self, obs: Obs) -> Float[Tensor, "*b d"]:
        """φ(s)."""
        return self._features(obs)

    def psi(self, obs: Obs, z: Vectors) -> Float[Tensor, "*b n d"]:
        """ψ(s;z): the mean of the heads."""
        return self.psi_heads(obs, z).mean(-3)

    @torch.no_grad()
    def psi_heads(self, obs: Obs, z: Vectors) -> Float[Tensor, "*b h n d"]:
        """ψ(s;z) of each head, at the action π(s,z)."""
        candidates = as_vectors(z, self.dim, device=self.device, candidates=True).float()
        own, entries = self._entries(obs, "ψ")
        runs = common_shape(own, tuple(candidates.shape[:-2]), "observations and z")
        pairs = (*runs, candidates.shape[-2])
        rows = self._rows({name: part.unsqueeze(len(own)) for name, part in entries.items()}, pairs)
        of_pairs = candidates.expand(*pairs, self.dim).reshape(-1, self.dim)
        parts = [
            self.networks.successors(some, z_part, self.networks.action(some, z_part)).float()
            for some, z_part in zip(_split(rows), of_pairs.split(PART), strict=True)
        ]
        psi = torch.cat(parts, 1)
        if psi.shape[1:] != of_pairs.shape:
            raise ValueError(f"ψ of {len(of_pairs)} rows has shape {list(psi.shape)}, expected [h n {self.dim}]")
        return psi.reshape(len(psi), *pairs, self.dim).movedim(0, -3)

    @torch.no_grad()
    def act(self, obs: Obs, z: Vectors, rng: Any = None) -> Action:
        """π(s,z), the mean of the policy; ``rng`` is not used."""
        given = as_vectors(z, self.dim, device=self.device).float()
        own, entries = self._entries(obs, "act")
        runs = common_shape(own, tuple(given.shape[:-1]), "observations and z")
        rows = self._rows(entries, runs)
        of_rows = given.expand(*runs, self.dim).reshape(-1, self.dim)
        parts = [self.networks.action(*pair) for pair in zip(_split(rows), of_rows.split(PART), strict=True)]
        return as_given(torch.cat(parts).float().reshape(*runs, *(self.action_space.shape or ())), obs)

    def sample_z(self, n: int, rng: Generator | int) -> Float[Tensor, "n d"]:
        """n draws, uniform on the sphere of radius √d."""
        return sample_sphere(n, self.dim, as_generator(rng, self.device), torch.float32).to(self.device)

    def sample_z_each(self, n: int, rngs: Sequence[Generator]) -> Float[Tensor, "runs n d"]:
        """``sample_z`` for each generator, stacked."""
        return sample_sphere_each(n, self.dim, rngs, torch.float32).to(self.device)

    def project_z(self, z: Vectors) -> Float[Tensor, "*b d"]:
        """z projected to the sphere of radius √d; 0 maps to (1, …, 1)."""
        return project_sphere(as_vectors(z, self.dim, device=self.device))

    @torch.no_grad()
    def _features(self, obs: Obs) -> Float[Tensor, "*b f"]:
        runs, entries = self._entries(obs, "φ")
        features = torch.cat([self.networks.features(part) for part in _split(self._rows(entries, runs))]).float()
        return features.reshape(*runs, features.shape[-1])

    def _entries(self, obs: Any, call: str) -> tuple[tuple[int, ...], dict[str, Tensor]]:
        """*b, and the observation, or the entries of a dict, as tensors [*b …]."""
        space = self.observation_space
        if not isinstance(space, Dict):
            if isinstance(obs, Mapping):
                raise ValueError(f"observation is a dict with {', '.join(map(str, obs))}, this model expects {space}")
            runs, tensor = self._tensor(obs, space.shape or (), "observation")
            return runs, {"": tensor}
        if not isinstance(obs, Mapping):
            raise ValueError(f"observation is {type(obs).__name__}, expected a dict with {', '.join(space)}")
        missing = [name for name in self.networks.needs.get(call, space) if name not in obs]
        if missing:
            users = [one for one, names in self.networks.needs.items() if missing[0] in names]
            raise ValueError(
                f"{call} needs {', '.join(map(repr, missing))}, the observation has {', '.join(map(repr, obs))}; "
                f"{missing[0]!r} is an input of {' and '.join(users) or call}: take it from the simulator"
            )
        found = {
            name: self._tensor(obs[name], part.shape or (), f"observation[{name!r}]")
            for name, part in space.items()
            if name in obs
        }
        shapes = {runs for runs, _ in found.values()}
        if len(shapes) > 1:
            raise ValueError(f"entries of the observation have batch dimensions {sorted(shapes)}, expected the same")
        return shapes.pop(), {name: tensor for name, (_, tensor) in found.items()}

    def _tensor(self, value: Any, event: tuple[int, ...], name: str) -> tuple[tuple[int, ...], Tensor]:
        tensor = as_finite(value, name, self.device).float()
        runs = tensor.ndim - len(event)
        if runs < 0 or tuple(tensor.shape[runs:]) != event:
            raise ValueError(f"{name} has shape {tuple(tensor.shape)}, expected [*b {' '.join(map(str, event))}]")
        return tuple(tensor.shape[:runs]), tensor

    def _rows(self, entries: dict[str, Tensor], runs: tuple[int, ...]) -> Rows:
        """Entries [*b …], broadcast to these runs, as rows."""
        rows = {}
        for name, tensor in entries.items():
            space: Any = self.observation_space[name] if name else self.observation_space  # type: ignore[index]
            rows[name] = tensor.expand(*runs, *space.shape).reshape(-1, *space.shape)
        return rows.get("", rows)


def _split(rows: Rows) -> Sequence[Rows]:
    if isinstance(rows, Tensor):
        return list(rows.split(PART))
    parts = {name: tensor.split(PART) for name, tensor in rows.items()}
    return [dict(zip(parts, some, strict=True)) for some in zip(*parts.values(), strict=True)]


class ForwardBackward(Adapter):
    """A forward-backward model: φ = C⁻¹B with C = E BBᵀ, so that F is its ψ.

    C is over a sample of the training observations, given to ``fitted``. Without a sample C = I, which B's
    orthonormality loss aims at.
    """

    inverse: Float[Tensor, "d d"] | None = None  # C⁻¹

    def phi(self, obs: Obs) -> Float[Tensor, "*b d"]:
        """φ(s) = C⁻¹B(s)."""
        B = self._features(obs)
        return B if self.inverse is None else B @ self.inverse

    def fitted(self, observations: Obs | None) -> "ForwardBackward":
        """The model with C of these observations [m …]; itself if it has one, or without any."""
        if self.inverse is not None or observations is None:
            return self
        B = self._features(observations).double()
        if B.ndim != 2 or len(B) < self.dim:
            raise ValueError(
                f"C = E BBᵀ of d = {self.dim} features needs at least {self.dim} observations [m …], got "
                f"{list(B.shape[:-1])}"
            )
        model = ForwardBackward(self.networks, getattr(self, "gamma", None))
        model.inverse = torch.linalg.pinv(B.mT @ B / len(B), rtol=1e-6, hermitian=True).float()
        return model


class Transitions(Adapter):
    """A model with features of a transition: f(s′) − f(s), or both."""

    def __init__(self, networks: Networks, gamma: float | None = None, *, difference: bool) -> None:
        super().__init__(networks, gamma)
        self.difference = difference

    def phi(self, obs: Obs) -> Float[Tensor, "*b d"]:
        """f(s), twice if φ is both; rewards are learned with ``phi_of_transition``."""
        f = self._features(obs)
        return f if self.difference else torch.cat([f, f], -1)

    def phi_of_transition(self, obs: Obs, action: Action | None, next_obs: Obs) -> Float[Tensor, "*b d"]:
        """φ(s,s′): f(s′) − f(s), or (f(s), f(s′)); the action does not count."""
        before, after = self._features(obs), self._features(next_obs)
        return after - before if self.difference else torch.cat([before, after], -1)
