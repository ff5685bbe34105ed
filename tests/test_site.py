"""The site has every page, and the page of public names every public name. ``make docs`` builds it."""

import re
from pathlib import Path

import zscout

ROOT = Path(__file__).parents[1]
NAV = (ROOT / "mkdocs.yml").read_text().split("\nnav:\n")[1]
API = (ROOT / "docs" / "api.md").read_text()


def in_nav() -> list[str]:
    return re.findall(r"^ +- .+: (\S+\.md)$", NAV, re.MULTILINE)


def test_every_page_is_in_the_navigation_once() -> None:
    pages = in_nav()
    assert len(pages) == len(set(pages))
    inside = {page for page in pages if not page.startswith("project/")}
    assert inside == {page.relative_to(ROOT / "docs").as_posix() for page in ROOT.glob("docs/**/*.md")}
    outside = {page.removeprefix("project/") for page in pages if page.startswith("project/")}
    assert outside == {page.name for page in ROOT.glob("*.md")}


def test_every_public_name_is_on_its_page() -> None:
    named = re.findall(r"^::: zscout\.(\S+)$", API, re.MULTILINE)
    modules = ("adapters", "features", "worlds")
    inside = [f"{module}.{name}" for module in modules for name in getattr(zscout, module).__all__]
    assert sorted(named) == sorted([*(name for name in zscout.__all__ if name not in modules), *inside])


def test_the_site_loads_nothing_from_elsewhere() -> None:
    settings = (ROOT / "mkdocs.yml").read_text()
    assert "font: false" in settings
    assert not re.search(r"^extra_(javascript|css):|https?://", settings, re.MULTILINE)


def test_the_citation_has_the_version() -> None:
    citation = (ROOT / "CITATION.cff").read_text()
    assert re.findall(r"^version: (.+)$", citation, re.MULTILINE) == [zscout.__version__]


def test_the_changelog_begins_with_the_version() -> None:
    assert re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[0] == zscout.__version__


def test_every_target_of_make_has_its_line_of_help() -> None:
    text = (ROOT / "Makefile").read_text()
    [targets] = re.findall(r"^\.PHONY: (.+)$", text, re.MULTILINE)
    assert sorted(re.findall(r"^([a-z-]+):.* ## \w", text, re.MULTILINE)) == sorted(targets.split())


def test_ci_runs_every_python_that_the_package_names() -> None:
    named = re.findall(r"Python :: (3\.\d+)", (ROOT / "pyproject.toml").read_text())
    [matrix] = re.findall(r"python: \[(.+)\]", (ROOT / ".github/workflows/checks.yml").read_text())
    assert [one.strip('" ') for one in matrix.split(",")] == named
