"""Memory of earlier tasks: what their rewards were in an atlas's features, and the best z of each."""

import hashlib
import json
import math
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from zscout.base.files import LONGEST_TEXT, opened_tensors, parse_json, parsed, short, write_tensors
from zscout.transfer.atlas.atlas import Atlas
from zscout.transfer.constants import PAST_SHARE

SUFFIX, FORMAT = ".task.safetensors", 2
LARGEST_FILE = 2**24  # bytes


@dataclass(frozen=True, eq=False)
class Past:
    """Earlier tasks on one atlas: names, the weights of their rewards, and their best behaviours."""

    atlas: Atlas
    names: tuple[str, ...]
    weights: Float[Tensor, "K D"]  # of length 1
    best: Int[Tensor, " K"]  # rows of the atlas

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
        found = torch.zeros(len(self.atlas.z), dtype=torch.bool, device=self.best.device)
        found[self.best] = True
        return found if self.names else None

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
        names, weights, best = zip(*found, strict=True) if found else ((), (), ())
        table = torch.stack(weights) if found else torch.zeros(0, atlas.dim)
        return Past(atlas, names, table.to(atlas.psi), torch.tensor(best, dtype=torch.int64, device=atlas.psi.device))

    def keep(self, name: str, atlas: Atlas, weights: Float[Tensor, " D"], z: Float[Tensor, " d"]) -> Path:
        """Write a task; one of the same name is replaced."""
        if not isinstance(name, str) or not 0 < len(name) <= LONGEST_TEXT or not name.isprintable():
            raise ValueError(f"a task needs a name of at most {LONGEST_TEXT:,} printable letters, got {short(name)}")
        size, row = torch.linalg.vector_norm(weights), int(atlas.index_of(z.float()))
        if not size > 0:
            raise ValueError("there is nothing to remember: the agent has seen no rewards, or all were equal")
        if row < 0:
            raise ValueError("z is not in the atlas: pass one of atlas.z")
        task = asdict(_Task(FORMAT, name, atlas.digest, row))
        file = hashlib.sha256(f"{atlas.digest} {name}".encode()).hexdigest()[:16] + SUFFIX
        return write_tensors(self.folder / file, {"weights": (weights / size).float()}, {"task": json.dumps(task)})

    def __repr__(self) -> str:
        return f"Memory({str(self.folder)!r})"


@dataclass(frozen=True)
class _Task:
    """The header of a task's file."""

    format: int
    name: str
    atlas: str  # its digest
    row: int  # of the atlas: the best behaviour


def _read(path: Path, atlas: Atlas) -> tuple[str, Tensor, int] | None:
    """Name, weights of length 1 and the best row; None if the file is gone or the task is of another atlas."""
    try:
        if not path.is_file() or path.stat().st_size > LARGEST_FILE:
            raise ValueError(f"expected a file of at most {LARGEST_FILE:,} bytes")
        with opened_tensors(path) as file:
            task: _Task = parsed(parse_json((file.metadata() or {}).get("task", "null")), _Task, "its header")
            if task.format != FORMAT:
                raise ValueError(f"its format is {task.format}, this version reads {FORMAT}")
            if not task.name.isprintable():
                raise ValueError("its name has characters that cannot be shown")
            if task.atlas != atlas.digest:
                return None
            table = file.get_slice("weights")
            if table.get_dtype() != "F32" or table.get_shape() != [atlas.dim] or not 0 <= task.row < len(atlas.z):
                raise ValueError("it does not fit the atlas")
            weights = file.get_tensor("weights").double()
        size = float(torch.linalg.vector_norm(weights))
        if not 0 < size < math.inf:
            raise ValueError("its weights are zero or not finite")
        return task.name, weights / size, task.row
    except (OSError, ValueError) as error:
        if not path.exists():
            return None
        raise ValueError(f"cannot read the task in {path}: {error}; delete it to go on without it") from None


def as_memory(memory: object, atlas: Atlas | None) -> Memory | None:
    """The memory of an agent with this atlas."""
    if memory is None:
        return None
    if atlas is None:
        raise ValueError("a memory needs an atlas: pass atlas=zscout.chart(bfm, env)")
    if not isinstance(memory, Memory):
        raise ValueError(f"memory must be a zscout.Memory, got {type(memory).__name__}: pass zscout.Memory(folder)")
    return memory


def as_past(memory: object, atlas: Atlas | None) -> Past | None:
    """What an agent with this atlas begins from."""
    if isinstance(memory, Past):
        if atlas is None or atlas.digest != memory.atlas.digest:
            raise ValueError("the earlier tasks are of another atlas: pass the atlas that they were learned with")
        return Past(atlas, memory.names, memory.weights.to(atlas.psi), memory.best.to(atlas.psi.device))
    found = as_memory(memory, atlas)
    return None if found is None or atlas is None else found.past(atlas)


def saved_past(names: list[str] | None, tensors: dict[str, Tensor], atlas: Atlas | None) -> Past | None:
    """The earlier tasks of a saved agent."""
    if names is None or atlas is None:
        return None
    weights, best = tensors["past.weights"], tensors["past.best"]
    if weights.shape != (len(names), atlas.dim) or best.shape != (len(names),) or best.dtype != torch.int64:
        raise ValueError("its earlier tasks do not fit the atlas")
    if weights.dtype != atlas.psi.dtype or not torch.isfinite(weights).all():
        raise ValueError("the weights of its earlier tasks are not finite numbers in float64")
    if (best < 0).any() or (best >= len(atlas.z)).any():
        raise ValueError(f"its earlier tasks name behaviours outside 0 … {len(atlas.z) - 1}")
    return Past(atlas, tuple(map(str, names)), weights, best)
