"""Policies without φ and ψ: skills, gaits or named latents, for an atlas."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Space
from jaxtyping import Float
from torch import Generator, Tensor

from zscout.base.edge import as_generator, as_size, as_vectors
from zscout.base.types import Action, Obs, Vectors

Policy = Callable[[Any], Any]  # obs → action, for one observation


class Behaviours:
    """Named policies obs → action, or one π(obs, k) for k = 0 … n − 1.

        behaviours = zscout.Behaviours({"walk": walk, "kneel": kneel})
        agent = zscout.OnlineTransfer(behaviours, atlas=zscout.chart(behaviours, env))

    z [n] has a 1 at the behaviour followed and 0 elsewhere: ``z_of(name)`` and ``name_of(z)``. A policy gets a single
    observation. Spaces that are not given are those of the first environment in which they are charted.
    """

    def __init__(
        self,
        policies: Mapping[str, Policy] | Callable[[Any, int], Any],
        observation_space: "Space[Any] | None" = None,
        action_space: "Space[Any] | None" = None,
        *,
        n: int | None = None,
        names: Sequence[str] | None = None,
    ) -> None:
        if isinstance(policies, Mapping):
            if n is not None or names is not None:
                raise ValueError("got named policies: drop n and names")
            for name, policy in policies.items():
                if not isinstance(name, str) or not callable(policy):
                    raise ValueError(f"policies must map names to callables, got {name!r}: {policy!r}")
            self.names = tuple(policies)
            self._policies: list[Policy] | Callable[[Any, int], Any] = list(policies.values())
        elif callable(policies):
            count = len(names) if names is not None else as_size(n, "n", 1)
            if n is not None and n != count:
                raise ValueError(f"got n = {n} and {count} names: pass one of them")
            self.names = tuple(names) if names is not None else tuple(str(k) for k in range(count))
            self._policies = policies
        else:
            raise ValueError(f"expected named policies or a callable π(obs, k), got {type(policies).__name__}")
        if not self.names or len(set(self.names)) < len(self.names):
            raise ValueError(f"expected different names, at least one, got {list(self.names)}")
        self._spaces = {"observation_space": observation_space, "action_space": action_space}

    @property
    def observation_space(self) -> "Space[Any]":
        """The space of a single observation."""
        return self._space("observation_space")

    @property
    def action_space(self) -> "Space[Any]":
        """The space of a single action."""
        return self._space("action_space")

    def _space(self, name: str) -> "Space[Any]":
        found = self._spaces[name]
        if found is None:
            raise ValueError(f"these behaviours have no {name}: pass it, or chart them in an environment first")
        return found

    def take_spaces(self, env: Any) -> None:
        """Take the spaces of an environment that were not given."""
        self._spaces = {
            name: getattr(env, f"single_{name}", None) or getattr(env, name) if space is None else space
            for name, space in self._spaces.items()
        }

    @property
    def dim(self) -> int:
        """n, the number of behaviours."""
        return len(self.names)

    def z_of(self, name: str) -> Float[Tensor, " n"]:
        """The z of a behaviour."""
        if name not in self.names:
            raise ValueError(f"there is no behaviour {name!r}: there are {', '.join(self.names)}")
        return self.sorted_z()[self.names.index(name)]

    def name_of(self, z: Vectors) -> Any:
        """The behaviour of a z [n]; of many [*b n] a list, with a name for each."""
        return np.array(self.names)[as_vectors(z, self.dim).argmax(-1).cpu().numpy()].tolist()

    def sorted_z(self) -> Float[Tensor, "n n"]:
        """The z of every behaviour, in order."""
        return torch.eye(self.dim, dtype=torch.float64)

    def act(self, obs: Obs, z: Vectors, rng: Any = None) -> Action:
        """The action of each run's behaviour; ``rng`` is not used."""
        wanted = as_vectors(z, self.dim)
        values = obs.cpu().numpy() if isinstance(obs, Tensor) else np.asarray(obs)
        shape = self.observation_space.shape or ()
        runs = values.shape[: values.ndim - len(shape)]
        rows, each = values.reshape(-1, *shape), wanted.expand(*runs, -1).reshape(-1, self.dim).argmax(-1).tolist()
        actions = np.stack([np.asarray(self._action(row, k)) for row, k in zip(rows, each, strict=True)])
        actions = actions.reshape((*runs, *actions.shape[1:]))
        return torch.from_numpy(actions) if isinstance(obs, Tensor) else actions

    def sample_z(self, n: int, rng: Generator | int) -> Float[Tensor, "m n"]:
        """Random behaviours."""
        rng = as_generator(rng)
        return self.sorted_z()[torch.randint(self.dim, (as_size(n, "n", 0),), generator=rng, device=rng.device).cpu()]

    def project_z(self, z: Vectors) -> Float[Tensor, "*b n"]:
        """The z of the largest entry."""
        return self.sorted_z()[as_vectors(z, self.dim).argmax(-1)]

    def _action(self, obs: Any, k: int) -> Any:
        return self._policies[k](obs) if isinstance(self._policies, list) else self._policies(obs, k)

    def __repr__(self) -> str:
        return f"Behaviours({', '.join(self.names)})"


def names_of(bfm: object) -> tuple[str, ...] | None:
    """The names of behaviours; a model has none."""
    return bfm.names if isinstance(bfm, Behaviours) else None


def columns(names: Sequence[str] | None, bfm: object, whose: str) -> list[int] | None:
    """Where each of these behaviours is among the names; None if the order is the same. Raises if others are named."""
    own = names_of(bfm)
    if names is None or tuple(names) == own:
        return None
    if own is None or sorted(names) != sorted(own):
        here = "none" if own is None else ", ".join(own)
        raise ValueError(f"{whose} is of other behaviours: {', '.join(names)}; this model has {here}: pass those")
    return [names.index(name) for name in own]
