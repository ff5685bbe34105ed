"""Commands and programs in processes of their own, forked from one that has imported torch and zscout once."""

import os
import re
import sys
import warnings
from collections.abc import Callable, Sequence
from multiprocessing import get_context
from pathlib import Path
from subprocess import CompletedProcess
from tempfile import TemporaryDirectory
from typing import Any

SERVER = get_context("forkserver")
PRELOADED = ["zscout.lab.compare.tuning", "zscout.lab.compare.comparison", "zscout.lab.compare.tables", "zscout.cli"]
SERVER.set_forkserver_preload(PRELOADED)


def run_zscout(words: Sequence[str], folder: Path) -> "CompletedProcess[str]":
    """``zscout words`` in a folder."""
    return _forked(_zscout, list(words), folder)


def run_programs(codes: Sequence[str], folder: Path) -> "CompletedProcess[str]":
    """Programs one after the other in one process; those that begin with ``# name.py`` are saved under that name.

    A warning is an error.
    """
    return _forked(_programs, list(codes), folder)


def _zscout(words: list[str]) -> None:
    from zscout.cli import main

    sys.argv = ["zscout", *words]
    main()


def _programs(codes: list[str]) -> None:
    warnings.simplefilter("error")
    sys.path.insert(0, "")  # as python has it: a program may import one that a reader saved before
    for code in codes:
        if saved := re.match(r"# (\w+\.py)\n", code):
            Path(saved[1]).write_text(code)
        exec(compile(code, "program", "exec"), {"__name__": "__main__"})


def _forked(target: Callable[[list[str]], None], words: list[str], folder: Path) -> "CompletedProcess[str]":
    with TemporaryDirectory() as scratch:
        files = [Path(scratch, name) for name in ("out", "err")]
        process: Any = SERVER.Process(target=_redirected, args=(target, words, folder, files))
        process.start()
        process.join()
        return CompletedProcess(words, process.exitcode, *(file.read_text() for file in files))


def _redirected(target: Callable[[list[str]], None], words: list[str], folder: Path, files: list[Path]) -> None:
    os.chdir(folder)
    for number, file in enumerate(files, 1):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT), number)
    target(words)
