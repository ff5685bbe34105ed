"""Install zscout with the lowest version of everything that pyproject.toml allows, and see that it works.

    make minimum

makes `.venv-minimum` and runs a comparison and the tests below in it, which use every dependency.
"""

import re
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / ".venv-minimum"
TOOLS = ["pytest>=8.2,<10", "pytest-xdist>=3.6,<4", "hypothesis>=6.100,<7", "beartype>=0.19,<1"]
PYTEST = ["-m", "pytest", "-q", "-W", "ignore::DeprecationWarning"]  # old packages call each other's old names
TESTS = [
    "test_agent.py",
    "test_posterior.py",
    "test_usfa.py",
    "test_gym.py",
    "test_live_connections.py",
    "test_figures.py",
]


def lowest(requirements: list[str]) -> list[str]:
    """``name>=1.2,<3`` as ``name==1.2``."""
    found = [re.match(r"([\w-]+)>=([\w.]+)", requirement) for requirement in requirements]
    return [f"{match[1]}=={match[2]}" for match in found if match]


def main() -> None:
    """Install, then run."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pins = lowest(project["dependencies"]) + lowest(project["optional-dependencies"]["live"])
    constraints = FOLDER / "constraints.txt"
    venv.create(FOLDER, with_pip=True, clear=True)
    constraints.write_text("\n".join(pins) + "\n")
    print("\n".join(pins), flush=True)
    python = str(FOLDER / "bin" / "python")
    install = [python, "tests/installing.py"]
    subprocess.run([*install, "--constraint", str(constraints), ".[live]", *TOOLS], cwd=ROOT, check=True)
    tests = [f"tests/{name}" for name in TESTS]
    for words in (["-m", "zscout", "compare", "--quick", "--out", str(FOLDER / "out")], [*PYTEST, *tests]):
        if code := subprocess.run([python, *words], cwd=ROOT).returncode:
            sys.exit(code)


if __name__ == "__main__":
    main()
