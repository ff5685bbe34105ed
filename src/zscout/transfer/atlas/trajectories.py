"""An atlas from recorded trajectories, without a simulator: z is inferred from what each segment visits."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from torch import Generator, Tensor

from zscout.base.edge import as_size
from zscout.base.types import BehaviorModel
from zscout.transfer.atlas.atlas import KEPT_OBSERVATIONS, Atlas, assembled, features_of
from zscout.transfer.atlas.features import RichFeatures
from zscout.transfer.constants import SETTLED

KEPT = 60  # observations of a segment, evenly spaced: neighbours are much alike
MOST = 40  # segments of a behaviour, on average
CHUNK = 256  # segments that are read together
PILOT = 8_192  # observations that scale the features
LONGEST, SHORTEST = 100, 10  # steps of a segment, unless it is said
FEW = 64  # behaviours for which segments are made shorter

Read = Callable[[np.ndarray], np.ndarray]  # numbers of rows [n] → observations entered [n o]


def fitting(lengths: np.ndarray, wanted: int) -> int:
    """The most steps, of 10 to 100, that cut trajectories of these lengths into ``wanted`` segments; 10 if none do."""
    return next((n for n in range(LONGEST, SHORTEST, -1) if (lengths // n).sum() >= wanted), SHORTEST)


class SegmentCharting:
    """An atlas in the making: iterate over it, it yields the segments read; then ``atlas()``.

    A trajectory is cut into segments of ``steps``, by default of ``fitting``. The z of a segment is that of its mean φ:
    the reward φ·w by which what it visits differs from the data, so the policy of z is the model's imitation of it. N
    of these z are behaviours; what one visits is what the segments visit whose z is nearest to it.
    """

    resumed = False  # it is short

    def __init__(
        self,
        bfm: BehaviorModel,
        trajectories: tuple[np.ndarray, np.ndarray],
        read: Read,
        behaviours: int = 2048,
        starts: int = 6,
        steps: int | None = None,
        seed: int = 0,
        *,
        folder: str | Path | None = None,
    ) -> None:
        first, lengths = trajectories
        for name, value in (("behaviours", behaviours), ("starts", starts)):
            as_size(value, name, 1)
        wanted = min(FEW, behaviours) * starts
        self.steps = steps = fitting(lengths, wanted) if steps is None else as_size(steps, "steps", 1)
        self.bfm, self.read, self.rng, self.seed, self.folder = bfm, read, Generator().manual_seed(seed), seed, folder
        begins = [np.arange(a, a + n - steps + 1, steps) for a, n in zip(first, lengths, strict=True) if n >= steps]
        found = np.concatenate(begins) if begins else np.empty(0, np.int64)
        self.behaviours = min(behaviours, len(found) // starts)
        if not self.behaviours:
            raise ValueError(
                f"the data has {len(found)} segments of {steps} steps in a row, expected {starts} or more: the longest "
                f"trajectory has {int(lengths.max())} steps; record more, or pass fewer --steps"
            )
        order = torch.randperm(len(found), generator=self.rng)[: MOST * self.behaviours]
        self.begins = found[order.sort().values.numpy()]
        self.offsets = np.unique(np.linspace(0, steps - 1, min(KEPT, steps)).round().astype(np.int64))
        self.every = steps / len(self.offsets)
        self.z, self.means, self.curves, self.sample = list[Tensor](), list[Tensor](), list[Tensor](), list[Tensor]()

    @property
    def total(self) -> int:
        """Segments."""
        return len(self.begins)

    def __iter__(self) -> Iterator[int]:
        with torch.no_grad():
            self.map = RichFeatures.of(self.bfm, self._pilot(), self.seed)
            for start in range(0, len(self.begins), CHUNK):
                self._add(self._paths(self.begins[start : start + CHUNK]))
                yield min(start + CHUNK, len(self.begins))

    def _pilot(self) -> Float[Tensor, "m o"]:
        pick = torch.randint(len(self.begins), (PILOT // len(self.offsets) + 1,), generator=self.rng).sort().values
        return self._paths(self.begins[pick.numpy()]).flatten(0, 1)

    def _paths(self, begins: np.ndarray) -> Float[Tensor, "n t o"]:
        rows = begins[:, None] + self.offsets
        seen = torch.from_numpy(np.array(self.read(rows.reshape(-1)), np.float32))
        return seen.reshape(*rows.shape, -1).to(self.bfm.sample_z(1, 0).device)

    def _add(self, paths: Float[Tensor, "n t o"]) -> None:
        late = round(SETTLED * paths.shape[1])
        phi = self.bfm.phi(paths[:, late:].flatten(0, 1)).reshape(len(paths), -1, self.bfm.dim)
        f = features_of(self.map, paths, paths.device)
        means = f[:, late:].mean(1)
        self.z.append(self.bfm.project_z(phi.mean(1)).float().cpu())
        self.means.append(means.cpu())
        self.curves.append((f - means[:, None]).square().sum(-1).sum(0).cpu())
        pick = torch.randint(paths.shape[1], (len(paths),), generator=self.rng)
        self.sample.append(paths[torch.arange(len(paths)), pick].cpu())

    def atlas(self) -> Atlas:
        """The atlas of all segments."""
        z, means, seen = torch.cat(self.z), torch.cat(self.means), torch.cat(self.sample)
        apart = z[torch.randperm(len(z), generator=self.rng)[: self.behaviours].sort().values]
        nearest = torch.cat([(some @ apart.mT).argmax(1) for some in z.split(4_096)])
        used, row = nearest.unique(return_inverse=True)
        sample = seen[torch.randperm(len(seen), generator=self.rng)[:KEPT_OBSERVATIONS]]
        curve = torch.stack(self.curves).sum(0) / len(z)
        found = assembled(apart[used], row, means.double(), sample, curve, self.map, max(1, round(self.every)))
        found = found.to(self.bfm.sample_z(1, 0).device)
        if self.folder is not None:
            found.save(self.folder)
        return found
