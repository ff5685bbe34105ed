"""Draws the diagram of offline and online transfer."""

from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from zscout.report.ink import INK, OTHERS, OURS, sheet, style, whole

NAME = "framework"
CAPTION = (
    "Two ways to give a task to the same Behavioral Foundation Model. **Offline transfer** needs states whose rewards "
    "are known, solves for the task vector once, and acts. **Online transfer** starts with no rewards at all: "
    "the algorithm recommends a task vector, the model acts on it for a step, and the reward of the state that it "
    "comes to decides what is recommended next."
)
ALT = (
    "Left, offline transfer: an arrow from a dataset of states and rewards to the inferred task vector z_r, from "
    "there to the model, from there to the environment. Right, online transfer: a loop from the algorithm by the "
    "recommended Z_t to the model, by its action to the environment, and by state and reward back to the algorithm."
)
GREEN = "#009e73"
WIDTH, HEIGHT = 9.6, 3.1


@dataclass(frozen=True)
class Box:
    """A rounded box with a name and a line under it; places in inches from the left and the top."""

    x: float  # of the middle
    y: float
    name: str
    under: str
    colour: str
    width: float = 1.62
    height: float = 0.74

    def edge(self, right: int, down: int) -> tuple[float, float]:
        """A point on the outline, by the way from the middle: -1, 0 or 1 across and down."""
        return self.x + right * self.width / 2, self.y + down * self.height / 2


def draw_framework() -> Figure:
    """Boxes and arrows: a line of them at the left, a loop at the right."""
    with style():
        figure = sheet(WIDTH, HEIGHT, CAPTION)
        axes = whole(figure)
        _offline(axes)
        axes.plot([4.45, 4.45], [0.25, HEIGHT - 0.2], color=INK, alpha=0.25, linewidth=0.8, linestyle=(0, (3, 3)))
        _online(axes)
    return figure


def _offline(axes: Axes) -> None:
    dataset = Box(1.0, 0.95, "dataset", "states and rewards (s, r)", OTHERS)
    inference = Box(3.3, 0.95, "task inference", "r ≈ φ(s)·z, solved once", OTHERS)
    model = Box(3.3, 2.45, "BFM", "acts by π(·, $z_r$)", GREEN)
    world = Box(1.0, 2.45, "environment", "", INK)
    _heading(axes, 0.2, "Offline transfer", "the rewards come first")
    _arrow(axes, dataset.edge(1, 0), inference.edge(-1, 0))
    _arrow(axes, inference.edge(0, 1), model.edge(0, -1), "$z_r$", (0.12, 0.0))
    _arrow(axes, model.edge(-1, 0), world.edge(1, 0), "action", (0.0, -0.1))
    for box in (dataset, inference, model, world):
        _draw(axes, box)


def _online(axes: Axes) -> None:
    algorithm = Box(5.72, 0.95, "algorithm", "estimates z, and how surely", OURS, width=1.8)
    model = Box(8.65, 0.95, "BFM", "acts by π(·, $Z_t$)", GREEN)
    world = Box(8.65, 2.45, "environment", "", INK)
    _heading(axes, 4.75, "Online transfer", "rewards are found by acting")
    _arrow(axes, algorithm.edge(1, 0), model.edge(-1, 0), "recommends $Z_t$", (0.0, -0.1))
    _arrow(axes, model.edge(0, 1), world.edge(0, -1), "action", (0.12, 0.0))
    corner = (algorithm.x, world.y)
    axes.plot([world.edge(-1, 0)[0], corner[0]], [corner[1]] * 2, color=INK, linewidth=1.3, solid_capstyle="round")
    _arrow(axes, corner, algorithm.edge(0, 1))
    axes.text(6.75, corner[1] - 0.1, "next state and its reward", fontsize=8.5, ha="center", va="bottom")
    axes.text(corner[0] + 0.12, 1.9, "t → t + 1", fontsize=8.5, ha="left", va="center")
    for box in (algorithm, model, world):
        _draw(axes, box)


def _heading(axes: Axes, x: float, title: str, under: str) -> None:
    axes.text(x, 0.22, title, fontsize=11, fontweight="bold", va="center")
    axes.text(x + 1.62, 0.22, under, fontsize=8.5, va="center")


def _draw(axes: Axes, box: Box) -> None:
    corner = (box.x - box.width / 2, box.y - box.height / 2)
    shape = "round,pad=0,rounding_size=0.1"
    for style_ in ({"facecolor": box.colour, "alpha": 0.13, "linewidth": 0}, {"fill": False, "linewidth": 1.3}):
        axes.add_patch(FancyBboxPatch(corner, box.width, box.height, boxstyle=shape, edgecolor=box.colour, **style_))
    axes.text(box.x, box.y - (0.1 if box.under else 0), box.name, fontsize=10, ha="center", va="center")
    axes.text(box.x, box.y + 0.15, box.under, fontsize=8, ha="center", va="center")


def _arrow(
    axes: Axes,
    start: tuple[float, float],
    end: tuple[float, float],
    label: str = "",
    shift: tuple[float, float] = (0.0, 0.0),
) -> None:
    look: dict[str, Any] = {
        "arrowstyle": "-|>",
        "mutation_scale": 11,
        "linewidth": 1.3,
        "color": INK,
        "shrinkA": 0,
        "shrinkB": 2,
    }
    axes.add_patch(FancyArrowPatch(start, end, **look))
    x, y = (start[0] + end[0]) / 2 + shift[0], (start[1] + end[1]) / 2 + shift[1]
    across = shift[0] == 0
    axes.text(x, y, label, fontsize=8.5, ha="center" if across else "left", va="bottom" if across else "center")
