"""Asking for help, or importing the package, must not wait for torch."""

import subprocess
import sys

import pytest

import zscout

OPTIONAL = ("mujoco", "dm_control", "onnx", "onnxruntime", "huggingface_hub", "ray")
ORDER = ("zscout", "gymnasium")
HEAVY = ("torch", "scipy", "matplotlib", "benchmarks", "reproduction", *OPTIONAL)


def loaded_after(code: str) -> set[str]:
    script = f"import sys\n{code}\nprint(*[m for m in {HEAVY} if m in sys.modules], sep='\\n', file=sys.stderr)"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(run.stderr.split())


def test_importing_zscout_loads_nothing_heavy() -> None:
    assert loaded_after("import zscout; dir(zscout); zscout.__version__") == set()
    bodies = "[zscout.load(f'{name}-fb') for name in ('walker', 'cheetah', 'quadruped')]"  # without their physics
    after = loaded_after(f"import zscout; zscout.worlds; zscout.load('grid9-clusters'); zscout.export; {bodies}")
    assert "torch" in after  # or this test could not fail
    assert not after & set(OPTIONAL)


@pytest.mark.parametrize("words", [["--help"], ["transfer", "--help"]])
def test_help_loads_nothing_heavy(words: list[str]) -> None:
    code = f"from zscout.cli import main\ntry: main({words})\nexcept SystemExit as stop: assert not stop.code"
    assert loaded_after(code) == set()


def test_environments_are_registered_whatever_is_imported_first() -> None:
    code = "import {}\nimport {}\nprint(gymnasium.make('zscout/Maze-v0').observation_space)"
    commands = [[sys.executable, "-c", code.format(*order)] for order in (ORDER, ORDER[::-1])]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for command in commands]
    assert [process.communicate()[0] for process in started] == ["Discrete(129)\n"] * 2


def test_every_public_name_is_there_and_no_other() -> None:
    for name in zscout.__all__:
        assert getattr(zscout, name) is getattr(zscout, name)
    with pytest.raises(AttributeError, match="has no attribute 'ExactModell'; it has .*ExactModel"):
        _ = zscout.ExactModell
