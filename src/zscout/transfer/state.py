"""The state of an agent, as one frozen value."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from zscout.transfer.posterior import TaskPosterior
from zscout.transfer.rollout_searches import Memory
from zscout.types import Action, Obs


@dataclass(frozen=True, eq=False)
class AgentState:
    """The state of an agent; a call that succeeds replaces it."""

    posterior: TaskPosterior
    age: Float[Tensor, "*b"]  # steps for which the last z was followed; infinite: choose a new one
    t: int = 0  # number of tells
    last: Float[Tensor, "*b d"] | None = None  # Z_{t−1}
    z: Float[Tensor, "*b d"] | None = None  # Z_t, from ask to tell
    asked: Obs | None = None  # S_t, from ask or act to tell
    action: Action | None = None  # A_t, from act to tell
    memory: Memory = field(default_factory=dict)  # of a rollout search or an explorer

    def numbers(self) -> dict[str, Any]:
        """The fields that are not tensors."""
        return {"t": self.t}

    def tensors(self) -> dict[str, Tensor]:
        """The tensor fields, by name."""
        named = {f"posterior.{name}": value for name, value in self.posterior.tensors().items()}
        asked, action = (None if x is None else _as_tensor(x) for x in (self.asked, self.action))
        optional = {"last": self.last, "z": self.z, "asked": asked, "action": action}
        named |= {"age": self.age} | {name: value for name, value in optional.items() if value is not None}
        return named | {f"memory.{name}": value for name, value in self.memory.items()}

    def restored(self, numbers: dict[str, Any], tensors: dict[str, Tensor]) -> "AgentState":
        """The saved state, checked against this new one."""
        fresh = self.posterior.tensors().items()
        posterior = {name: _like(tensors.get(f"posterior.{name}"), like, f"posterior.{name}") for name, like in fresh}
        z_shape = self.posterior.z_hat
        for name in ("last", "z"):
            if name in tensors:
                _like(tensors[name], z_shape, name)
        for name, like in self.memory.items():
            _like(tensors.get(f"memory.{name}"), like, f"memory.{name}")
        t, weight = numbers.get("t"), posterior["weight"]
        if type(t) is not int or not 0 <= t < 2**53 or (weight < 0).any():
            raise ValueError(f"its counts are invalid: t = {str(t)[:40]}, weight = {weight.tolist()}")
        asked, action = (tensors.get(name) for name in ("asked", "action"))
        device = z_shape.device
        return AgentState(
            self.posterior.with_tensors(posterior),
            _like(tensors.get("age"), self.age, "age", finite=False),
            t=t,
            last=None if "last" not in tensors else tensors["last"].to(device),
            z=None if "z" not in tensors else tensors["z"].to(device),
            asked=None if asked is None else asked.numpy()[()],
            action=None if action is None else action.numpy()[()],
            memory=_part(tensors, "memory", device),
        )


def _as_tensor(value: Obs | Action) -> Tensor:
    return value.cpu() if isinstance(value, Tensor) else torch.as_tensor(np.asarray(value))


def _like(value: Tensor | None, like: Tensor, name: str, finite: bool = True) -> Tensor:
    if value is None:
        raise ValueError(f"{name} is missing")
    if value.shape != like.shape or value.dtype != like.dtype:
        raise ValueError(f"{name} is {value.dtype} {tuple(value.shape)}, expected {like.dtype} {tuple(like.shape)}")
    if finite and not torch.isfinite(value).all():
        raise ValueError(f"{name} holds NaN or inf")
    return value.to(like.device)


def _part(tensors: dict[str, Tensor], part: str, device: torch.device) -> Memory:
    # Counters (scalars) stay on the CPU.
    prefix = f"{part}."
    return {
        name.removeprefix(prefix): value.to(device) if value.ndim else value
        for name, value in tensors.items()
        if name.startswith(prefix)
    }
