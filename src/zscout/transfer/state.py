"""All that changes while an agent runs, as one value that can be written down."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from zscout.transfer.posterior import TaskPosterior
from zscout.transfer.trials import Memory
from zscout.types import Obs


@dataclass(frozen=True, eq=False)
class State:
    """A new one takes the place of the old only when a call has gone well."""

    posterior: TaskPosterior
    age: Float[Tensor, "*b"]  # for how many steps the last z has been followed; infinite: it is over
    t: int = 0  # how many tells
    last: Float[Tensor, "*b d"] | None = None  # Z_{t−1}
    z: Float[Tensor, "*b d"] | None = None  # Z_t, from ask to tell
    asked: Obs | None = None  # S_t, from ask or act to tell
    memory: Memory = field(default_factory=dict)  # of Trials
    visits: Memory = field(default_factory=dict)  # of an Explorer

    def numbers(self) -> dict[str, Any]:
        """What of it is no tensor."""
        return {"t": self.t}

    def tensors(self) -> dict[str, Tensor]:
        """Everything else, by name."""
        named = {f"posterior.{name}": value for name, value in self.posterior.tensors().items()}
        asked = None if self.asked is None else _observed(self.asked)
        optional = {"last": self.last, "z": self.z, "asked": asked}
        named |= {"age": self.age} | {name: value for name, value in optional.items() if value is not None}
        named |= {f"memory.{name}": value for name, value in self.memory.items()}
        return named | {f"visits.{name}": value for name, value in self.visits.items()}

    def restored(self, numbers: dict[str, Any], tensors: dict[str, Tensor]) -> "State":
        """The state that was written, checked against this one, which is new."""
        fresh = self.posterior.tensors().items()
        posterior = {name: _like(tensors.get(f"posterior.{name}"), like, f"posterior.{name}") for name, like in fresh}
        z_shape = self.posterior.z_hat
        for name in ("last", "z"):
            if name in tensors:
                _like(tensors[name], z_shape, name)
        t, weight = numbers.get("t"), posterior["weight"]
        if type(t) is not int or not 0 <= t < 2**53 or (weight < 0).any():
            raise ValueError(f"its counts are t = {str(t)[:40]} and weight = {weight.tolist()}")
        asked = tensors.get("asked")
        device = z_shape.device
        return State(
            self.posterior.with_tensors(posterior),
            _like(tensors.get("age"), self.age, "age", finite=False),
            t=t,
            last=None if "last" not in tensors else tensors["last"].to(device),
            z=None if "z" not in tensors else tensors["z"].to(device),
            asked=None if asked is None else asked.numpy()[()],
            memory=_part(tensors, "memory", device),
            visits=_part(tensors, "visits", torch.device("cpu")),  # where explorers keep them
        )


def _observed(obs: Obs) -> Tensor:
    return obs.cpu() if isinstance(obs, Tensor) else torch.as_tensor(np.asarray(obs))


def _like(value: Tensor | None, like: Tensor, name: str, finite: bool = True) -> Tensor:
    if value is None:
        raise ValueError(f"{name} is missing")
    if value.shape != like.shape or value.dtype != like.dtype:
        raise ValueError(f"{name} is {value.dtype} {tuple(value.shape)}, not {like.dtype} {tuple(like.shape)}")
    if finite and not torch.isfinite(value).all():
        raise ValueError(f"{name} holds NaN or inf")
    return value.to(like.device)


def _part(tensors: dict[str, Tensor], part: str, device: torch.device) -> Memory:
    # Counters stay on the CPU, where their makers keep them.
    prefix = f"{part}."
    return {
        name.removeprefix(prefix): value.to(device) if value.ndim else value
        for name, value in tensors.items()
        if name.startswith(prefix)
    }
