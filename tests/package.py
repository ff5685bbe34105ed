"""Build the wheel and the sdist, and see that the wheel works where nothing but its own dependencies is installed.

    make package

leaves both files in `dist/`, installs the wheel in a new `.venv-package` and runs the program of the README there.
"""

import re
import subprocess
import sys
import time
import tomllib
import venv
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / ".venv-package"


def build(folder: Path) -> tuple[Path, Path]:
    """The wheel and the sdist, built in a folder without network."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-t", "sdist", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,), (sdist,) = folder.glob("zscout-*.whl"), folder.glob("zscout-*.tar.gz")
    return wheel, sdist


def readme_program() -> str:
    """The ten lines of the README, its first program."""
    code, *_ = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    return str(code)


def closure(requirements: Iterable[str], ours: str = "zscout") -> set[str]:
    """Names of the installed distributions that these requirements need, with those that they need in turn."""
    found: set[str] = set()
    waiting = [(Requirement(text), "") for text in requirements]
    while waiting:
        requirement, extra = waiting.pop()
        name = canonicalize_name(requirement.name)
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
            continue
        if name == ours or (name in found and not requirement.extras):
            continue
        try:
            needs = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            continue
        known = name in found
        found.add(name)
        wanted = requirement.extras if known else {"", *requirement.extras}
        waiting += [(Requirement(text), each) for text in needs for each in wanted if each or "extra ==" not in text]
    return found


def megabytes(names: Iterable[str]) -> float:
    """The size of installed distributions on the disk."""
    files = [file for name in names for file in metadata.files(name) or []]
    return sum(Path(str(file.locate())).stat().st_size for file in files if Path(str(file.locate())).is_file()) / 1e6


def main() -> None:
    """Build, install, run, and tell sizes and times."""
    began = time.perf_counter()
    for old in (ROOT / "dist").glob("zscout-*"):
        old.unlink()
    files = build(ROOT / "dist")
    for file in files:
        print(f"dist/{file.name}: {file.stat().st_size / 1e6:.1f} MB")
    built = time.perf_counter()
    venv.create(FOLDER, with_pip=True, clear=True)
    python = str(FOLDER / "bin" / "python")
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(files[0])]
    subprocess.run(pip, check=True)
    installed = time.perf_counter()
    done = subprocess.run([python, "-c", readme_program()], cwd=FOLDER, check=True, capture_output=True, text=True)
    if not done.stdout.startswith("1.0 tensor(["):
        sys.exit(f"the program of the README printed {done.stdout!r}")
    ran = time.perf_counter() - installed
    print(f"build {built - began:.0f} s, install {installed - built:.0f} s, first run of the ten lines {ran:.0f} s")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    core = closure(project["dependencies"])
    print(f"core: {len(core)} packages, {megabytes(core):,.0f} MB on the disk")
    for extra, requirements in project["optional-dependencies"].items():
        more = closure(requirements) - core
        print(f"[{extra}]: {len(more)} more packages that are installed here, {megabytes(more):,.0f} MB")


if __name__ == "__main__":
    main()
