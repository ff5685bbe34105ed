"""Every command and program in README and docs is run, and every link leads somewhere."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(language: str) -> list[tuple[str, str]]:
    found = [(page.name, code) for page in PAGES for kind, code in BLOCK.findall(page.read_text()) if kind == language]
    assert found, f"no {language} block in any page"
    return found


@pytest.mark.parametrize(("page", "code"), blocks("python"))
def test_programs_run(page: str, code: str, tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, f"{page}: {done.stderr}"


def test_the_readmes_program_does_what_its_comment_says() -> None:
    ((_, code),) = [block for block in blocks("python") if block[0] == "README.md"]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("1.0 tensor([")


@pytest.mark.parametrize(("page", "code"), blocks("bash"))
def test_commands_run(page: str, code: str, tmp_path: Path) -> None:
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for line in code.splitlines():
        program, *words = line.split("#")[0].split()
        if program == "make":  # would run these tests within themselves
            assert words[0] in targets, f"{page}: {line}"
        else:
            assert program == "zscout", f"{page}: {line}"
            command = [sys.executable, "-m", "zscout", *words, *([] if "--quick" in words else ["--quick"])]
            done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
            assert done.returncode == 0, f"{page}: {done.stderr}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    prose = BLOCK.sub("", page.read_text())
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", prose):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
