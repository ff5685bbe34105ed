"""Checks of user inputs: fields of a method's parts, models, observations, rewards, flags, seeds."""

import copy
import math
from collections.abc import Mapping, Sequence
from functools import cache, partial
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, SupportsFloat, TypeAlias, Union, get_args, get_origin, get_type_hints

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Dict, Discrete
from jaxtyping import Bool, Float, Int
from torch import Tensor

from zscout.base.edge import (
    LARGEST_COUNT,
    all_finite,
    as_finite,
    as_index,
    as_positive,
    as_real,
    as_size,
    check_array_space,
    entries_of,
    in_range,
    is_double,
)
from zscout.base.types import Action, BehaviorModel, HasTransitionFeatures, Obs, PolicySet

Rewards: TypeAlias = SupportsFloat | Sequence[Any] | np.ndarray | Tensor
"""One reward, or one for each run."""

Flags: TypeAlias = bool | np.bool_ | Sequence[bool] | np.ndarray | Tensor
"""True or False, or one for each run."""


Labels: TypeAlias = tuple[Float[Tensor, "*b"], float | Float[Tensor, "*b"]]
"""Rewards, and the weight of each: 0 where it was not seen."""


# Fields of a method's parts: the annotation is the check


class Checked:
    """A dataclass that checks its fields by their annotations: ``Positive``, a ``Literal``, another ``Checked``."""

    def __post_init__(self) -> None:
        for name, hint in get_type_hints(type(self), include_extras=True).items():
            value, options = getattr(self, name), get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
            if value is None and NoneType in options:
                continue
            for option in options:
                for check in getattr(option, "__metadata__", ()):
                    check(value, name)
                if get_origin(option) is Literal and value not in get_args(option):
                    raise ValueError(f"{name} must be one of {', '.join(map(str, get_args(option)))}, got {value!r}")
                if isinstance(option, type) and issubclass(option, Checked) and not isinstance(value, option):
                    raise ValueError(f"{name} must be a {option.__name__}, got {value!r}")


def instance(value: Any, name: str) -> None:
    """Raise unless the value is callable and no class."""
    if not callable(value) or isinstance(value, type):
        raise ValueError(f"{name} must be a callable instance, not a class, got {value!r}")


def _flag(value: Any, name: str) -> None:
    if not isinstance(value, bool):
        raise ValueError(f"{name} must be True or False, got {value!r}")


Count: TypeAlias = Annotated[int, partial(as_size, low=1, high=LARGEST_COUNT)]
Whole: TypeAlias = Annotated[int, partial(as_size, low=0)]
Positive: TypeAlias = Annotated[float, as_positive]
NotNegative: TypeAlias = Annotated[float, partial(in_range, low=0.0, high=math.inf, open_end=True)]
Discount: TypeAlias = Annotated[float, partial(in_range, low=0.0, high=1.0, open_end=True)]
Flag: TypeAlias = Annotated[bool, _flag]


# What an agent gets


def check_model_kind(model: Any, *, charted: bool = False) -> None:
    """Raise unless the model has all members of BehaviorModel (with an atlas, of PolicySet) and returns tensors."""
    if isinstance(model, str):
        raise ValueError(f"expected a model, got the name {model!r}: pass zscout.load({model!r})")
    if not charted and getattr(model, "phi", None) is None and hasattr(model, "act"):
        raise ValueError(f"{type(model).__name__} has no phi and psi: pass atlas=zscout.chart(bfm, env)")
    kind = PolicySet if charted else BehaviorModel
    members = [name for name in dir(kind) if not name.startswith("_")]
    # From Python 3.12 on, isinstance does not see the members of a wrapper with __getattr__.
    if missing := [name for name in members if getattr(model, name, None) is None]:
        raise ValueError(f"{type(model).__name__} is not a {kind.__name__}: it has no {', '.join(missing)}")
    check_array_space(model.observation_space, "this model's")
    draws = checked_output(model.sample_z(1, 0), (1, model.dim), "the model's sample_z(1, 0)")
    checked_output(model.project_z(draws), (1, model.dim), "the model's project_z(z [1 d])")


@cache
def defined_together(kind: type, one: str, other: str) -> bool:
    """Whether the same class defines both members: no subclass overrides only one."""
    homes = [vars(base) for base in kind.__mro__ if one in vars(base) or other in vars(base)]
    return bool(homes) and one in homes[0] and other in homes[0]


def check_observation(
    obs: Any, space: "gymnasium.Space[Any]", runs: tuple[int, ...], name: str = "observation"
) -> None:
    """Raise unless there is one finite observation per run, of the model's space; a dict may have further entries."""
    if isinstance(space, Dict):
        if not isinstance(obs, Mapping) or not all(key in obs for key in space):
            found = f"a dict with {', '.join(map(str, obs))}" if isinstance(obs, Mapping) else type(obs).__name__
            raise ValueError(f"the {name} is {found}, this model expects a dict with {', '.join(map(str, space))}")
        for key, part in space.items():
            check_observation(obs[key], part, runs, f"{name}[{key!r}]")
        return
    if isinstance(obs, Mapping):
        raise ValueError(
            f"the {name} is a dict with {', '.join(map(str, obs))}, this model expects {space}: wrap the "
            "environment in gymnasium.wrappers.FlattenObservation"
        )
    wanted = (*runs, *(space.shape or ()))
    size = int(space.start + space.n) if isinstance(space, Discrete) else None
    if size is None and is_double(obs) and obs.shape == wanted and np.isfinite(obs).all():  # fast path: a single run
        return
    values = as_real(obs, name) if size is None else as_index(obs, size, name)
    if tuple(values.shape) != wanted:
        kind = "one run" if not runs else f"{runs[0]} runs"
        raise ValueError(f"the {name} has shape {tuple(values.shape)}, expected {wanted} for {kind}")
    if size is None and not all_finite(values):
        which = f" of run {int((~torch.isfinite(values)).nonzero()[0, 0])}" if runs else ""
        raise ValueError(f"the {name}{which} holds NaN or inf")


def check_some(observations: Obs) -> None:
    """Raise unless there is at least one observation, with at least one entry."""
    for part in entries_of(observations):
        shape = tuple(part.shape if isinstance(part, Tensor | np.ndarray) else as_real(part, "observations").shape)
        if 0 in shape:
            raise ValueError(f"got no observations: expected at least one, with at least one entry, got shape {shape}")


def runs_of(obs: Any, space: "gymnasium.Space[Any]") -> list[int]:
    """*b, the leading dimensions of an observation of this space."""
    while isinstance(space, Dict):
        name = next(iter(space))
        obs, space = obs[name], space[name]
    shape = np.shape(obs)
    return list(shape[: len(shape) - len(space.shape or ())])


def copied(obs: Any) -> Any:
    """A copy of the observation: environments may reuse their buffers."""
    if isinstance(obs, Mapping):
        return {name: copied(part) for name, part in obs.items()}
    return obs.clone() if isinstance(obs, Tensor) else copy.deepcopy(obs)


def same(one: Any, other: Any) -> bool:
    """Whether two observations are equal."""
    if isinstance(one, Mapping) or isinstance(other, Mapping):
        dicts = isinstance(one, Mapping) and isinstance(other, Mapping) and one.keys() == other.keys()
        return dicts and all(same(one[name], other[name]) for name in one)
    a, b = (np.asarray(x.cpu() if isinstance(x, Tensor) else x) for x in (one, other))
    return np.array_equal(a, b)


def flags_of_runs(value: Any, runs: tuple[int, ...], name: str) -> Bool[Tensor, "*b"]:
    """A flag for each run."""
    usable = not isinstance(value, Tensor) or (value.dtype == torch.bool and not value.is_meta)
    flags = np.asarray(value.cpu() if isinstance(value, Tensor) else value) if usable else np.zeros(())
    if flags.dtype != bool or flags.shape not in ((), runs):
        each = f", or {runs[0]} of them, one for each run" if runs else ""
        raise ValueError(f"{name} must be True or False{each}, got {value!r}")
    return torch.from_numpy(flags.copy()).expand(runs)


def as_rewards(
    reward: Any, seen: Any, runs: tuple[int, ...], device: torch.device, each: str = "one for each run"
) -> Labels:
    """Rewards of this batch shape, and the weight of each: 0 where it was not ``seen``, and may be NaN."""
    weight: float | Tensor = 1.0
    if seen is not None:
        weight = flags_of_runs(seen, runs, "seen").to(device, torch.float64)
        numbers = as_real(reward, "reward", device)
        reward = torch.where(weight > 0, numbers, 0.0) if numbers.shape == weight.shape else numbers
    rewards = as_finite(reward, "reward", device).detach()
    if tuple(rewards.shape) != runs:
        raise ValueError(
            f"reward has shape {tuple(rewards.shape)}, expected {each if runs else 'a single number'}, {list(runs)}"
        )
    return rewards, weight


def seeds_of_runs(seed: Any, runs: int | None) -> Int[Tensor, "*b"]:
    """One seed for each run: seed + i, or the list itself."""
    count = None if runs is None else as_size(runs, "runs", 1)
    if isinstance(seed, int | np.integer):
        first = as_size(seed, "seed", 0, 2**62)
        return torch.tensor(first) if count is None else first + torch.arange(count)
    given = as_index(seed, 2**62, "seed")
    if given.ndim != 1 or len(given) != count:
        raise ValueError(
            f"seed has shape {tuple(given.shape)}, expected one number"
            + (f": pass runs={len(given)}" if runs is None and given.ndim else f", or one for each of runs={runs}")
        )
    return given


def checked_output(answer: Any, shape: Sequence[Any], what: str = "the model's ψ") -> Float[Tensor, "*shape"]:
    """The tensor; raises unless its shape is as given: None is any size, a first ``...`` any dimensions before."""
    hint = "" if what.startswith("the acquisition") else ": run zscout.check_model(model)"
    if not isinstance(answer, Tensor):
        raise ValueError(f"{what} is {type(answer).__name__}, expected a torch tensor{hint}")
    sizes = list(answer.shape)
    wanted = list(shape) if ... not in shape else [None] * (answer.ndim - len(shape) + 1) + list(shape[1:])
    if len(sizes) != len(wanted) or any(n not in (None, m) for n, m in zip(wanted, sizes, strict=True)):
        expected = ", ".join({None: "any", ...: "…"}.get(n, str(n)) for n in shape)
        raise ValueError(f"{what} has shape {sizes}, expected [{expected}]{hint}")
    return answer


def finite(output: Float[Tensor, "*shape"], what: str = "ψ") -> Float[Tensor, "*shape"]:
    """A model's output, of the right shape, in float64; raises unless finite."""
    numbers = output.double()
    if not all_finite(numbers):
        raise ValueError(f"the model's {what} holds NaN or inf: run zscout.check_model(model)")
    return numbers


def checked_phi(
    model: BehaviorModel,
    next_obs: Obs,
    runs: tuple[int, ...] | None = None,
    obs: Obs | None = None,
    action: Action | None = None,
) -> Float[Tensor, "*b d"]:
    """φ(S_{t+1}), or φ of the transition if the model has transition features; raises unless finite, [*b d]."""
    if isinstance(model, HasTransitionFeatures):
        if obs is None:
            raise ValueError(
                "this model has transition features: learn from each step with tell, not from single observations"
            )
        phi = model.phi_of_transition(obs, action, next_obs)
    else:
        phi = model.phi(next_obs)
    return finite(checked_output(phi, (*((...,) if runs is None else runs), model.dim), "the model's φ"), "φ").detach()


def checked_z(z: Any, shape: tuple[int, ...]) -> Float[Tensor, "*b d"]:
    """The z that a search returned; raises if it is not finite or not one z for each run."""
    if not isinstance(z, Tensor):
        raise ValueError(f"the search returned {type(z).__name__}, expected a torch tensor")
    if tuple(z.shape) != shape:
        raise ValueError(f"the search returned z of shape {tuple(z.shape)}, expected {shape}")
    if not all_finite(z):
        raise ValueError("the search returned a z with NaN or inf")
    return z.detach().double()
