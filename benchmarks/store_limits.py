"""Limits of one store: bytes for each run, and runs for each CPU second of the process with the file.

``python -m benchmarks.store_limits``; the numbers are in results/2026-11-cluster.md.
"""

import pickle
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from zscout.lab.arenas.arena import Tasks
from zscout.lab.arenas.grid import GridArena
from zscout.lab.compare.comparison import Entrant
from zscout.lab.runs.chunks import run_and_seal, run_batch
from zscout.lab.runs.store import Sealed, Store

RUNS, STEPS, TIMES = 300, 200, 5


def seconds(work: Callable[[], object]) -> float:
    """The least CPU time of several calls: a busy machine does not count."""
    taken = []
    for _ in range(TIMES):
        began = time.process_time()
        work()
        taken.append(time.process_time() - began)
    return min(taken)


def main() -> None:
    """Print one line for each measure."""
    torch.set_num_threads(1)
    entrants = [Entrant(GridArena(), method, tasks=Tasks(RUNS, 1), steps=STEPS) for method in ("usf-ucb", "greedy")]
    for entrant in entrants:
        run_batch(entrant.specs[:50])  # tables of the model are made once
        taken = seconds(lambda entrant=entrant: run_batch(entrant.specs[:50])) / 50  # type: ignore[misc]
        print(f"{entrant.method}: {1 / taken:,.0f} runs a second on one core ({STEPS} steps, chunks of 50)")
    specs = entrants[1].specs
    records, chunk = run_batch(specs), run_and_seal(specs)
    print(f"sent to a worker: {len(pickle.dumps(specs, 5)) / RUNS:,.0f} bytes a run")
    print(f"sent back: {len(pickle.dumps(chunk, 5)) / RUNS:,.0f} bytes a run")
    print(
        f"rows made by workers: {RUNS / seconds(lambda: [Sealed.of(record) for record in records]):,.0f} runs a second"
    )
    with TemporaryDirectory() as folder:
        stores = [Store(Path(folder, str(number))) for number in range(2 * TIMES)]
        one_by_one = iter(stores)
        whole = seconds(lambda: next(one_by_one).add(records))
        began = time.perf_counter()
        rows = seconds(lambda: next(one_by_one).add(chunk.answers))
        commit = (time.perf_counter() - began) / TIMES
        for each in stores:
            each.close()
        print(f"stored, rows made in the same process: {RUNS / whole:,.0f} runs a second")
        print(
            f"stored, rows made by workers: {RUNS / rows:,.0f} runs a second; {commit * 1e3:.0f} ms a chunk with waits"
        )
        print(
            f"unpickled on arrival: {RUNS / seconds(lambda: pickle.loads(pickle.dumps(chunk, 5))):,.0f} runs a second"
        )
        with Store(Path(folder, "0")) as store:
            print(f"file: {store.path.stat().st_size / RUNS:,.0f} bytes a run")
            print(f"looked up before running: {RUNS / seconds(lambda: store.missing(specs)):,.0f} runs a second")
            print(f"checked when resumed: {RUNS / seconds(lambda: store.drop_damaged(specs)):,.0f} runs a second")
            numbers = seconds(lambda: [store.numbers(spec) for spec in specs])
            print(f"read for the table: {RUNS / numbers:,.0f} runs a second")


if __name__ == "__main__":
    main()
