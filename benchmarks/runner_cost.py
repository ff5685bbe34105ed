"""What ``--runner`` costs: the start, and one chunk that computes nothing and answers with 50 rows.

``python -m benchmarks.runner_cost``; needs the extra ray; the numbers are in results/2026-11-cluster.md.
"""

import os
import statistics
import time
from collections.abc import Sequence
from contextlib import closing

from zscout.lab.arenas.arena import Tasks
from zscout.lab.arenas.grid import GridArena
from zscout.lab.compare.comparison import Entrant
from zscout.lab.runs.executor import executor_named
from zscout.lab.runs.spec import Spec

RUNS, ROW, TIMES = 50, 13_258, 60  # bytes of a row: benchmarks.store_limits


def answer(specs: Sequence[Spec]) -> bytes:
    """As many bytes as the rows of these runs."""
    return os.urandom(ROW * len(specs))


def main() -> None:
    """Print two lines for each runner."""
    specs = Entrant(GridArena(), "greedy", tasks=Tasks(RUNS, 1)).specs
    for runner in ("local", "ray"):
        began = time.perf_counter()
        with closing(executor_named(runner, jobs=2)) as executor:
            executor.submit(answer, specs).result()
            print(f"{runner}: first answer after {time.perf_counter() - began:.1f} s")
            waits, began = [], time.process_time()
            for _ in range(TIMES):
                asked = time.perf_counter()
                executor.submit(answer, specs).result()
                waits.append(1e3 * (time.perf_counter() - asked))
            ours = 1e3 * (time.process_time() - began) / TIMES
            median = statistics.median(waits)
            print(f"{runner}: a chunk {min(waits):.1f} ms at least, median {median:.1f} ms; our CPU {ours:.1f} ms")


if __name__ == "__main__":
    main()
