"""Load of the live page: ``python -m benchmarks.live_load`` starts the server and plays many visitors on it.

Step k is due k ÷ speed after a visitor's play message. Its latency is the time from then until its frame arrives, so a
server that falls behind stays late. A step counts as delivered if it arrives at most a second after the end.
"""

import asyncio
import contextlib
import json
import os
import re
import statistics
import sys
import time
from asyncio.subprocess import PIPE, Process, create_subprocess_exec
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import tyro
from rich.console import Console
from rich.progress import BarColumn, Progress, TimeRemainingColumn
from rich.table import Table
from websockets.asyncio.client import ClientConnection, connect

from zscout.base.files import write_json

GRACE = 1.0  # seconds after the end
STEP = re.compile(r'{"is":"frame","step":(\d+)')


@dataclass(frozen=True)
class Load:
    """Visitors that play at the same time, and the steps that each of them gets."""

    visitors: int = 20
    """Visitors who read what they are sent."""
    speed: float = 10.0
    """Steps a second of each visitor."""
    seconds: float = 30.0
    """Seconds of play."""
    model: Literal["network", "exact"] = "exact"
    """Model of their runs."""
    features: str = "laplacian-fine"
    """Features, as on the page; a network takes laplacian."""
    world: str = "open-grid"
    """World of their runs; a body has its own model and features."""
    slow: int = 0
    """Further visitors who play and never read."""
    json: Path | None = None
    """Also write the numbers to this file."""

    @property
    def wanted(self) -> int:
        """Steps of one visitor."""
        return round(self.speed * self.seconds)


class Visitor:
    """One page with its own seed and a random task or a painted patch."""

    def __init__(self, load: Load, number: int, socket: ClientConnection) -> None:
        self.late: list[float] = []  # seconds, step by step
        self._load, self._number, self._socket = load, number, socket

    async def begin(self) -> None:
        """Begin a run and wait for its first status."""
        setup: dict[str, Any] = {"world": self._load.world, "seed": self._number, "reward": {"task": self._number}}
        if self._load.world == "open-grid":
            setup |= {"model": self._load.model, "features": self._load.features}
            if self._number % 2:
                setup["reward"] = {"table": [5.0, 5.0, *[0.0] * 79]}
        await self._socket.send(json.dumps({"do": "begin", "setup": setup}))
        async for text in self._socket:
            content = json.loads(text)
            if content["is"] == "error":
                raise ValueError(content["about"])
            if content["is"] == "status":
                return

    async def play(self) -> float:
        """Start to play, and return the time of the message."""
        await self._socket.send(json.dumps({"do": "speed", "value": self._load.speed}))
        began = time.monotonic()
        await self._socket.send(json.dumps({"do": "play"}))
        return began

    async def watch(self) -> None:
        """Play for the measured time, started with an offset so that visitors do not step together."""
        await asyncio.sleep(self._number / self._load.visitors / self._load.speed)
        began = await self.play()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._load.seconds + GRACE):
                async for text in self._socket:
                    if (found := STEP.match(str(text))) and 1 <= int(found[1]) <= self._load.wanted:
                        self.late.append(time.monotonic() - began - int(found[1]) / self._load.speed)


def family(pid: int) -> list[int]:
    """The ids of a process and of all its descendants."""
    lists = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children")]
    return [pid, *(grown for line in lists for word in line.split() for grown in family(int(word)))]


def resident(pid: int) -> int:
    """Resident bytes of a process and its descendants."""
    sizes = [re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{one}/status").read_text()) for one in family(pid)]
    return sum(1024 * int(size[1]) for size in sizes if size is not None)


def cpu(pid: int) -> float:
    """Processor seconds used by a process and its descendants."""
    ticks = [Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()[11:13] for one in family(pid)]
    return sum(int(tick) for pair in ticks for tick in pair) / os.sysconf("SC_CLK_TCK")


async def measured(load: Load, console: Console) -> dict[str, Any]:
    """All measured numbers, by name."""
    words = ["--no-browser", "--port", "0", "--visitors", str(load.visitors + load.slow)]
    program = [sys.executable, "-m", "zscout", "live", *words, "--steps", str(max(1_000, load.wanted + 100))]
    server = await create_subprocess_exec(
        *program, stdout=PIPE, start_new_session=True
    )  # Ctrl-C reaches this process only
    try:
        address, pid = await _address(server), server.pid
        async with connect(address, open_timeout=None, proxy=None) as first:
            await first.recv()  # the greeting of a server that is ready
        memory = {"before": resident(pid)}
        async with contextlib.AsyncExitStack() as stack:
            visitors = []
            for number in range(load.visitors + load.slow):
                connecting = connect(address, open_timeout=None, close_timeout=1, proxy=None, max_queue=1)
                visitors.append(Visitor(load, number, await stack.enter_async_context(connecting)))
                await visitors[-1].begin()
            memory["begun"], there = resident(pid), visitors[: load.visitors]
            await asyncio.gather(*(deaf.play() for deaf in visitors[load.visitors :]))
            used, began = cpu(pid), time.monotonic()
            await asyncio.gather(_bar(load.seconds, console), *(visitor.watch() for visitor in there))
            share, memory["end"] = (cpu(pid) - used) / (time.monotonic() - began), resident(pid)
            server.terminate()  # also ends the connections
    finally:
        if server.returncode is None:
            server.terminate()
        await server.wait()
    late = sorted(second for visitor in there for second in visitor.late) or [load.seconds]
    steps, wanted = [len(visitor.late) for visitor in there], load.visitors * load.wanted
    return {
        "load": {name: value for name, value in asdict(load).items() if name != "json"},
        "cores": os.cpu_count(),
        "steps": {"wanted": wanted, "delivered": sum(steps), "share": sum(steps) / wanted},
        "rate": {"least": min(steps) / load.seconds, "mean": statistics.mean(steps) / load.seconds},
        "latency": {"median": statistics.median(late), "p99": late[int(0.99 * (len(late) - 1))], "greatest": late[-1]},
        "memory": {**memory, "visitor": (memory["end"] - memory["before"]) / len(visitors)},
        "cpu": share,
    }


async def _bar(seconds: float, console: Console) -> None:
    with Progress("visitors play", BarColumn(), TimeRemainingColumn(), console=console, transient=True) as bar:
        task = bar.add_task("", total=seconds)
        while not bar.finished:
            await asyncio.sleep(min(0.2, seconds))
            bar.update(task, completed=bar.tasks[task].elapsed)


async def _address(server: Process) -> str:
    assert server.stdout is not None
    async for line in server.stdout:
        if found := re.search(rb"http://(\S+)/(\S+)", line):
            return f"ws://{found[1].decode()}/ws{found[2].decode()}"
    raise ValueError("the server did not start")


def table_of(found: dict[str, Any]) -> Table:
    """The numbers as a table."""
    steps, rate, late, memory = (found[name] for name in ("steps", "rate", "latency", "memory"))
    about = ", ".join(f"{name} {value}" for name, value in (found["load"] | {"cores": found["cores"]}).items())
    rows = {
        "steps wanted, delivered": f"{steps['wanted']:,}, {steps['delivered']:,} ({steps['share']:.1%})",
        "steps a second: least, mean": f"{rate['least']:.2f}, {rate['mean']:.2f}",
        "latency, ms: median, 99th percentile, greatest": ", ".join(f"{1e3 * x:.0f}" for x in late.values()),
        "memory, MB: before, begun, end, a visitor": ", ".join(f"{x / 2**20:.1f}" for x in memory.values()),
        "processor seconds a second": f"{found['cpu']:.2f}",
    }
    table = Table("what", "measured", title=about, title_justify="left")
    for name, value in rows.items():
        table.add_row(name, value)
    return table


def main() -> None:
    """Measure, print a table, and write the numbers with ``--json``."""
    load, console = tyro.cli(Load, prog="python -m benchmarks.live_load"), Console()
    try:
        if load.visitors < 1 or load.slow < 0 or not 1 <= load.wanted <= 9_900:
            raise ValueError("there is at least one visitor, and each takes from 1 to 9900 steps")
        found = asyncio.run(measured(load, console))
    except ValueError as error:
        sys.exit(f"benchmarks.live_load: {error}")
    console.print(table_of(found))
    if load.json is not None:
        write_json(load.json, found)


if __name__ == "__main__":
    main()
