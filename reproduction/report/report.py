"""The story as a folder: the page, and every figure and table as separate files."""

import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

from matplotlib.figure import Figure

from reproduction.report.figures import framework
from reproduction.report.figures.figures import draw, palettes, save_figure
from reproduction.report.model import Story
from reproduction.report.page import check, render
from zscout.base.files import write_bytes
from zscout.base.markup import plain
from zscout.lab.compare.tables import TextTable, to_csv, to_markdown
from zscout.watch.ink import BACKGROUND, CAPTION, INK, Palette, without_caption

_SPACE, _LINK = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xlink}href"
_POINTER = re.compile(r"url\(#([^)]+)\)")


def number_of_files(story: Story) -> int:
    """How many files ``written_files`` writes."""
    pictures = 1 + sum(len(palettes(figure)) for section in story.sections for figure in section.figures)
    return 2 * (pictures + 1 + sum(len(section.tables) for section in story.sections)) + 1


def written_files(story: Story, folder: Path) -> Iterator[Path]:
    """``figures/`` (SVG and PNG, rewards in both palettes), ``tables/`` (CSV and Markdown) and ``report.html``.

    Yields each file as soon as it is written.
    """
    check(story)  # first: an invalid story writes nothing
    pictures: dict[str, dict[Palette, str]] = {}

    def add(figure: Figure, name: str, palette: Palette, alt: str) -> tuple[Path, Path]:
        key = name if palette == "safe" else f"{name}-{palette}"
        svg, png = save_figure(figure, folder / "figures", key)
        # Drawn once for page and file.
        pictures.setdefault(name, {})[palette] = to_inline(svg.read_bytes(), key, alt, without_caption(figure))
        return svg, png

    yield from add(framework.draw_framework(), framework.NAME, "safe", framework.ALT)
    for shown in (figure for section in story.sections for figure in section.figures):
        for palette in palettes(shown):
            yield from add(draw(shown, palette), shown.name, palette, plain(shown.alt or shown.caption))
    for table in (claims_table(story), *(table for section in story.sections for table in section.tables)):
        for suffix, content in (("csv", to_csv(table)), ("md", to_markdown(table))):
            yield write_bytes(folder / "tables" / f"{table.name}.{suffix}", content.encode())
    yield write_bytes(folder / "report.html", render(story, pictures).encode())


def claims_table(story: Story) -> TextTable:
    """All claims as a table."""
    rows = [(c.number, c.says, c.where, c.measured, c.verdict, c.rule) for c in story.claims]
    head = ("number", "claim", "where", "measured", "verdict", "rule")
    return TextTable("claims", "Every claim, measured.", head, rows)


def to_inline(svg: bytes, key: str, alt: str, height: float) -> str:
    """An ``<svg>`` element for HTML: unique ids, the page's text colour, no caption, no background.

    ``key`` begins each of its ids and must be unique on the page; ``height`` in inches cuts the picture above its
    caption.
    """
    root = ElementTree.fromstring(svg)
    for parent in root.iter():
        for child in list(parent):
            # A style element would apply to the whole page.
            if child.tag.endswith(("metadata", "style")) or child.get("id") in (BACKGROUND, CAPTION):
                parent.remove(child)
    values = " ".join(value for element in root.iter() for value in element.attrib.values())
    links = {element.get(_LINK, "").removeprefix("#") for element in root.iter()}
    wanted = links | set(_POINTER.findall(values))
    for element in root.iter():
        element.tag = element.tag.removeprefix(_SPACE)
        element.attrib = dict(_rewritten(element.attrib, wanted, key))
        element.tail = element.text = None
    width = float(root.attrib.pop("width").removesuffix("pt"))
    del root.attrib["height"]
    root.attrib |= {"viewBox": f"0 0 {width:g} {72 * height:g}", "style": f"--width: {width / 72 * 96:.0f}px"}
    root.attrib |= {"role": "img", "aria-label": alt, "stroke-linejoin": "round", "stroke-linecap": "butt"}
    return ElementTree.tostring(root, encoding="unicode")


def _rewritten(attributes: dict[str, str], wanted: set[str], key: str) -> list[tuple[str, str]]:
    """Attributes without namespaces and without ids that nothing points at."""
    kept = []
    for name, value in attributes.items():
        if name == _LINK:
            kept.append(("href", re.sub("^#", f"#{key}--", value)))
        elif name != "id":
            kept.append((name, _POINTER.sub(rf"url(#{key}--\1)", value).replace(INK, "currentColor")))
        elif value in wanted:
            kept.append(("id", f"{key}--{value}"))
    return kept
