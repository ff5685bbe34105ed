"""The story as a folder: the page, and every figure and table as files of their own."""

from pathlib import Path

from matplotlib.figure import Figure

from zscout.files import write_bytes
from zscout.lab.report_model import Story
from zscout.report import draw_framework as framework
from zscout.report.export import claims_table, to_csv, to_markdown
from zscout.report.figures import draw, draw_framework, palettes, save_figure
from zscout.report.ink import Palette, without_caption
from zscout.report.markup import plain
from zscout.report.page import check, render
from zscout.report.picture import to_inline


def write_report(story: Story, folder: Path) -> list[Path]:
    """``figures/`` (SVG and PNG, rewards in both palettes), ``tables/`` (CSV and Markdown) and ``report.html``."""
    check(story)  # first: what cannot be told leaves no half of it behind
    written, pictures = _write_figures(story, folder / "figures")
    for table in (claims_table(story), *(table for section in story.sections for table in section.tables)):
        for suffix, content in (("csv", to_csv(table)), ("md", to_markdown(table))):
            written.append(write_bytes(folder / "tables" / f"{table.name}.{suffix}", content.encode()))
    return [*written, write_bytes(folder / "report.html", render(story, pictures).encode())]


def _write_figures(story: Story, folder: Path) -> tuple[list[Path], dict[str, dict[Palette, str]]]:
    """Every figure as files, and what the page shows of each."""
    written: list[Path] = []
    pictures: dict[str, dict[Palette, str]] = {}

    def add(figure: Figure, name: str, palette: Palette, alt: str) -> None:
        key = name if palette == "safe" else f"{name}-{palette}"
        svg, png = save_figure(figure, folder, key)
        inline = to_inline(svg.read_bytes(), key, alt, without_caption(figure))  # drawn once for page and file
        pictures.setdefault(name, {})[palette] = inline
        written.extend((svg, png))

    add(draw_framework(), framework.NAME, "safe", framework.ALT)
    for table in (table for section in story.sections for table in section.figures):
        for palette in palettes(table):
            add(draw(table, palette), table.name, palette, plain(table.alt or table.caption))
    return written, pictures
