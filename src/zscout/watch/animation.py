"""A run as an animated GIF: hidden reward, estimate, uncertainty, and the value of the estimate's policy."""

import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import ListedColormap, PowerNorm, to_rgb
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patheffects import withStroke
from PIL import Image

from zscout.base.files import write_bytes
from zscout.watch.ink import OTHERS, OURS, WALL
from zscout.watch.terminal import signed
from zscout.watch.viewer import Frame, Scene

STYLE: dict[Any, Any] = {"font.family": "DejaVu Sans", "font.size": 9, "axes.linewidth": 0.6}  # ships with matplotlib
REWARD = mpl.colormaps["viridis"]
DOUBT = ListedColormap(mpl.colormaps["Purples"](np.linspace(0.12, 1, 256)))  # its first shades are paper white
INK, QUIET, TRIES, SETTLES = "#1b1b1f", "#6b6b76", OURS, OTHERS
WIDTH, DPI = 8.8, 125  # inches, and pixels an inch
AT_THE_END = 2400  # milliseconds
TRAIL = 10  # steps whose path is drawn strongly
SHADES = 24  # of maps with several squares in a cell
BELOW = -0.3  # where the chart ends: the strip of modes lies between it and 0


def write_gif(path: Path, scene: Scene, frames: Sequence[Frame]) -> Path:
    """One picture for each frame; the same frames give the same bytes."""
    with mpl.rc_context(STYLE):
        return save_pictures(path, _Pictures(scene, frames).draw, range(len(frames)), _palette(), scene.pace)


def save_pictures(
    path: Path, draw: Callable[[int], Image.Image], shown: Sequence[int], palette: Image.Image, pace: int
) -> Path:
    """Write the frames shown as a GIF, each for ``pace`` milliseconds; one palette, else still parts would flicker."""
    buffer, duration = io.BytesIO(), [pace] * (len(shown) - 1) + [AT_THE_END]
    drawn = (draw(at).quantize(palette=palette, dither=Image.Dither.NONE) for at in shown)
    # optimize: pixels that do not change become transparent
    next(drawn).save(buffer, "GIF", save_all=True, append_images=drawn, duration=duration, loop=0, optimize=True)
    return write_bytes(path, buffer.getvalue())


def _palette() -> Image.Image:
    """Shades of both scales, and of each ink to white."""
    shades = [scale(np.linspace(0, 1, count))[:, :3] for scale, count in ((REWARD, 100), (DOUBT, 50))]
    shades.append((1 + REWARD(np.linspace(0, 1, 24))[:, :3]) / 2)  # under the thin white line of the path
    to_white = np.linspace(0, 1, 14)[:, None]
    shades += [to_white + (1 - to_white) * np.array(to_rgb(ink)) for ink in (INK, QUIET, TRIES, SETTLES, WALL)]
    palette = Image.new("P", (1, 1))
    palette.putpalette(np.round(255 * np.concatenate(shades)).astype(np.uint8).tobytes())
    return palette


class _Pictures:
    """A figure whose static parts are drawn once."""

    def __init__(self, scene: Scene, frames: Sequence[Frame]) -> None:
        self.frames = frames
        rows, columns = scene.truth.shape
        map_height = min(max(2.72 * rows / columns, 1.0), 4.0)
        height = map_height + 2.64
        self.figure = Figure(figsize=(WIDTH, height), dpi=DPI, facecolor="white")
        self.canvas = FigureCanvasAgg(self.figure)
        bottom, tall = 1.55 / height, map_height / height
        axes = [self.figure.add_axes((0.035 + 0.325 * i, bottom, 0.28, tall)) for i in range(3)]
        about = f"{scene.reward}, bright is high{'; ★ is the best' if scene.best else ''}"
        titles = (
            (scene.truth, "The reward, hidden from it", about),
            (scene.truth, "What it expects", "φ·ẑ; ○ is where its behaviour leads"),
            (scene.doubt, "What it does not know", "± of φ·ẑ + c, in σ; dark is unknown"),
        )
        truth, self.estimate, self.doubt = (
            _map(axis, *title, scene.per_cell) for axis, title in zip(axes, titles, strict=True)
        )
        # Of fine maps, fewer shades: fewer squares change at a step, and the file is half as large.
        reward, doubt = (REWARD, DOUBT) if scene.per_cell == 1 else (REWARD.resampled(SHADES), DOUBT.resampled(SHADES))
        for image in (truth, self.estimate):
            image.set(cmap=reward, clim=scene.limits)
        self.doubt.set(cmap=doubt, norm=PowerNorm(0.5, 0, float(np.nanmax(scene.doubt))))
        row, column = np.array(sorted(scene.best)).reshape(-1, 2).T
        for axis in axes[:2]:
            axis.scatter(column, row, s=110, marker="*", color="white", edgecolor=INK, linewidth=0.8, zorder=3)
        halo = [withStroke(linewidth=3.2, foreground="white")]
        (self.way,) = axes[1].plot([], [], color="white", linewidth=1, alpha=0.5)
        (self.trail,) = axes[1].plot([], [], color=INK, linewidth=1.5, path_effects=halo, solid_capstyle="round")
        ring: dict[str, Any] = {"markersize": 15, "markerfacecolor": "none", "markeredgewidth": 1.6}
        (self.heading,) = axes[1].plot([], [], "o", markeredgecolor="white", **ring)
        (self.motion,) = axes[1].plot([], [], color=TRIES, linewidth=3, path_effects=halo, solid_capstyle="round")
        dot: dict[str, Any] = {"color": TRIES, "markersize": 9, "markeredgecolor": "white", "markeredgewidth": 1.6}
        dot["clip_on"] = ring["clip_on"] = False
        self.agents = [axis.plot([], [], "o", **dot)[0] for axis in axes]
        top, text = 1 - 0.36 / height, self.figure.text
        self.step = text(0.035, top, "", fontsize=14, fontweight="bold", color=INK)
        self.lost = text(0.965, top, "", fontsize=10.5, ha="right", color=INK)
        self.doing = text(0.035, 1 - 0.62 / height, "", fontsize=10.5)
        chart = self.figure.add_axes((0.125, 0.42 / height, 0.79, 0.84 / height))
        self.low, span = _chart(chart, scene, frames)
        self.strip = self.low + BELOW / 2 * span
        (self.curve,) = chart.plot([], [], color=INK, linewidth=1.6)
        (self.dot,) = chart.plot([], [], "o", color=INK, markersize=5.5, markeredgecolor="white", clip_on=False)
        self.worth = chart.text(0, 0, "", fontsize=9, color=INK, fontweight="bold", va="center")
        self.worth.set_path_effects([withStroke(linewidth=3, foreground="white")])
        self.modes = chart.scatter([], [], s=max((380 / max(len(frames), 50)) ** 2 * 0.7, 10), marker="s", linewidth=0)
        stars = axes[1].collections
        self.moving: list[Artist] = [self.estimate, self.doubt, self.way, self.trail, *stars, self.heading, self.motion]
        self.moving += [*self.agents, self.step, self.lost, self.doing, self.curve, self.dot, self.worth, self.modes]
        for artist in self.moving:
            artist.set_animated(True)
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
        (row, column), (down, right) = frame.place, frame.velocity
        self.motion.set_data([column, column + right], [row, row + down])
        for agent in self.agents:
            agent.set_data([column], [row])
        self.step.set_text(f"Step {frame.step} of {len(self.frames)}   reward {signed(frame.reward)}")
        self.lost.set_text(frame.head)
        self.doing.set_text(f"It {frame.doing}.")
        self.doing.set_color(_ink(frame))
        shown = max(frame.level, self.low)  # only the number shows a value below 0, worse than a random walk
        self.curve.set_data([f.step for f in seen], [max(f.level, self.low) for f in seen])
        self.dot.set_data([frame.step], [shown])
        self.worth.set_position((frame.step + 0.012 * len(self.frames), shown))
        self.worth.set_text(frame.label)
        self.modes.set_offsets([(f.step, self.strip) for f in seen])
        self.modes.set_facecolor([_ink(f) for f in seen])
        self.canvas.restore_region(self.still)  # type: ignore[no-untyped-call]
        for artist in self.moving:
            self.figure.draw_artist(artist)
        return picture_of(self.canvas)


def picture_of(canvas: FigureCanvasAgg) -> Image.Image:
    """What is drawn."""
    pixels = np.asarray(canvas.buffer_rgba())  # type: ignore[no-untyped-call]
    return Image.fromarray(pixels[..., :3].copy())


def _ink(frame: Frame) -> str:
    return TRIES if frame.mode in ("tries", "wanders") else SETTLES


def _map(axis: Axes, values: np.ndarray, title: str, about: str, per_cell: int) -> AxesImage:
    axis.set(facecolor=WALL, xticks=[], yticks=[])
    axis.set_title(title, fontsize=10.5, fontweight="bold", color=INK, pad=18)
    axis.text(0.5, 1.025, about, transform=axis.transAxes, fontsize=8.5, color=QUIET, ha="center", va="bottom")
    rows, columns = (length / per_cell for length in values.shape)
    edges = (-0.5, columns - 0.5, rows - 0.5, -0.5)  # in cells
    image: AxesImage = axis.imshow(values, interpolation="nearest", extent=edges)
    return image


def _chart(axis: Axes, scene: Scene, frames: Sequence[Frame]) -> tuple[float, float]:
    """An empty chart of levels, with room for a strip of modes; returns its lowest level and its height."""
    reference = [frame.reference for frame in frames if frame.reference is not None]
    levels = list(scene.ticks) or [0.0, *reference, *(frame.level for frame in frames)]
    low, high = min(levels), max(levels)
    ticks = scene.ticks or {level: f"{level:.3g}".replace("-", "−") for level in (low, 0.0, high)}
    span = high - low or 1.0
    axis.set(xlim=(0, max(len(frames), 2) + 0.5), ylim=(low + BELOW * span, low + 1.08 * span), yticks=list(ticks))
    axis.set_yticklabels(list(ticks.values()))
    for level in scene.ticks or (0.0,):
        axis.axhline(level, color=QUIET, linewidth=0.7, linestyle=(0, (4, 3) if level else (1, 3)))
    axis.plot(range(1, len(reference) + 1), reference, color=QUIET, linewidth=1.2, linestyle=(0, (3, 2)))
    axis.set_title(scene.chart, fontsize=9.5, loc="left", color=INK, pad=6)
    for x, words, colour in ((0.75, "■ tries", TRIES), (1, "■ does what seems best", SETTLES)):
        axis.text(x, 1.075, words, transform=axis.transAxes, color=colour, fontsize=8.5, ha="right")
    axis.set_xlabel("step", color=QUIET, labelpad=1)
    axis.tick_params(labelsize=8.5, colors=QUIET, length=2.5)
    axis.spines[["top", "right"]].set_visible(False)
    return low, span


def _way(frames: Sequence[Frame]) -> tuple[np.ndarray, np.ndarray]:
    """Columns and rows of the path, with a gap at a reset."""
    points = [frames[0].path[:1]]
    for frame in frames:
        if (frame.path[0] != points[-1][-1]).any():
            points += [np.full((1, 2), np.nan), frame.path[:1]]
        points.append(frame.path[1:])
    rows, columns = np.concatenate(points).T
    return columns, rows
