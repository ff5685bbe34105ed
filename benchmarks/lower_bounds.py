"""Lower bounds of time: measured rates of products and copies, and the FLOP and bytes that work needs at least."""

from collections.abc import Callable
from functools import cache

import torch
from jaxtyping import Int
from scipy.sparse.csgraph import shortest_path
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.measurement import Timing, interleaved
from zscout.base.types import BehaviorModel, FiniteWorld
from zscout.features.laplacian import adjacency
from zscout.models.usfa.model import USFAConfig

SIDE = {"cpu": 1024, "cuda": 8192}  # rows of the square matrices
REPEATS = 7
LARGEST = 2**28  # bytes of a copy: more than a cache holds
NUMBER = 8  # bytes of a float64
DTYPES = {"float32": torch.float32, "float64": torch.float64}


@cache
def product_timing(dtype: str, device: str = "cpu") -> Timing:
    """Timing of the product of two large square matrices."""
    a, b = (torch.ones(side(device), side(device), dtype=DTYPES[dtype], device=device) for _ in range(2))
    return interleaved({"product": lambda: a @ b}, REPEATS, device=device)["product"]


def product_rate(dtype: str, device: str = "cpu") -> float:
    """Largest measured FLOP per second of a product."""
    return 2 * side(device) ** 3 / min(product_timing(dtype, device).seconds)


def side(device: str) -> int:
    """Rows of the square matrices whose product is timed."""
    return SIDE[device.split(":")[0]]


@cache
def copy_timing(bytes_moved: int, device: str = "cpu") -> tuple[Timing, int]:
    """Timing of copies that read and write ``bytes_moved`` in all, and the number of copies in a call."""
    source = torch.ones(max(1, bytes_moved // 16), dtype=torch.float64, device=device)
    target, copies = torch.empty_like(source), max(1, 2**24 // bytes_moved)

    def copy() -> None:
        for _ in range(copies):
            target.copy_(source)

    return interleaved({"copy": copy}, REPEATS, device=device)["copy"], copies


def copy_rate(bytes_moved: int, device: str = "cpu") -> float:
    """Largest measured bytes per second, read and written, of a copy that touches as much memory."""
    size = min(1 << max(12, (bytes_moved - 1).bit_length()), LARGEST)
    timing, copies = copy_timing(size, device)
    return size * copies / min(timing.seconds)


def seconds_of_products(flops: float, device: str = "cpu", dtype: str = "float32") -> float:
    """Seconds of so many FLOP at the rate of large products."""
    return flops / product_rate(dtype, device)


def seconds_of_moves(bytes_moved: int, device: str = "cpu", at_once: int | None = None) -> float:
    """Seconds of so many bytes at the rate of copies of ``at_once`` bytes, or of all of them."""
    return bytes_moved / copy_rate(bytes_moved if at_once is None else at_once, device)


def flops_of(work: Callable[[], object]) -> int:
    """FLOP of all matrix products in a call."""
    counter = FlopCounterMode(display=False)
    with counter:
        work()
    return int(counter.get_total_flops())


def psi_flops(config: USFAConfig, actions: int = 1) -> float:
    """FLOP of ψ(s,a;z) by all heads for one z, without the part of the first layer on s, which many z share."""
    return config.heads * _layers(config, actions * config.dim)


def actor_flops(config: USFAConfig) -> float:
    """FLOP of the policy for one z."""
    return _layers(config, config.n_actions) if config.actor else 0.0


def _layers(config: USFAConfig, outputs: int) -> float:
    h = config.hidden
    return 2.0 * (config.dim * h + (config.layers - 1) * h * h + h * outputs)


def bytes_of_distinct_rows(model: BehaviorModel, n: int, seed: int, states: Int[Tensor, " R"]) -> int:
    """Bytes of the distinct ψ of n random z at the states of all runs, which a table reads to score them."""
    everywhere = torch.arange(int(states.max()) + 1, device=states.device)
    psi = model.psi(everywhere, model.sample_z(n, seed)).double()
    scale = 1e-6 * psi.abs().max()
    rows = torch.tensor([len(torch.unique((here / scale).round(), dim=0)) for here in psi])
    return int(rows[states.cpu().unique()].sum()) * model.dim * NUMBER


def diameter(world: FiniteWorld) -> int:
    """Most steps between two states: the sweeps after which a value has reached every state."""
    return int(shortest_path(adjacency(world), unweighted=True).max())
