"""Speed as a ratio to a plain reference in the same run, and how far the two answers differ.

The references are written to be read, not to be fast: value iteration swept to the end, a dense linear solve,
rollouts, a dense eigensolver, one environment stepped at a time.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from jaxtyping import Float
from scipy.linalg import eigh
from scipy.sparse import csc_array
from torch import Generator, Tensor

from zscout.bfm.exact import ExactModel
from zscout.features import graph_laplacian, grid_clusters, laplacian
from zscout.worlds import GridEnv, GridWorld, open_grid

T = TypeVar("T")

SWEEPS = 5000
SLIP = 0.2


@dataclass(frozen=True)
class Measurement:
    """One row of the table: what was done how fast, against what, and how far apart the answers are."""

    what: str
    amount: int
    unit: str
    seconds: float
    reference: str
    reference_amount: int
    reference_seconds: float
    difference: str  # what is compared
    largest: float | None  # how far apart, None where there is nothing to compare
    limit: float | None  # what it must stay under

    @property
    def rate(self) -> float:
        """Units a second."""
        return self.amount / self.seconds

    @property
    def speedup(self) -> float:
        """How many times faster than the reference, for the same amount of work."""
        return self.rate * self.reference_seconds / self.reference_amount

    @property
    def agrees(self) -> bool:
        """Whether the answers are as close as they must be."""
        return self.limit is None or (self.largest is not None and self.largest <= self.limit)

    def to_json(self) -> dict[str, Any]:
        """The row with what follows from it."""
        return {**asdict(self), "rate": self.rate, "speedup": self.speedup, "agrees": self.agrees}


class Measure(Protocol):
    """A function that measures; its docstring is what the progress line says."""

    __doc__: str | None

    def __call__(self, *, seed: int, quick: bool) -> Sequence[Measurement]:
        """Do the work and its reference."""


def exact_against_value_iteration(*, seed: int, quick: bool) -> Sequence[Measurement]:
    """Exact model against value iteration."""
    rows = []
    for name, features in (("clusters", grid_clusters), ("Laplacian", laplacian)):
        world = open_grid()
        model = ExactModel(world, features(world))
        z = model.sample_z(1_000 if quick else 10_000, seed)
        seconds, psi = _timed(model.successor_features, z)
        swept = z[:200] if quick else z
        reference_seconds, v = _timed(value_iteration, model, swept, SWEEPS)
        value = (psi[: len(v)] * swept[:, None]).sum(-1)
        rows.append(
            Measurement(
                what=f"π* and ψ*, 9×9 {name}",
                amount=len(z),
                unit="z",
                seconds=seconds,
                reference=f"value iteration, {SWEEPS:,} sweeps",
                reference_amount=len(v),
                reference_seconds=reference_seconds,
                difference="|ψ*·z − v*|",
                largest=float((value - v).abs().max()),
                limit=1e-6,
            )
        )
    return rows


def exact_against_linear_solve(*, seed: int, quick: bool) -> Sequence[Measurement]:
    """Exact model in a slippery world against a dense linear solve."""
    world = open_grid(slip=SLIP)
    model = ExactModel(world, laplacian(world))
    z = model.sample_z(100 if quick else 1_000, seed)
    policy = model.policy(z)
    seconds, psi = _timed(model.evaluate, policy)
    reference_seconds, solved = _timed(linear_solve, model, policy)
    return [
        Measurement(
            what=f"ψ of policies, 9×9 Laplacian, slip {SLIP}",
            amount=len(z),
            unit="z",
            seconds=seconds,
            reference="dense linear solve",
            reference_amount=len(z),
            reference_seconds=reference_seconds,
            difference="|ψ − ψ|",
            largest=float((psi - solved).abs().max()),
            limit=1e-6,
        )
    ]


def exact_against_rollouts(*, seed: int, quick: bool) -> Sequence[Measurement]:
    """Exact model in a slippery world against Monte-Carlo rollouts."""
    world = open_grid(slip=SLIP)
    model = ExactModel(world, laplacian(world))
    rng = Generator().manual_seed(seed)
    z = model.sample_z(5, rng)
    runs = 1_000 if quick else 20_000
    seconds, psi = _timed(model.psi, 0, z)
    reference_seconds, samples = _timed(rollouts, world, model, z, 0, runs, rng)
    standard_error = samples.std(1) / runs**0.5 + 1e-6  # the constant feature does not vary at all
    return [
        Measurement(
            what=f"ψ(0;z), 9×9 Laplacian, slip {SLIP}",
            amount=len(z),
            unit="z",
            seconds=seconds,
            reference=f"mean of {runs:,} rollouts",
            reference_amount=len(z),
            reference_seconds=reference_seconds,
            difference="|ψ − mean| in standard errors",
            largest=float(((psi - samples.mean(1)) / standard_error).abs().max()),
            limit=4.5,  # 45 numbers: chance alone passes this once in 3,000 runs
        )
    ]


def laplacian_against_dense(*, seed: int, quick: bool) -> Sequence[Measurement]:
    """Eigenfunctions of a large world against a dense eigensolver."""
    world = open_grid(30 if quick else 50)
    seconds, phi = _timed(laplacian, world)
    L = graph_laplacian(world)
    reference_seconds, (values, functions) = _timed(dense_eigenfunctions, L)
    unit = phi.numpy() / np.sqrt(world.n_states / phi.shape[1])
    work = (phi.shape[1], "eigenfunctions", seconds, "dense eigh", phi.shape[1], reference_seconds)
    what = f"laplacian, {world.n_states:,} states"
    gaps = {
        "‖Lf − λf‖, λ the dense one": np.linalg.norm(L @ unit - unit * values, axis=0).max(),
        "|FᵀF − I|": np.abs(unit.T @ unit - np.eye(unit.shape[1])).max(),
        "|FFᵀ − FFᵀ|": np.abs(unit @ unit.T - functions @ functions.T).max(),
    }
    return [Measurement(what, *work, difference, float(gap), 1e-9) for difference, gap in gaps.items()]


def grid_throughput(*, seed: int, quick: bool) -> Sequence[Measurement]:
    """Environment steps of many runs at once against one environment at a time."""
    rows = []
    runs, steps = 10_000, 20 if quick else 200
    for slip in (0.0, SLIP):
        world = open_grid(slip=slip)
        rng = Generator().manual_seed(seed)
        action = torch.randint(world.n_actions, (steps, runs), generator=rng)
        start = world.random_states(runs, rng)
        seconds, _ = _timed(walk, world, start, action, rng)
        reference_seconds, _ = _timed(walk_alone, world, action[:, 0], seed)
        rows.append(
            Measurement(
                what=f"{runs:,} runs stepped at once, slip {slip}",
                amount=runs * steps,
                unit="steps",
                seconds=seconds,
                reference="one Gymnasium run",
                reference_amount=steps,
                reference_seconds=reference_seconds,
                difference="",
                largest=None,
                limit=None,
            )
        )
    return rows


MEASUREMENTS: tuple[Measure, ...] = (
    exact_against_value_iteration,
    exact_against_linear_solve,
    exact_against_rollouts,
    laplacian_against_dense,
    grid_throughput,
)


def value_iteration(model: ExactModel, z: Float[Tensor, "n d"], sweeps: int) -> Float[Tensor, "n S"]:
    """v ← max_a E[r(S') + γ v(S')], and again, in parts that stay in the cache."""
    next_state = model.world.successors[:, :, 0].T
    values = []
    for part in z.split(256):
        reward = model.features @ part.T
        v = torch.zeros_like(reward)
        for _ in range(sweeps):
            v = (reward + model.gamma * v)[next_state].amax(0)
        values.append(v.T)
    return torch.cat(values)


def linear_solve(model: ExactModel, policy: Tensor) -> Float[Tensor, "n S d"]:
    """ψ = (I − γP)⁻¹ P φ, one dense matrix a policy."""
    n_states = model.world.n_states
    states = torch.arange(n_states)
    solved = []
    for actions in policy:
        P = torch.zeros(n_states, n_states, dtype=torch.float64)
        successors = model.world.successors[states, actions]
        P.scatter_add_(1, successors, model.world.probabilities[states, actions])
        identity = torch.eye(n_states, dtype=torch.float64)
        solved.append(torch.linalg.solve(identity - model.gamma * P, P @ model.features))
    return torch.stack(solved)


def rollouts(
    world: GridWorld, model: ExactModel, z: Float[Tensor, "n d"], start: int, runs: int, rng: Generator
) -> Float[Tensor, "n runs d"]:
    """Σ_k γᵏ φ(S_{t+k+1}) of sampled trajectories, until γᵏ < 1e-9."""
    policy = model.policy(z)
    state = torch.full((len(z), runs), start)
    total = torch.zeros(len(z), runs, model.dim, dtype=torch.float64)
    for k in range(int(np.ceil(np.log(1e-9) / np.log(model.gamma)))):
        state = world.step(state, policy.gather(1, state), rng)
        total += model.gamma**k * model.features[state]
    return total


def dense_eigenfunctions(L: csc_array) -> tuple[np.ndarray, np.ndarray]:
    """The nine lowest eigenpairs by the dense solver."""
    values, functions = eigh(L.toarray(), subset_by_index=(0, 8))
    return values, functions


def walk(world: GridWorld, state: Tensor, actions: Tensor, rng: Generator) -> Tensor:
    """All runs, one step at a time."""
    for action in actions:
        state = world.step(state, action, rng)
    return state


def walk_alone(world: GridWorld, actions: Tensor, seed: int) -> int:
    """One run through the Gymnasium environment."""
    env = GridEnv(world)
    state, _ = env.reset(seed=seed)
    for action in actions.tolist():
        state, *_ = env.step(action)
    return int(state)


def _timed(work: Callable[..., T], *arguments: Any) -> tuple[float, T]:
    """Seconds on one core, and the answer."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        start = time.perf_counter()
        answer = work(*arguments)
        return time.perf_counter() - start, answer
    finally:
        torch.set_num_threads(threads)
