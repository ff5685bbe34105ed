"""A run in the terminal: the world as coloured cells, what it is doing in words, and its numbers."""

import math
from collections.abc import Iterator, Sequence

import numpy as np
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.style import Style
from rich.table import Table
from rich.text import Text

from zscout.lab.viewer import Frame, Scene

VIRIDIS = ("#440154", "#414487", "#2a788e", "#22a884", "#7ad151", "#fde725")  # dark is little, bright is much
SHADES = " ░▒▓█"  # the same where there are no colours
WALL, WALL_MARK = "#8a8a94", "#"
AGENT, WAY, BEST, HEADING = "()", "··", "**", "[]"
ACCENT = "#d55e00"
TRAIL = 8  # steps
BARS = "▁▂▃▄▅▆▇█"
GAP = 4  # columns between the maps


class View:
    """The latest of the frames; it fits the console's width, with or without colours."""

    def __init__(self, scene: Scene, frames: Sequence[Frame], steps: int) -> None:
        self.scene, self.frames, self.steps = scene, frames, steps

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        """Two maps, side by side or one below the other, and four lines."""
        scene, frame, width = self.scene, self.frames[-1], options.max_width
        coloured = console.color_system is not None and not console.no_color
        columns = scene.truth.shape[1]
        cell = 2 if 2 * columns <= width else 1
        estimate = _map(frame.estimate, _range(scene.truth), _marks(scene, self.frames), cell, coloured)
        left = Group(_heading("its estimate φ·ẑ"), estimate)
        right = Group(_heading("the hidden reward φ·z_r"), _small_map(scene, coloured))
        side_by_side = max(cell * columns, 16) + GAP + max(columns, 23) <= width
        yield _beside(left, right) if side_by_side else Group(left, right)
        legend = f"{AGENT} the agent  {WAY} its way  {HEADING} where its behaviour leads  {BEST} the best cell"
        yield Text(legend, style="dim", no_wrap=True, overflow="ellipsis")
        yield Text(f"It {frame.doing}", no_wrap=True, overflow="ellipsis")
        yield Text("reward ").append(sparkline([f.reward for f in self.frames[-(width - 7) :]]), style=ACCENT)
        yield Text(numbers_line(frame, self.steps))


def plain_line(frame: Frame, steps: int) -> str:
    """A step where nothing can be redrawn."""
    return f"{numbers_line(frame, steps)}  {frame.doing}"


def numbers_line(frame: Frame, steps: int) -> str:
    """Step, reward, what was lost, what the estimate is worth and how far it is off."""
    return (
        f"step {frame.step:>{len(str(steps))}} of {steps}  reward {signed(frame.reward)}  "
        f"lost {frame.lost:.1f} steps  value {share(frame.value)}  ‖ẑ − z_r‖ {frame.error:.2f}"
    )


def signed(number: float) -> str:
    """A reward, always with its sign."""
    return f"{number:+.2f}".replace("-", "−")


def share(number: float) -> str:
    """A normalised value; no minus sign on a zero."""
    return f"{round(number, 2) + 0:.2f}".replace("-", "−")


def sparkline(numbers: Sequence[float]) -> str:
    """One bar a number, from the least to the largest."""
    low, high = min(numbers), max(numbers)
    scale = (len(BARS) - 1) / (high - low) if high > low else 0.0
    return "".join(BARS[round((number - low) * scale)] for number in numbers)


def _heading(words: str) -> Text:
    return Text(words, style="bold", no_wrap=True, overflow="crop")


def _beside(left: RenderableType, right: RenderableType) -> Table:
    table = Table.grid(padding=(0, GAP, 0, 0))
    table.add_row(left, right)
    return table


def _marks(scene: Scene, frames: Sequence[Frame]) -> dict[tuple[int, int], str]:
    """What stands in which cell; the agent hides what is below it."""
    marks = dict.fromkeys(scene.best, BEST)
    marks |= {frame.left: WAY for frame in frames[-TRAIL:] if frame.left not in scene.best}
    if frames[-1].heading is not None and frames[-1].heading not in scene.best:
        marks[frames[-1].heading] = HEADING
    return marks | {frames[-1].cell: AGENT}


def _map(
    values: np.ndarray, limits: tuple[float, float], marks: dict[tuple[int, int], str], cell: int, coloured: bool
) -> Text:
    """Rows of cells, each one or two characters wide."""
    text = Text(no_wrap=True, overflow="crop")
    for row, line in enumerate(values.tolist()):
        for column, value in enumerate(line):
            mark = marks.get((row, column), "")
            if not coloured:
                text.append((mark or _shade(value, limits) * 2)[:cell])
            elif mark == AGENT:
                text.append(mark[:cell], Style(color="#ffffff", bgcolor=ACCENT, bold=True))
            else:
                ink = "#ffffff" if _share(value, limits) < 0.6 else "#000000"
                text.append((mark or "  ")[:cell], Style(color=ink, bgcolor=_colour(value, limits), bold=True))
        text.append("\n")
    text.right_crop(1)
    return text


def _small_map(scene: Scene, coloured: bool) -> Text:
    """One character a cell; with colours two rows a line, the upper half of a block and its background."""
    limits, rows = _range(scene.truth), scene.truth.tolist()
    text = Text(no_wrap=True, overflow="crop")
    if not coloured:
        for row, line in enumerate(rows):
            marked = ((row, column) in scene.best for column in range(len(line)))
            text.append("".join("*" if m else _shade(v, limits) for v, m in zip(line, marked, strict=True)) + "\n")
        text.right_crop(1)
        return text
    colours = [
        ["#ffffff" if (row, column) in scene.best else _colour(value, limits) for column, value in enumerate(line)]
        for row, line in enumerate(rows)
    ]
    for upper in range(0, len(rows), 2):
        for column, colour in enumerate(colours[upper]):
            below = colours[upper + 1][column] if upper + 1 < len(rows) else None
            text.append("▀", Style(color=colour, bgcolor=below))
        text.append("\n")
    return text.append("white: the best cell", "dim")


def _range(values: np.ndarray) -> tuple[float, float]:
    return float(np.nanmin(values)), float(np.nanmax(values))


def _share(value: float, limits: tuple[float, float]) -> float:
    """How far up the scale, 0 … 1: both maps have the scale of the truth."""
    low, high = limits
    return min(max((value - low) / (high - low), 0.0), 1.0)


def _shade(value: float, limits: tuple[float, float]) -> str:
    return WALL_MARK if math.isnan(value) else SHADES[round(_share(value, limits) * (len(SHADES) - 1))]


def _colour(value: float, limits: tuple[float, float]) -> str:
    if math.isnan(value):
        return WALL
    place = _share(value, limits) * (len(VIRIDIS) - 1)
    first = min(int(place), len(VIRIDIS) - 2)
    ends = [[int(colour[i : i + 2], 16) for i in (1, 3, 5)] for colour in VIRIDIS[first : first + 2]]
    mixed = (round(a + (b - a) * (place - first)) for a, b in zip(*ends, strict=True))
    return "#" + "".join(f"{part:02x}" for part in mixed)
