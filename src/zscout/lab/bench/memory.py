"""Peak memory, in processes of their own that do the same work at growing sizes."""

import json
import sys
from collections.abc import Mapping, Sequence
from multiprocessing import get_context
from pathlib import Path

import torch

from zscout.lab.bench.start_up import start

STATUS = Path("/proc/self/status")


def peaks(sizes: Mapping[str, Sequence[int]]) -> dict[str, tuple[int, ...]]:
    """For each axis the bytes beyond what its process had before, after each size; nothing where no system tells."""
    if sys.platform == "win32":
        return {}
    found: dict[str, list[int]] = json.loads(start("-m", __name__, json.dumps({a: list(s) for a, s in sizes.items()})))
    return {axis: tuple(numbers) for axis, numbers in found.items()}


def peak_bytes() -> int:
    """The most that this process ever had."""
    if STATUS.exists():  # what getrusage says begins with what the parent had
        (line,) = (line for line in STATUS.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    import resource  # not on every system

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def peaks_of_axis(axis: str, sizes: Sequence[int]) -> list[int]:
    """In a process that has done nothing yet but import."""
    from zscout.lab.bench.growth import AXES  # which asks this module for the numbers

    torch.set_num_threads(1)
    prepare = next(iter(AXES[axis].work.values()))
    prepare(sizes[0])()  # what any size needs
    before, found = peak_bytes(), []
    for size in sizes:
        prepare(size)()
        found.append(peak_bytes() - before)
    return found


def main(sizes: Mapping[str, Sequence[int]]) -> None:
    """The child's part: a fork of itself for each axis, so that all begin alike; the peaks as JSON."""
    import zscout.lab.bench.growth  # noqa: F401, so that the forks need not

    with get_context("fork").Pool(1, maxtasksperchild=1) as pool:
        print(json.dumps(dict(zip(sizes, pool.starmap(peaks_of_axis, sizes.items(), chunksize=1), strict=True))))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
