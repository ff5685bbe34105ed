"""Set-up says what it does while it does it, and tests are repeated without losing what was logged."""

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import installing
from waiting import PATIENCE, until

TESTS = Path(__file__).parent
PIP = """
import pathlib, time
print("Collecting numpy\\n  Downloading numpy-2.4.1-cp313-linux.whl.metadata (6 kB)", flush=True)
print("  Downloading numpy-2.4.1-cp313-linux.whl (16 MB)\\nInstalling collected packages: numpy", flush=True)
while not pathlib.Path("seen").exists():
    time.sleep(0.02)
raise SystemExit(3)
"""


def test_an_installer_is_heard_also_while_it_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []

    def hear(text: str, flush: bool) -> None:
        said.append(text.strip())
        if said[-1].startswith("… Installing"):
            (tmp_path / "seen").touch()

    monkeypatch.setattr(installing, "SILENCE", 0.2)
    monkeypatch.setattr("builtins.print", hear)
    assert installing.run([sys.executable, "-c", PIP], installing.PIP, cwd=tmp_path) == 3
    fetched = [line for line in said if not line.startswith("…")]
    assert fetched == ["Downloading numpy-2.4.1 (16 MB)", "Installing"]
    assert re.fullmatch(r"… Installing collected packages: numpy, \d+ s", said[-1])


def test_a_stopped_repetition_goes_on_where_its_log_ends(tmp_path: Path) -> None:
    (tmp_path / "test_one.py").write_text("def test_one(): pass")
    (tmp_path / "test_two.py").write_text(
        "import pathlib, signal\ndef test_two():\n    path = pathlib.Path(__file__).with_name('mark')\n"
        "    if not path.exists():\n        path.touch()\n        signal.pause()\n    assert False, 'as it should'\n"
    )
    log, files = tmp_path / "log", [str(tmp_path / f"test_{name}.py") for name in ("one", "two")]
    command = [sys.executable, str(TESTS / "again.py"), "--log", str(log), "--times", "1", "--loops", "1", *files]
    heard = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.default_int_handler)}
    first = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **heard)  # type: ignore[call-overload]
    until((tmp_path / "mark").exists, "the second file is not begun")
    first.send_signal(signal.SIGINT)
    assert "passed" in first.communicate(timeout=PATIENCE)[0]
    again = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert again.returncode == 1
    assert "test_one.py" not in again.stdout
    assert "1 of 2 failed" in again.stdout
    rows = [json.loads(line) for line in log.read_text().splitlines() if line]
    assert [row["passed"] for row in rows] == [True, False]
