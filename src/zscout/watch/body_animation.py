"""A run of a body as an animated GIF: the body, the oracle's below it, what seems to pay, and the return."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from PIL import Image

from zscout.watch.animation import DPI, INK, QUIET, SETTLES, STYLE, TRIES, picture_of, save_pictures
from zscout.watch.body import BodyFrame, BodyScene
from zscout.watch.ink import WALL
from zscout.watch.terminal import signed

WIDTH, HEIGHT = 8.8, 4.9  # inches
SEEN, ABOVE, BELOW = 6.0, 1.9, 0.15  # metres along the floor, above and below it
BETWEEN = 0.08  # seconds between pictures: about real time
GROUND = "#e9e7e1"


def write_body_gif(path: Path, scene: BodyScene, frames: Sequence[BodyFrame]) -> Path:
    """Every few frames a picture, in real time; the same frames give the same bytes."""
    stride = max(1, round(BETWEEN / scene.seconds))
    shown = [*range(0, len(frames) - 1, stride), len(frames) - 1]
    with mpl.rc_context(STYLE):
        pictures = _Pictures(scene, frames)
        palette = pictures.draw(shown[-1]).quantize(48, dither=Image.Dither.NONE)
        return save_pictures(path, pictures.draw, shown, palette, round(1000 * stride * scene.seconds))


class _Lane:
    """A body from the side; the camera follows it."""

    def __init__(self, axis: Axes, title: str, colour: str, radii: np.ndarray) -> None:
        self.axis = axis
        axis.set(ylim=(-BELOW, ABOVE), yticks=[], facecolor="white")
        axis.spines[:].set_visible(False)
        axis.tick_params(labelsize=7, colors=QUIET, length=0, pad=1)
        axis.text(0.008, 0.97, title, transform=axis.transAxes, color=colour, fontsize=9.5, fontweight="bold", va="top")
        axis.axhspan(-BELOW, 0, color=GROUND, linewidth=0)
        axis.axhline(0, color=INK, linewidth=0.8)
        points = axis.get_position().width * WIDTH * 72 / SEEN  # a metre
        self.body = LineCollection([], colors=colour, linewidths=2 * radii * points, capstyle="round")
        axis.add_collection(self.body)

    def draw(self, ends: np.ndarray) -> None:
        """Show capsules with these ends."""
        middle = ends[0, :, 0].mean()
        self.axis.set_xlim(middle - SEEN / 2, middle + SEEN / 2)
        metres = np.arange(np.ceil(middle - SEEN / 2 + 0.2), middle + SEEN / 2 - 0.2)
        self.axis.set_xticks(metres, [f"{round(metre)} m".replace("-", "−") for metre in metres])
        self.body.set_segments(list(ends))


class _Pictures:
    """A figure that is redrawn for each picture."""

    def __init__(self, scene: BodyScene, frames: Sequence[BodyFrame]) -> None:
        self.frames, self.steps = frames, len(frames)
        self.figure = Figure(figsize=(WIDTH, HEIGHT), dpi=DPI, facecolor="white")
        self.canvas = FigureCanvasAgg(self.figure)
        place = self.figure.add_axes
        self.own = _Lane(place((0.02, 0.625, 0.63, 0.26)), "zscout, learning from rewards", TRIES, scene.radii)
        about = "the oracle: z from labelled observations"
        self.oracle = _Lane(place((0.02, 0.325, 0.63, 0.26)), about, QUIET, scene.radii)
        self.head = self.figure.text(0.02, 0.945, "", fontsize=13, fontweight="bold", color=INK)
        self.doing = self.figure.text(0.65, 0.86, "", fontsize=10.5, ha="right")  # beside the name of the upper lane
        self._bars(place((0.81, 0.325, 0.165, 0.5)), scene)
        self._chart(place((0.07, 0.085, 0.91, 0.155)), scene)

    def _bars(self, axis: Axes, scene: BodyScene) -> None:
        names = list(scene.correlations)
        self.bars = axis.barh(names, [0.0] * len(names), color=TRIES, height=0.55)
        axis.plot(
            list(scene.correlations.values()), range(len(names)), "|", color=INK, markersize=13, markeredgewidth=2
        )
        axis.set(xlim=(-1, 1), xticks=[-1, 0, 1])
        axis.set_xticklabels(["less", "0", "more"])
        axis.invert_yaxis()
        axis.axvline(0, color=QUIET, linewidth=0.7)
        axis.spines[:].set_visible(False)
        axis.tick_params(labelsize=8, colors=INK, length=0)
        axis.set_title("What pays: bar its\nestimate, | the truth", fontsize=9, color=INK, loc="center", pad=4)

    def _chart(self, axis: Axes, scene: BodyScene) -> None:
        level, reference = ([getattr(frame, name) for frame in self.frames] for name in ("level", "reference"))
        high = max(*level, *reference, 1e-9)
        axis.set(xlim=(0, self.steps), ylim=(min(*level, *reference, 0), 1.05 * high))
        axis.plot(range(1, self.steps + 1), reference, color=WALL, linewidth=1.2, linestyle=(0, (3, 2)))
        (self.curve,) = axis.plot([], [], color=TRIES, linewidth=1.8)
        axis.spines[["top", "right"]].set_visible(False)
        axis.tick_params(labelsize=8, colors=QUIET, length=2.5)
        axis.set_title(
            f"{scene.about}: return of each episode; dashed: the oracle's", fontsize=9, loc="left", color=INK, pad=4
        )

    def draw(self, at: int) -> Image.Image:
        """The picture of one frame."""
        frame = self.frames[at]
        self.own.draw(frame.ends)
        self.oracle.draw(frame.beside)
        self.head.set_text(f"Step {frame.step:,} of {self.steps:,}   reward {signed(frame.reward)}   {frame.line}")
        self.doing.set_text("tries" if frame.trying else "does what seems best")
        self.doing.set_color(TRIES if frame.trying else SETTLES)
        for bar, value in zip(self.bars, frame.correlations.values(), strict=True):
            bar.set_width(value)
        seen = self.frames[: at + 1]
        self.curve.set_data([f.step for f in seen], [f.level for f in seen])
        self.canvas.draw()  # type: ignore[no-untyped-call]
        return picture_of(self.canvas)
