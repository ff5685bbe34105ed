"""What all drawings share: colours, style, the sheet with its caption, and places on it in inches."""

import textwrap
from typing import Any, Literal, TypeAlias

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from zscout.base.markup import plain

Palette: TypeAlias = Literal["safe", "paper"]

INK = "#1f2430"  # only of text and axes: the page replaces it by its text colour
OURS, OTHERS = "#d55e00", "#0072b2"
LINES = (OURS, OTHERS, "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6bb1", INK)  # colour-blind safe
REWARD: dict[Palette, str] = {"safe": "cividis", "paper": "RdYlGn"}  # the paper shows rewards from red to green
FEATURE, WALL = "PuOr_r", "#8a8a94"
BACKGROUND, CAPTION = "background", "caption"  # ids in the SVG of what the page leaves out
ABOVE, EDGE = 0.1, 0.12  # inches between picture and caption, and around all
STYLE: dict[Any, Any] = {
    "font.size": 9,
    "font.family": "DejaVu Sans",  # ships with matplotlib: the same letters on every machine
    "svg.hashsalt": "zscout",
    "svg.fonttype": "path",
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.facecolor": "none",
    **{f"{axis}tick.color": INK for axis in "xy"},
    **{f"{axis}tick.labelsize": 8 for axis in "xy"},
    "grid.color": INK,
    "grid.alpha": 0.13,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "image.composite_image": False,  # maps keep their own pixels
}


def sheet(width: float, height: float, caption: str) -> Figure:
    """An empty figure, size in inches, with its caption below."""
    wrapped = textwrap.fill(plain(caption), width=int(16.5 * width))
    whole = height + 0.155 * (wrapped.count("\n") + 1) + 0.22
    figure = Figure(figsize=(width, whole))
    figure.patch.set_gid(BACKGROUND)
    # Drawn last: the first text of an SVG that uses a letter defines its shape, and the page leaves the caption out.
    say(figure, 0.1, height + ABOVE, wrapped, gid=CAPTION, zorder=100, fontsize=8, va="top", linespacing=1.35)
    return figure


def without_caption(figure: Figure) -> float:
    """Height in inches of what is above the caption."""
    (text,) = (text for text in figure.texts if text.get_gid() == CAPTION)
    return float((1 - text.get_position()[1]) * figure.get_figheight() - ABOVE)


def place(figure: Figure, left: float, top: float, width: float, height: float) -> Axes:
    """Axes at a place in inches from the left and the top."""
    wide, high = figure.get_size_inches()
    return figure.add_axes((left / wide, 1 - (top + height) / high, width / wide, height / high))


def say(figure: Figure, left: float, top: float, text: str, **style: Any) -> None:
    """Text at a place in inches from the left and the top; dollar signs are not math."""
    wide, high = figure.get_size_inches()
    figure.text(left / wide, 1 - top / high, text, parse_math=False, **style)


def whole(figure: Figure) -> Axes:
    """Axes without ticks over the whole sheet, in inches from the left and the top."""
    wide, high = figure.get_size_inches()
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set(xlim=(0, wide), ylim=(high, 0), autoscale_on=False)
    return axes


def style() -> Any:
    """A context in which everything is drawn and saved in our style."""
    return mpl.rc_context(STYLE)
