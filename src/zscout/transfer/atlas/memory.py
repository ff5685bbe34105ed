"""Memory of earlier tasks: what their rewards were in an atlas's features, and the best z of each."""

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch
from jaxtyping import Bool, Float
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as to_bytes
from torch import Tensor

from zscout.base.files import parse_json, write_bytes
from zscout.transfer.atlas.atlas import Atlas
from zscout.transfer.constants import PAST_SHARE

SUFFIX, FORMAT = ".task.safetensors", 1


@dataclass(frozen=True, eq=False)
class Past:
    """Earlier tasks on one atlas: names, the weights of their rewards, and their best z."""

    atlas: Atlas
    names: tuple[str, ...]
    weights: Float[Tensor, "K D"]  # of length 1
    z: Float[Tensor, "K d"]

    @cached_property
    def covariance(self) -> Float[Tensor, "D D"] | None:
        """The prior of a new task, S = (1 − s)I + s·D·mean of wwᵀ, s = ``PAST_SHARE``; None without earlier tasks."""
        D = self.atlas.dim
        eye = torch.eye(D).to(self.weights)
        return (
            (1 - PAST_SHARE) * eye + PAST_SHARE * D * self.weights.mT @ self.weights / len(self.names)
            if self.names
            else None
        )

    @cached_property
    def rows(self) -> Bool[Tensor, " N"] | None:
        """Which behaviours were the best of an earlier task; None without earlier tasks."""
        row = self.atlas.index_of(self.z.to(self.atlas.z))
        found = torch.zeros(len(self.atlas.z), dtype=torch.bool, device=row.device)
        found[row[row >= 0]] = True
        return found if found.any() else None

    def resemblance(self, weights: Float[Tensor, "*b D"]) -> dict[str, Float[Tensor, "*b"]]:
        """The correlation of a reward with that of each task, over what the atlas visited; the highest first."""
        rows = weights.reshape(-1, self.atlas.dim)
        products, sizes = self.weights @ self._spread @ rows.mT, [self._size(each) for each in (self.weights, rows)]
        found = products / sizes[0][:, None] / sizes[1]  # [K runs]
        order = found.mean(1).argsort(descending=True).tolist()
        return {self.names[k]: found[k].reshape(weights.shape[:-1]) for k in order}

    def _size(self, weights: Float[Tensor, "n D"]) -> Float[Tensor, " n"]:
        """The standard deviation of rewards over what the atlas visited."""
        return ((weights @ self._spread) * weights).sum(-1).clamp(min=1e-300).sqrt()

    @cached_property
    def _spread(self) -> Float[Tensor, "D D"]:
        return torch.cov(self.atlas.features(self.atlas.sample).mT)

    def tensors(self) -> dict[str, Tensor]:
        """What a file needs beside the names."""
        return {"past.weights": self.weights, "past.z": self.z}


class Memory:
    """Earlier tasks in a folder, one file each: processes may share it.

        memory = zscout.Memory("tasks")
        agent = zscout.OnlineTransfer(bfm, memory=memory)    # begins from earlier tasks
        …
        agent.resembles                                      # {"walk": .93, …}
        agent.remember("jog")

    Tasks of another atlas are not used. A memory is a prior: rewards decide whether it is better than none.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        if self.folder.exists() and not self.folder.is_dir():
            raise ValueError(f"{folder} is a file, expected a folder")

    def past(self, atlas: Atlas) -> Past:
        """The tasks that were learned with this atlas, by name."""
        found = sorted(
            filter(None, (_read(path, atlas) for path in self.folder.glob(f"*{SUFFIX}"))), key=lambda t: t[0]
        )
        weights = torch.stack([w for _, w, _ in found]) if found else torch.zeros(0, atlas.dim)
        z = torch.stack([z for *_, z in found]) if found else torch.zeros(0, atlas.z.shape[1])
        return Past(atlas, tuple(name for name, *_ in found), weights.to(atlas.psi), z.to(atlas.z))

    def keep(self, name: str, atlas: Atlas, weights: Float[Tensor, " D"], z: Float[Tensor, " d"]) -> Path:
        """Write a task; one of the same name is replaced."""
        if not isinstance(name, str) or not name:
            raise ValueError(f"a task needs a name, got {name!r}")
        size = torch.linalg.vector_norm(weights)
        if not size > 0:
            raise ValueError("there is nothing to remember: the agent has seen no rewards, or all were equal")
        about = {"format": FORMAT, "name": name, "atlas": atlas.digest}
        tensors = {"weights": (weights / size).float().cpu(), "z": z.float().cpu().contiguous()}
        file = hashlib.sha256(f"{atlas.digest} {name}".encode()).hexdigest()[:16] + SUFFIX
        return write_bytes(self.folder / file, to_bytes(tensors, metadata={"task": json.dumps(about)}))

    def __repr__(self) -> str:
        return f"Memory({str(self.folder)!r})"


def _read(path: Path, atlas: Atlas) -> tuple[str, Tensor, Tensor] | None:
    """Name, weights and z; None if the task is of another atlas."""
    try:
        with safe_open(path, framework="pt") as file:
            about = parse_json((file.metadata() or {})["task"])
            weights, z = file.get_tensor("weights"), file.get_tensor("z")
        if about["format"] != FORMAT or not isinstance(about["name"], str):
            raise ValueError("its format is unknown")
        if about["atlas"] != atlas.digest:
            return None
        if weights.shape != (atlas.dim,) or z.shape != atlas.z.shape[1:] or not torch.isfinite(weights).all():
            raise ValueError("its tensors do not fit the atlas")
        return about["name"], weights, z
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"cannot read the task in {path}: {error}; delete it to go on without it") from None


def as_past(memory: object, atlas: Atlas | None) -> Past | None:
    """What an agent with this atlas begins from."""
    if memory is None:
        return None
    if atlas is None:
        raise ValueError("a memory needs an atlas: pass atlas=zscout.chart(bfm, env)")
    if isinstance(memory, Memory):
        return memory.past(atlas)
    if isinstance(memory, Past):
        return memory
    raise ValueError(f"memory must be a zscout.Memory, got {type(memory).__name__}: pass zscout.Memory(folder)")


def saved_past(names: list[str] | None, tensors: dict[str, Tensor], atlas: Atlas | None) -> Past | None:
    """The earlier tasks of a saved agent."""
    if names is None or atlas is None:
        return None
    weights, z = tensors["past.weights"], tensors["past.z"]
    if weights.shape != (len(names), atlas.dim) or z.shape != (len(names), atlas.z.shape[1]):
        raise ValueError("its earlier tasks do not fit the atlas")
    return Past(atlas, tuple(map(str, names)), weights.to(atlas.psi), z.to(atlas.z))
