"""Draws the diagram of offline and online transfer."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from zscout.watch.ink import INK, LINES, OTHERS, OURS, sheet, style, whole

NAME = "framework"
CAPTION = (
    "Two ways to give a task to the same Behavioral Foundation Model. **Offline transfer** needs states with known "
    "rewards, solves for the task vector once, and acts. **Online transfer** starts without rewards: the algorithm "
    "recommends a task vector, the model acts on it for a step, and the reward of the state it enters determines the "
    "next recommendation."
)
ALT = (
    "Left, offline transfer: an arrow from a dataset of states and rewards to the inferred task vector z_r, from "
    "there to the model, from there to the environment. Right, online transfer: a loop from the algorithm by the "
    "recommended Z_t to the model, by its action to the environment, and by state and reward back to the algorithm."
)
WIDTH, HEIGHT = 9.6, 3.1  # inches; all places are inches from the left and the top
BOX = (1.62, 0.74)
GREEN = LINES[2]
Point = tuple[float, float]


def draw_framework() -> Figure:
    """Boxes and arrows: a chain at the left, a loop at the right."""
    with style():
        figure = sheet(WIDTH, HEIGHT, CAPTION)
        axes = whole(figure)
        for x, title, under in (
            (0.2, "Offline transfer", "the rewards come first"),
            (4.75, "Online transfer", "rewards are found by acting"),
        ):
            axes.text(x, 0.22, title, fontsize=11, fontweight="bold", va="center")
            axes.text(x + 1.62, 0.22, under, fontsize=8.5, va="center")
        axes.plot([4.45, 4.45], [0.25, HEIGHT - 0.2], color=INK, alpha=0.25, linewidth=0.8, linestyle=(0, (3, 3)))
        _arrow(axes, (1.81, 0.95), (2.49, 0.95))
        _arrow(axes, (3.3, 1.32), (3.3, 2.08), "$z_r$")
        _arrow(axes, (2.49, 2.45), (1.81, 2.45), "action")
        _arrow(axes, (6.62, 0.95), (7.84, 0.95), "recommends $Z_t$")
        _arrow(axes, (8.65, 1.32), (8.65, 2.08), "action")
        axes.plot([7.84, 5.72], [2.45, 2.45], color=INK, linewidth=1.3, solid_capstyle="round")
        _arrow(axes, (5.72, 2.45), (5.72, 1.32))
        axes.text(6.75, 2.35, "next state and its reward", fontsize=8.5, ha="center", va="bottom")
        axes.text(5.84, 1.9, "t → t + 1", fontsize=8.5, ha="left", va="center")
        for x, y, name, under, colour in (
            (1.0, 0.95, "dataset", "states and rewards (s, r)", OTHERS),
            (3.3, 0.95, "task inference", "r ≈ φ(s)·z, solved once", OTHERS),
            (3.3, 2.45, "BFM", "acts by π(·, $z_r$)", GREEN),
            (1.0, 2.45, "environment", "", INK),
            (5.72, 0.95, "algorithm", "estimates z with uncertainty", OURS),
            (8.65, 0.95, "BFM", "acts by π(·, $Z_t$)", GREEN),
            (8.65, 2.45, "environment", "", INK),
        ):
            _box(axes, x, y, name, under, colour)
    return figure


def _box(axes: Axes, x: float, y: float, name: str, under: str, colour: str) -> None:
    """A rounded box around (x, y) with a name and a line under it."""
    width, height = (1.8, BOX[1]) if name == "algorithm" else BOX
    corner, shape = (x - width / 2, y - height / 2), "round,pad=0,rounding_size=0.1"
    for look in ({"facecolor": colour, "alpha": 0.13, "linewidth": 0}, {"fill": False, "linewidth": 1.3}):
        axes.add_patch(FancyBboxPatch(corner, width, height, boxstyle=shape, edgecolor=colour, **look))
    axes.text(x, y - (0.1 if under else 0), name, fontsize=10, ha="center", va="center")
    axes.text(x, y + 0.15, under, fontsize=8, ha="center", va="center")


def _arrow(axes: Axes, start: Point, end: Point, label: str = "") -> None:
    """An arrow with its label above, or at the right if it is vertical."""
    look = {"arrowstyle": "-|>", "mutation_scale": 11, "linewidth": 1.3, "color": INK, "shrinkA": 0, "shrinkB": 2}
    axes.annotate("", end, start, arrowprops=look)
    x, y = (start[0] + end[0]) / 2, (start[1] + end[1]) / 2
    if start[0] == end[0]:
        axes.text(x + 0.12, y, label, fontsize=8.5, ha="left", va="center")
    else:
        axes.text(x, y - 0.1, label, fontsize=8.5, ha="center", va="bottom")
