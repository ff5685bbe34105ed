"""What the networks of all models share: freezing, fast inference, and Adam in a checkpoint."""

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

T = TypeVar("T")
M = TypeVar("M", bound="Freezable")


class Freezable(nn.Module):
    """A module that, once frozen, caches what it derives from its weights until a weight changes."""

    def __init__(self) -> None:
        super().__init__()
        self._frozen = False
        self._tensors: list[Tensor] = []
        self._tracked = True
        self._derived: dict[Any, tuple[list[int] | None, Any]] = {}

    def freeze(self: M) -> M:
        """Freeze for transfer: no gradients, dropout off for good."""
        self._frozen = True
        self._changed()
        return self.eval().requires_grad_(False)

    def train(self: M, mode: bool = True) -> M:
        """Set training mode; no effect once frozen."""
        return super().train(mode and not self._frozen)

    def derived(self, key: Any, make: Callable[[], T]) -> T:
        """make(), cached if the module is frozen."""
        if not self._frozen:
            return make()
        versions = [tensor._version for tensor in self._tensors] if self._tracked else None
        kept = self._derived.get(key)
        if kept is None or versions is None or kept[0] != versions:
            with torch.inference_mode(False):  # the cache may be used outside inference mode
                kept = self._derived[key] = (versions, make())
        value: T = kept[1]
        return value

    def recent(self, key: Any, state: Int[Tensor, " n"], z: Float[Tensor, "n d"], make: Callable[[], T]) -> T:
        """make(), or its last result if state and z are the same and the module is frozen; not to be changed."""
        last = self.derived(key, list[tuple[Tensor, Tensor, T]])
        if z.requires_grad:
            return make()
        for old_state, old_z, found in last[-1:]:  # one tuple, read once: other threads replace it
            if torch.equal(old_state, state) and torch.equal(old_z, z):
                return found
        made = make()
        last[:] = [(state.clone(), z.clone(), made)]  # copies: the caller may reuse its memory
        return made

    def load_state_dict(self, *arguments: Any, **named: Any) -> Any:
        """Load weights; clears the cache."""
        answer = super().load_state_dict(*arguments, **named)
        self._changed()
        return answer

    def _apply(self: M, *arguments: Any, **named: Any) -> M:
        """Move or cast the weights; clears the cache."""
        super()._apply(*arguments, **named)  # type: ignore[no-untyped-call]
        self._changed()
        return self

    def _changed(self) -> None:
        self._derived.clear()
        self._tensors = [*self.parameters(), *self.buffers()]
        self._tracked = not any(tensor.is_inference() for tensor in self._tensors)  # those have no version counter


def rectified(x: Tensor) -> Tensor:
    """ReLU, in place if no gradient is needed."""
    return torch.relu(x) if x.requires_grad else torch.relu_(x)


def moments_of(optimiser: torch.optim.Adam, prefix: str) -> dict[str, Tensor]:
    """Adam's state by names that begin with a prefix; empty before its first step."""
    found = {}
    for index, parameter in enumerate(optimiser.param_groups[0]["params"]):
        state = optimiser.state.get(parameter, {})
        found.update({f"{prefix}.{index}.{name}": tensor for name, tensor in state.items()})
    return found


def fill_moments(optimiser: torch.optim.Adam) -> None:
    """Adam's state before its first step; by default it appears only with that step."""
    on_device = optimiser.defaults["capturable"] or optimiser.defaults["fused"]
    for parameter in optimiser.param_groups[0]["params"]:
        step = torch.zeros((), device=parameter.device if on_device else None)
        zeros = (torch.zeros_like(parameter, memory_format=torch.preserve_format) for _ in range(2))
        optimiser.state[parameter] = dict(zip(("step", "exp_avg", "exp_avg_sq"), (step, *zeros), strict=True))
