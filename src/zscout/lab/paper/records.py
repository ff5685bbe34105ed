"""Records of runs as arrays, and what the runs saw: features, posteriors, paths, maps."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from zscout.lab.arena import Arena
from zscout.lab.grid_arena import finite
from zscout.lab.report_model import Panel
from zscout.lab.spec import Spec
from zscout.lab.store import Record, Store


@dataclass(frozen=True, eq=False)
class Runs:
    """Records of specs that were run, each read once."""

    store: Store
    _read: dict[Spec, Record] = field(default_factory=dict)

    def __getitem__(self, spec: Spec) -> Record:
        if spec not in self._read:
            self._read[spec] = self.store.record(spec)
        return self._read[spec]

    def steps(self, specs: Sequence[Spec], name: str) -> np.ndarray:
        """One column of the steps of each run [R T …]; fractions in float64."""
        column = np.stack([self[spec].steps[name] for spec in specs])
        return column.astype(np.float64) if column.dtype == np.float32 else column

    def numbers(self, specs: Sequence[Spec], name: str) -> np.ndarray:
        """One number of each run [R]."""
        return np.array([self[spec].numbers[name] for spec in specs])


def features_of(arena: Arena) -> np.ndarray:
    """φ of every state [S d]."""
    return np.asarray(finite(arena).ground.features.cpu().numpy())


def posteriors(record: Record, features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """V [T+1 d d] and ẑ [T+1 d] along a run, starting with the prior (eq. 3)."""
    phi, ridge = features[record.steps["entered"]], record.numbers["ridge"]
    prior = ridge * np.eye(features.shape[1])
    V = np.concatenate([prior[None], prior + (phi[:, :, None] * phi[:, None, :]).cumsum(0)])
    b = np.concatenate([np.zeros((1, len(prior))), (phi * record.steps["reward"][:, None]).cumsum(0)])
    return V, np.linalg.solve(V, b[..., None])[..., 0]


def visited(record: Record, until: int | None = None) -> np.ndarray:
    """States from S_0 to S_until."""
    return np.concatenate([record.steps["state"][:1], record.steps["entered"][:until]]).astype(np.int64)


def map_panel(title: str, arena: Arena, values: np.ndarray, path: Sequence[int] | np.ndarray = ()) -> Panel:
    """A value for each state [S] as a map, with a path of states."""
    world = finite(arena).ground.world
    return Panel(title, world.to_map(values), world.cells.numpy()[np.asarray(path, dtype=np.int64)])
