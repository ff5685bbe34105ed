"""The cases: arenas × methods, and extras of the default and of OpTI; and the feeds, which no answer changes."""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch

import zscout
from zscout import features, worlds

from .names import NAMES, SHORT, made
from .point_mass import PointMass, behaviours

STEPS, RUNS, FIXED, LESSON = 40, 4, 8, 6
Feed = dict[str, np.ndarray]


@dataclass(frozen=True)
class Arena:
    """A model, the observations that feeds draw from, and how exactly its numbers are known."""

    kind: str  # exact, network or atlas: the tolerance
    model: Any
    pool: np.ndarray
    atlas: zscout.Atlas | None = None

    def phi(self, obs: Any) -> Any:
        """The features that rewards are linear in."""
        source = self.model.phi if self.atlas is None else self.atlas.features
        return source(torch.as_tensor(obs)).double().numpy()

    def psi(self, obs: Any, z: torch.Tensor) -> Any:
        """ψ of one z for each run, [4 D]; with an atlas its row's."""
        if self.atlas is not None:
            return self.atlas.psi[self.atlas.index_of(z.float())].double().numpy()
        with torch.no_grad():
            return np.asarray(self.model.psi(torch.as_tensor(obs), z[:, None])[:, 0].double())


def _grid(kind: str, model: Any, states: int) -> Arena:
    return Arena(kind, model, np.arange(states, dtype=np.int16))


def _exact(table: Callable[..., Any]) -> Arena:
    world = worlds.open_grid()
    return _grid("exact", zscout.ExactModel(world, table(world)), world.n_states)


def _point_maze() -> Arena:
    env, rng = worlds.PointMazeEnv(worlds.point_maze()), np.random.default_rng(0)
    starts = np.stack([env.reset(seed=seed)[0] for seed in range(200)])
    pool = starts + rng.uniform(0, 0.3, starts.shape) * [0, 0, 1, 1]
    return Arena("network", zscout.load("pointmaze-fb"), pool.astype(np.float32))


def _walker(charted: bool) -> Arena:
    model = zscout.load("walker-fb")
    pool = model.atlas.sample[::8].numpy()
    return Arena("atlas" if charted else "network", model, pool, model.atlas if charted else None)


def _places(n: int) -> Arena:
    return Arena("exact" if n == 40 else "atlas", behaviours(n)[0], _box(), behaviours(n)[1])


def _box() -> np.ndarray:
    return np.random.default_rng(0).uniform(-1, 1, (400, 2))


ARENAS: dict[str, Callable[[], Arena]] = {
    "exact-clusters": lambda: _exact(features.grid_clusters),
    "exact-laplacian": lambda: _exact(features.laplacian),
    "grid9-clusters": lambda: _grid("network", zscout.load("grid9-clusters"), 81),
    "grid9-laplacian": lambda: _grid("network", zscout.load("grid9-laplacian"), 81),
    "maze-laplacian": lambda: _grid("network", zscout.load("maze-laplacian"), 129),
    "point-mass": lambda: Arena("exact", PointMass(), _box()),
    "pointmaze-fb": _point_maze,
    "walker-fb": lambda: _walker(False),
    "walker-atlas": lambda: _walker(True),
    "behaviours-6": lambda: _places(6),
    "behaviours-40": lambda: _places(40),
}
SOME = ("exact-laplacian", "point-mass", "pointmaze-fb", "behaviours-40")
WALKER, GRID = ("walker-atlas",), ("grid9-clusters",)
EXTRAS = {
    **dict.fromkeys(("prefer", "credit", "learn", "offset"), SOME + GRID),
    **dict.fromkeys(("change", "missing", "saved"), SOME + GRID + WALKER),
    **{"hold-5": SOME + WALKER, "hold-episode": SOME},
    **{"limit-known": ("behaviours-6", "behaviours-40"), "limit-told": ("behaviours-6", "behaviours-40", *WALKER)},
    "bank": ("exact-laplacian", "grid9-laplacian", "point-mass", "pointmaze-fb"),
}
arena_of = cache(lambda name: ARENAS[name]())


@dataclass(frozen=True)
class Case:
    """An agent in an arena."""

    arena: str
    method: str
    extra: str = ""

    def __str__(self) -> str:
        return f"{self.arena}/{self.method}" + (f"+{self.extra}" if self.extra else "")

    @property
    def holds(self) -> bool:
        """Whether a z is kept for several steps."""
        return arena_of(self.arena).atlas is not None or "hold" in self.extra or self.method == "random-z"

    def agent(self, feed: Feed) -> zscout.OnlineTransfer:
        """The agent before the first step."""
        arena, settings = arena_of(self.arena), dict(SHORT.get(self.method, {}))
        options: dict[str, Any] = {"seed": 5, "runs": RUNS, "atlas": arena.atlas}
        if self.method == "oracle":
            settings["task"] = feed["tasks"]
        if self.extra == "bank":
            options["bank"] = arena.model.sample_z(12, 3)
        hold = {"hold-5": 5, "hold-episode": "episode"}.get(self.extra)
        change = zscout.ChangeTest(evidence=1.0, memory=16) if self.extra == "change" else None
        return made(arena.model, self.method, settings, hold, change, **options, **self.limit())

    def limit(self) -> dict[str, Any]:
        """The limit of the first entry of observations, known in advance or told."""
        if not self.extra.startswith("limit"):
            return {}
        cost = (lambda obs: obs[:, 0]) if self.extra == "limit-known" else None
        return {"limit": zscout.Limit(at_most=float(arena_of(self.arena).pool[:, 0].mean()), cost=cost)}

    def reloaded(self, agent: zscout.OnlineTransfer) -> zscout.OnlineTransfer:
        """The agent, saved and loaded."""
        arena = arena_of(self.arena)
        with tempfile.TemporaryDirectory() as folder:
            agent.save(folder)
            return zscout.OnlineTransfer.load(folder, arena.model, atlas=arena.atlas)


CASES = [Case(arena, method) for arena in ARENAS for method in NAMES]
CASES += [
    Case(arena, method, extra) for extra, places in EXTRAS.items() for arena in places for method in ("usf-ucb", "opti")
]


def drawn(name: str, seed: int) -> Feed:
    """Observations, rewards and ends of four runs; rewards are linear in the features, with noise."""
    arena, rng = arena_of(name), np.random.default_rng(seed)
    pick = {"obs": (STEPS + 1, RUNS), "fixed": (FIXED,), "lesson": (RUNS, LESSON)}
    feed = {part: arena.pool[rng.integers(len(arena.pool), size=size)] for part, size in pick.items()}
    phi = arena.phi(arena.pool)
    tasks = rng.standard_normal((RUNS, phi.shape[1])) * (phi.std(0) > 1e-6) / phi.std(0).clip(1e-6)
    tasks /= (phi @ tasks.T).std(0)[:, None]
    told = np.einsum("trd,rd->tr", arena.phi(feed["obs"][1:]), tasks)
    lesson = np.einsum("rmd,rd->rm", arena.phi(feed["lesson"]), tasks)
    ends = np.zeros((STEPS, RUNS), dtype=bool)
    ends[[12, 27]] = True
    return feed | {
        "tasks": tasks[:, : arena.model.dim],
        "rewards": told + 0.3 * rng.standard_normal(told.shape),
        "marks": lesson + 0.3 * rng.standard_normal(lesson.shape),
        "costs": feed["obs"][1:].reshape(STEPS, RUNS, -1)[..., 0] + 0.1 * rng.standard_normal(told.shape),
        "ends": ends,
        "own_ends": ends | (rng.random(ends.shape) < 0.1),
        "seen": rng.random(told.shape) < 0.6,
    }


def nudged(feed: Feed, size: float, seed: int = 0) -> Feed:
    """The feed with each reward changed by ±size of its own size."""
    rng = np.random.default_rng(seed)
    parts = {name: feed[name] for name in ("rewards", "marks")}
    return feed | {name: x * (1 + size * rng.choice([-1, 1], x.shape)) for name, x in parts.items()}
