"""Ctrl-C in a terminal reaches every process of a command: it ends in one line, whatever it is doing."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from live import family
from waiting import PATIENCE, until

ROOT = Path(__file__).parent.parent
SCRIPT = "import sys\nfrom zscout.cli import main\nsys.exit(main())\n"  # as pip writes it
COMPARE = ("compare", "--methods", "greedy", "--tasks", "1000", "--steps", "20", "--jobs", "2", "--out", "runs")
LEAGUE = ("-m", "benchmarks.league", "--out", "league.json", "--workers", "2", "--only", "open-grid")
REPRODUCE = ("-m", "reproduction", "--quick")
BEGINNINGS = {"zscout": ("-m", "zscout", *COMPARE), "reproduction": REPRODUCE, "benchmarks": LEAGUE}


def loading(process: int, library: str) -> bool:
    """Whether a process has begun to load a library."""
    with suppress(OSError):  # it has just ended
        return library in Path(f"/proc/{process}/maps").read_text()
    return False


def workers(process: int) -> list[int]:
    """The worker processes of a process, from when they begin."""
    found = []
    with suppress(OSError):
        for one in family(process)[1:]:
            if "spawn_main" in Path(f"/proc/{one}/cmdline").read_text():
                found.append(one)
    return found


MOMENTS: dict[str, Callable[[int], object]] = {
    "begins": lambda pid: loading(pid, "_multiarray_umath"),  # numpy, the first that takes long
    "loads torch": lambda pid: loading(pid, "libtorch_cpu"),
    "starts a worker": workers,
}


@contextmanager
def terminal(*words: str, folder: Path) -> Iterator["subprocess.Popen[str]"]:
    """Start Python in a group of its own, as a terminal does."""
    process = subprocess.Popen(
        [sys.executable, *words],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))},
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # ignored in background shells
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def ctrl_c(process: "subprocess.Popen[str]") -> tuple[int, str]:
    """The exit code and what is said on stderr, when Ctrl-C has ended it and all that it started."""
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=PATIENCE)  # until the last process has closed its stderr
    return process.returncode, said


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("words", BEGINNINGS.values(), ids=BEGINNINGS)
def test_ctrl_c_ends_in_one_line(words: tuple[str, ...], moment: str, tmp_path: Path) -> None:
    with terminal(*words, folder=tmp_path) as process:
        until(lambda: MOMENTS[moment](process.pid) or process.poll() is not None, f"it never {moment}")
        code, said = ctrl_c(process)
    assert (code, said.count("\n")) == (130, 1), said
    assert said.startswith("zscout: stopped")


def test_ctrl_c_ends_the_installed_script_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "zscout").write_text(SCRIPT)
    with terminal("zscout", *COMPARE, folder=tmp_path) as process:
        until(lambda: MOMENTS["begins"](process.pid) or process.poll() is not None, "it never begins")
        code, said = ctrl_c(process)
    assert (code, said.count("\n")) == (130, 1), said


def test_a_worker_that_begins_never_gets_ctrl_c(tmp_path: Path) -> None:
    with terminal("-m", "zscout", *COMPARE, folder=tmp_path) as process:
        until(lambda: workers(process.pid) or process.poll() is not None, "there are no workers")
        for one in workers(process.pid):
            os.kill(one, signal.SIGINT)
        assert process.stdout is not None
        assert "runs in" in process.stdout.readline()
        code, said = ctrl_c(process)
    assert (code, said.count("\n")) == (130, 1), said


def test_ctrl_c_ends_the_work_of_a_benchmark_in_one_line(tmp_path: Path) -> None:
    with terminal("-u", "-m", "benchmarks.offsets", folder=tmp_path) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("model")
        code, said = ctrl_c(process)
    assert (code, said.count("\n")) == (130, 1), said


def test_another_program_keeps_its_own_ctrl_c() -> None:
    code = "import signal, zscout, benchmarks\nprint(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert done.stdout == "True\n"
