"""What this machine can do at most, measured in the same run: products and copies, which nothing can outrun."""

from collections.abc import Callable
from functools import cache

import torch
from torch.utils.flop_counter import FlopCounterMode

from zscout.lab.bench.clock import Timing, interleaved

SIDE = {"cpu": 1024, "cuda": 8192}  # of the matrices
REPEATS = 7
LARGEST = 2**28  # bytes of a copy: more than any cache holds
DTYPES = {"float32": torch.float32, "float64": torch.float64}


@cache
def product_timing(dtype: str, device: str = "cpu") -> Timing:
    """A product of two square matrices, again and again."""
    a, b = (torch.ones(side(device), side(device), dtype=DTYPES[dtype], device=device) for _ in range(2))
    return interleaved({"product": lambda: a @ b}, REPEATS, device=device)["product"]


def product_rate(dtype: str, device: str = "cpu") -> float:
    """FLOP a second, at best."""
    return 2 * side(device) ** 3 / min(product_timing(dtype, device).seconds)


def side(device: str) -> int:
    """Of the matrices that are multiplied: large enough to show what the device can do."""
    return SIDE[device.split(":")[0]]


@cache
def copy_timing(bytes_moved: int, device: str = "cpu") -> tuple[Timing, int]:
    """Copies that read half of so many bytes and write the other half, and how many of them one call does."""
    source = torch.ones(max(1, bytes_moved // 16), dtype=torch.float64, device=device)
    target, copies = torch.empty_like(source), max(1, 2**24 // bytes_moved)

    def copy() -> None:
        for _ in range(copies):
            target.copy_(source)

    return interleaved({"copy": copy}, REPEATS, device=device)["copy"], copies


def copy_rate(bytes_moved: int, device: str = "cpu") -> float:
    """Bytes a second, read or written, at best, by a copy that touches as much memory: what fits a cache is faster."""
    size = min(1 << max(12, (bytes_moved - 1).bit_length()), LARGEST)
    timing, copies = copy_timing(size, device)
    return size * copies / min(timing.seconds)


def seconds_of_products(flops: float, device: str = "cpu", dtype: str = "float32") -> float:
    """That so many FLOP take at the rate of large products."""
    return flops / product_rate(dtype, device)


def seconds_of_moves(bytes_moved: int, device: str = "cpu", at_once: int | None = None) -> float:
    """That so many bytes take by copies, of which ``at_once`` are touched again and again, or all once."""
    return bytes_moved / copy_rate(bytes_moved if at_once is None else at_once, device)


def flops_of(work: Callable[[], object]) -> int:
    """Of all matrix products that a call does."""
    counter = FlopCounterMode(display=False)
    with counter:
        work()
    return int(counter.get_total_flops())
