"""What is shipped: the wheel holds the models and no tests, needs its core dependencies only, and works alone."""

import email
import json
import os
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from package import ROOT, build, closure, readme_program
from zscout.models.files.pretrained import shipped

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
BLOCKER = """
import json, sys

class Blocked:
    names = set(json.loads({names!r}))

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self.names:
            raise ModuleNotFoundError(f"{{name}} is no core dependency", name=name)

sys.meta_path.insert(0, Blocked())
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return build(tmp_path_factory.mktemp("dist"))


@pytest.mark.long
def test_wheel_and_sdist_hold_the_models_and_no_tests(built: tuple[Path, Path]) -> None:
    wheel, sdist = built
    with zipfile.ZipFile(wheel) as content:
        in_wheel = content.namelist()
    with tarfile.open(sdist) as archive:
        in_sdist = [name.partition("/src/")[2] or name.partition("/")[2] for name in archive.getnames()]
    for names, whole in ((in_wheel, wheel), (in_sdist, sdist)):
        assert {f"zscout/models/shipped/{model}/model.safetensors" for model in shipped()} <= set(names)
        assert "zscout/py.typed" in names
        assert any(name.startswith("zscout/live/") and name.endswith(".js") for name in names)  # the page
        strangers = ("test", "reproduction", "benchmarks", "docs", "out", ".venv", ".github")
        assert not [name for name in names if name.startswith(strangers) or "__pycache__" in name]
        assert whole.stat().st_size <= 14.5e6
    outside = {name.partition("/")[0] for name in in_wheel} - {"zscout"}
    assert len(outside) == 1  # the metadata
    assert {"pyproject.toml", "README.md", "LICENSE"} <= set(in_sdist)


@pytest.mark.long
def test_the_metadata_asks_for_the_core_only(built: tuple[Path, Path]) -> None:
    with zipfile.ZipFile(built[0]) as content:
        (name,) = [name for name in content.namelist() if name.endswith(".dist-info/METADATA")]
        about = email.message_from_bytes(content.read(name))
    needs = [Requirement(text) for text in about.get_all("Requires-Dist", [])]
    core = {need.name: str(need.specifier) for need in needs if need.marker is None}
    assert core == {need.name: str(need.specifier) for need in map(Requirement, PROJECT["dependencies"])}
    assert not {"ray", "mujoco", "starlette", "mkdocs"} & set(core)
    assert set(about.get_all("Provides-Extra", [])) == set(PROJECT["optional-dependencies"])
    assert about["Requires-Python"] == ">=3.11"
    versions = [line.rpartition(" ")[2] for line in about.get_all("Classifier", []) if "Python :: 3." in line]
    assert versions == ["3.11", "3.12", "3.13"]


@pytest.mark.long
def test_the_wheel_alone_runs_the_ten_lines_with_the_core_only(built: tuple[Path, Path], tmp_path: Path) -> None:
    with zipfile.ZipFile(built[0]) as content:
        content.extractall(tmp_path / "wheel")
    core = closure(PROJECT["dependencies"])
    owners = packages_distributions()
    blocked = [top for top, names in owners.items() if not {canonicalize_name(name) for name in names} & core]
    blocked = [top for top in blocked if top != "zscout"]
    assert {"pytest", "starlette", "beartype"} <= set(blocked)  # or this test could not fail
    (tmp_path / "sitecustomize.py").write_text(BLOCKER.format(names=json.dumps(blocked)))
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(tmp_path / "wheel")])}
    checks = """
import zscout
print(zscout.__file__)
try:
    import pytest
    print("pytest was imported")
except ModuleNotFoundError as error:
    print(error)
"""
    command = [sys.executable, "-c", readme_program() + checks]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("1.0 tensor([")
    assert done.stdout.splitlines()[-2:] == [
        str(tmp_path / "wheel" / "zscout" / "__init__.py"),
        "pytest is no core dependency",
    ]
