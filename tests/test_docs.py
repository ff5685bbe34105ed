"""Every command and program in README and docs is run, and every link leads somewhere."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageSequence

from benchmarks.transitions import collect
from commands import run_programs, run_zscout
from zscout.lab.training.fb import FBPretraining

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
OWN_MODEL = ROOT / "docs" / "bring-your-own-bfm.md"
YOUR_DATA = ROOT / "docs" / "your-data.md"  # its commands need a folder of episodes
LONG = [page for page in PAGES if page != ROOT / "README.md"]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(language: str, pages: list[Path]) -> list[tuple[str, str]]:
    found = [
        (name_of(page), code) for page in pages for kind, code in BLOCK.findall(page.read_text()) if kind == language
    ]
    assert found, f"no {language} block in any page"
    return found


def new_commands() -> list[tuple[str, list[str]]]:
    """The commands of each block, those left out that another block had before: each is run once.

    The commands of a block share a folder, so a later one may use what an earlier one of the same block wrote.
    """
    seen: set[str] = set()
    found = []
    for page, code in blocks("bash", [page for page in PAGES if page != YOUR_DATA]):
        lines = [line.split("#")[0].strip() for line in code.splitlines()]
        new = [line for line in dict.fromkeys(lines) if line and line not in seen]
        seen.update(new)
        if new:
            found.append((page, new))
    return found


PROGRAMS = [page for page in LONG if "```python" in page.read_text() and page != YOUR_DATA]


@pytest.mark.parametrize("page", PROGRAMS, ids=lambda page: page.stem)
@pytest.mark.long
def test_programs_run(page: Path, tmp_path: Path) -> None:
    """Those of a page in one process."""
    done = run_programs([code for _, code in blocks("python", [page])], tmp_path)
    assert done.returncode == 0, done.stderr
    if page == OWN_MODEL:  # the best place, and what a step costs
        report, place_and_calls, *lost = done.stdout.splitlines()
        assert re.match(r"all checks passed: ψ error \d(\.\d)?e-0[78] ", report)
        assert place_and_calls == "17 4.0 [10, 10, 10, 12]"
        assert {line.split()[0] for line in lost} == {"usf-ucb", "greedy"}


def test_the_readmes_programs_do_what_their_comments_say(tmp_path: Path) -> None:
    done = run_programs([code for _, code in blocks("python", [ROOT / "README.md"])], tmp_path)
    assert re.match(r"1\.0 \[.*\]\n", done.stdout), done.stderr
    assert done.stdout.endswith("\nnorth-east\n"), done.stderr


def test_the_first_picture_is_of_its_command_and_its_words_are_true(tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text()
    (command,) = re.findall(r"by `zscout (transfer .*?)`", readme)
    stays, worth = map(int, re.findall(r"from\s+step (\d+)", readme))
    assert run_zscout([*command.split(), "--json", "run.json"], tmp_path).returncode == 0
    steps = json.loads((tmp_path / "run.json").read_text())["steps"]
    best = steps[-1]["entered"]
    assert steps[-1]["regret"] < 1e-6
    assert best in [s["entered"] for s in steps[: stays - 3]]
    assert [s["entered"] == best for s in steps[stays - 2 :]] == [False] + [True] * (61 - stays)
    assert [s["value"] > 0.99 for s in steps[worth - 2 :]] == [False] + [True] * (61 - worth)
    drawn, shown = (last_frame(path) for path in (tmp_path / "transfer.gif", ROOT / "docs/images/transfer.gif"))
    assert np.abs(drawn - shown).mean() < 4  # another run: 8; then draw it again by that command


def last_frame(path: Path) -> np.ndarray:
    with Image.open(path) as picture:
        *_, last = ImageSequence.Iterator(picture)
        return np.asarray(last.convert("RGB"), float)


@pytest.mark.long
def test_a_folder_of_episodes_becomes_an_agent(tmp_path: Path) -> None:
    assert list(collect(FBPretraining(), tmp_path / "episodes", 4_200, 0))
    ((_, code),) = blocks("bash", [YOUR_DATA])
    for line in code.splitlines():
        done = run_zscout([*line.split("#")[0].split()[1:], "--quick"], tmp_path)
        assert done.returncode == 0, f"{line}: {done.stderr}"
    program = run_programs([code for _, code in blocks("python", [YOUR_DATA])], tmp_path)
    assert program.returncode == 0, program.stderr


@pytest.mark.long
def test_a_map_and_features_of_ones_own_are_compared_tuned_and_trained(tmp_path: Path) -> None:
    page = ROOT / "docs" / "own-map-and-features.md"
    assert run_programs([blocks("python", [page])[0][1]], tmp_path).returncode == 0
    for command in re.findall(r"^`zscout (.+)`$", page.read_text(), re.MULTILINE):
        done = run_zscout([*command.split(), "--quick"], tmp_path)
        assert done.returncode == 0, f"{command}: {done.stderr}"
        assert "failed" not in done.stdout


@pytest.mark.parametrize(("page", "commands"), new_commands())
@pytest.mark.long
def test_commands_run(page: str, commands: list[str], tmp_path: Path) -> None:
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for line in commands:
        program, *words = line.split()
        if program == "make":  # would run these tests within themselves
            assert words[0] in targets, f"{page}: {line}"
        elif program == "python":  # its own tests run it
            assert (ROOT / f"{words[1].replace('.', '/')}.py").is_file(), f"{page}: {line}"
        else:
            assert program == "zscout", f"{page}: {line}"
            small = {"export": []}.get(words[0], ["--quick"])  # an export is small
            done = run_zscout([*words, *(word for word in small if word not in words)], tmp_path)
            assert done.returncode == 0, f"{page}: {line}: {done.stderr}"


def headings(page: Path) -> set[str]:
    """The anchors that a page's headings give, as repositories make them."""
    titles = re.findall(r"^#+ (.+)$", BLOCK.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def test_links_lead_somewhere() -> None:
    for page in [*PAGES, *ROOT.glob("results/*.md")]:
        prose = re.sub("`[^`]*`", "", BLOCK.sub("", page.read_text()))  # code is no link, whatever its brackets
        for target, anchor in re.findall(r"\]\(([^)#\s]*)#?([^)\s]*)\)", prose):
            if "://" not in target:
                there = page.parent / target if target else page
                assert there.exists(), f"{page.name} links to {target}"
                assert not anchor or anchor in headings(there), f"{page.name} links to {target}#{anchor}"


def test_every_page_can_be_reached_from_the_index() -> None:
    index = ROOT / "docs" / "README.md"
    linked = {(index.parent / target).resolve() for target in re.findall(r"\]\(([^)#]+)", index.read_text())}
    assert {page for page in PAGES if page.parent == index.parent and page != index} <= linked


def test_readme_and_docs_stay_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 120
    assert sum(len(page.read_text().split()) for page in ROOT.glob("docs/**/*.md")) <= 20_000
