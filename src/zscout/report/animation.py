"""A run as an animated GIF: the hidden reward, the estimate, what is not known, and what the estimate is worth."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import Colormap, ListedColormap, PowerNorm, to_rgb
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patheffects import withStroke
from PIL import Image

from zscout.files import write_bytes
from zscout.lab.viewer import Frame, Scene
from zscout.report.terminal import share, signed

STYLE: dict[Any, Any] = {"font.family": "DejaVu Sans", "font.size": 9, "axes.linewidth": 0.6}  # ships with matplotlib
REWARD, WALL = mpl.colormaps["viridis"], "#8a8a94"
DOUBT = ListedColormap(mpl.colormaps["Purples"](np.linspace(0.12, 1, 256)))  # its first shades are paper white
INK, QUIET, TRIES, SETTLES = "#1b1b1f", "#6b6b76", "#d55e00", "#0072b2"  # told apart by any eye
WIDTH, DPI = 8.8, 125  # inches, and pixels an inch
A_STEP, AT_THE_END = 160, 2400  # milliseconds
TRAIL = 10  # steps whose way is drawn strongly
BELOW = -0.3  # where the chart ends: the strip lies between it and 0


def write_gif(path: Path, scene: Scene, frames: Sequence[Frame]) -> Path:
    """One picture a frame; the same frames give the same bytes."""
    with mpl.rc_context(STYLE):
        pictures, palette = _Pictures(scene, frames), _palette()
        drawn = (pictures.draw(at).quantize(palette=palette, dither=Image.Dither.NONE) for at in range(len(frames)))
        buffer = io.BytesIO()
        next(drawn).save(
            buffer,
            format="GIF",
            save_all=True,
            append_images=drawn,
            duration=[A_STEP] * (len(frames) - 1) + [AT_THE_END],
            loop=0,
            optimize=True,  # what stays as it is becomes transparent
        )
    return write_bytes(path, buffer.getvalue())


def _palette() -> Image.Image:
    """Shades of both scales, and each ink on its way to white: one palette for all, or still parts would flicker."""
    shades = [scale(np.linspace(0, 1, count))[:, :3] for scale, count in ((REWARD, 100), (DOUBT, 50))]
    shades.append((1 + REWARD(np.linspace(0, 1, 24))[:, :3]) / 2)  # under the thin white line of the way
    to_white = np.linspace(0, 1, 14)[:, None]
    shades += [to_white + (1 - to_white) * np.array(to_rgb(ink)) for ink in (INK, QUIET, TRIES, SETTLES, WALL)]
    palette = Image.new("P", (1, 1))
    palette.putpalette(np.round(255 * np.concatenate(shades)).astype(np.uint8).tobytes())
    return palette


class _Pictures:
    """A figure whose still parts are drawn once."""

    def __init__(self, scene: Scene, frames: Sequence[Frame]) -> None:
        self.frames = frames
        rows, columns = scene.truth.shape
        map_height = min(max(2.72 * rows / columns, 1.0), 4.0)
        height = map_height + 2.64
        self.figure = Figure(figsize=(WIDTH, height), dpi=DPI, facecolor="white")
        self.canvas = FigureCanvasAgg(self.figure)
        bottom, tall = 1.55 / height, map_height / height
        axes = [self.figure.add_axes((0.035 + 0.325 * i, bottom, 0.28, tall)) for i in range(3)]
        low, high = float(np.nanmin(scene.truth)), float(np.nanmax(scene.truth))
        _map(axes[0], scene.truth, "The reward, hidden from it", "φ·z_r, bright is high; ★ is the best")
        self.estimate = _map(axes[1], scene.truth, "What it expects", "φ·ẑ; ○ is where its behaviour leads")
        self.doubt = _map(axes[2], scene.doubt, "What it does not know", "± of φ·ẑ + c, in σ; dark is unknown", DOUBT)
        for image in (axes[0].images[0], self.estimate):
            image.set_clim(low, high)
        self.doubt.set_norm(PowerNorm(0.5, 0, float(np.nanmax(scene.doubt))))
        for axis in axes[:2]:
            _stars(axis, scene)
        halo = [withStroke(linewidth=3.2, foreground="white")]
        (self.way,) = axes[1].plot([], [], color="white", linewidth=1, alpha=0.5)
        (self.trail,) = axes[1].plot([], [], color=INK, linewidth=1.5, path_effects=halo, solid_capstyle="round")
        (self.heading,) = axes[1].plot([], [], "o", markersize=15, markerfacecolor="none", markeredgecolor="white")
        self.heading.set_markeredgewidth(1.6)
        self.agents = [_agent(axis) for axis in axes]
        self.step = self.figure.text(0.035, 1 - 0.36 / height, "", fontsize=14, fontweight="bold", color=INK)
        self.lost = self.figure.text(0.965, 1 - 0.36 / height, "", fontsize=10.5, ha="right", color=INK)
        self.doing = self.figure.text(0.035, 1 - 0.62 / height, "", fontsize=10.5)
        chart = self.figure.add_axes((0.125, 0.42 / height, 0.79, 0.84 / height))
        _chart(chart, len(frames))
        (self.curve,) = chart.plot([], [], color=INK, linewidth=1.6)
        (self.dot,) = chart.plot([], [], "o", color=INK, markersize=5.5, markeredgecolor="white", clip_on=False)
        self.worth = chart.text(0, 0, "", fontsize=9, color=INK, fontweight="bold", va="center")
        self.worth.set_path_effects([withStroke(linewidth=3, foreground="white")])
        self.modes = chart.scatter([], [], s=(380 / max(len(frames), 50)) ** 2 * 0.7, marker="s", linewidth=0)
        moving: list[Artist] = [self.estimate, self.doubt, self.way, self.trail, *axes[1].collections, self.heading]
        moving += [*self.agents, self.step, self.lost, self.doing, self.curve, self.dot, self.worth, self.modes]
        for artist in moving:
            artist.set_animated(True)
        self.moving = moving
        self.canvas.draw()  # type: ignore[no-untyped-call]
        self.still = self.canvas.copy_from_bbox(self.figure.bbox)  # type: ignore[no-untyped-call]

    def draw(self, at: int) -> Image.Image:
        """The picture of one frame."""
        frame, seen = self.frames[at], self.frames[: at + 1]
        self.estimate.set_data(frame.estimate)
        self.doubt.set_data(frame.doubt)
        self.way.set_data(*_way(seen))
        self.trail.set_data(*_way(seen[-TRAIL:]))
        self.heading.set_data(*([], []) if frame.heading is None else ([frame.heading[1]], [frame.heading[0]]))
        for agent in self.agents:
            agent.set_data([frame.cell[1]], [frame.cell[0]])
        self.step.set_text(f"Step {frame.step} of {len(self.frames)}   reward {signed(frame.reward)}")
        self.lost.set_text(f"lost so far: {frame.lost:.1f} steps of the best policy")
        self.doing.set_text(f"It {frame.doing}.")
        self.doing.set_color(_ink(frame))
        shown = max(frame.value, 0.0)  # below 0, worse than a random walk, is told by the number alone
        self.curve.set_data([f.step for f in seen], [max(f.value, 0.0) for f in seen])
        self.dot.set_data([frame.step], [shown])
        self.worth.set_position((frame.step + 0.012 * len(self.frames), shown))
        self.worth.set_text(share(frame.value))
        self.modes.set_offsets([(f.step, BELOW / 2) for f in seen])
        self.modes.set_facecolor([_ink(f) for f in seen])
        self.canvas.restore_region(self.still)  # type: ignore[no-untyped-call]
        for artist in self.moving:
            self.figure.draw_artist(artist)
        pixels = np.asarray(self.canvas.buffer_rgba())  # type: ignore[no-untyped-call]
        return Image.fromarray(pixels[..., :3].copy())


def _ink(frame: Frame) -> str:
    return TRIES if frame.mode in ("tries", "wanders") else SETTLES


def _map(axis: Axes, values: np.ndarray, title: str, about: str, colours: Colormap = REWARD) -> AxesImage:
    axis.set_facecolor(WALL)
    axis.set_xticks([])
    axis.set_yticks([])
    axis.set_title(title, fontsize=10.5, fontweight="bold", color=INK, pad=18)
    axis.text(0.5, 1.025, about, transform=axis.transAxes, fontsize=8.5, color=QUIET, ha="center", va="bottom")
    image: AxesImage = axis.imshow(values, cmap=colours, interpolation="nearest")
    return image


def _stars(axis: Axes, scene: Scene) -> None:
    row, column = np.array(sorted(scene.best)).T
    axis.scatter(column, row, s=110, marker="*", color="white", edgecolor=INK, linewidth=0.8, zorder=3)


def _agent(axis: Axes) -> Any:
    (mark,) = axis.plot([], [], "o", color=TRIES, markersize=9, markeredgecolor="white", markeredgewidth=1.6)
    return mark


def _chart(axis: Axes, steps: int) -> None:
    """An empty chart of the value of what would be settled for, with room for a strip of what was done."""
    axis.set_xlim(0, max(steps, 2) + 0.5)
    axis.set_ylim(BELOW, 1.08)
    axis.set_yticks([0, 1], ["random walk", "best policy"])
    for value, dashes in ((1, (4, 3)), (0, (1, 3))):
        axis.axhline(value, color=QUIET, linewidth=0.7, linestyle=(0, dashes))
    axis.set_title("What the policy of its estimate, π(·,ẑ), is worth", fontsize=9.5, loc="left", color=INK, pad=6)
    axis.text(0.75, 1.075, "■ tries", transform=axis.transAxes, color=TRIES, fontsize=8.5, ha="right")
    axis.text(1, 1.075, "■ does what seems best", transform=axis.transAxes, color=SETTLES, fontsize=8.5, ha="right")
    axis.set_xlabel("step", color=QUIET, labelpad=1)
    axis.tick_params(labelsize=8.5, colors=QUIET, length=2.5)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)


def _way(frames: Sequence[Frame]) -> tuple[np.ndarray, np.ndarray]:
    """Columns and rows, with a gap where a run was put back to its start."""
    points: list[tuple[float, float]] = [frames[0].left]
    for frame in frames:
        if frame.left != points[-1]:
            points += [(np.nan, np.nan), frame.left]
        points.append(frame.cell)
    rows, columns = np.array(points, dtype=float).T
    return columns, rows
