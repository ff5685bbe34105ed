"""A run in the terminal: two maps or a body from the side, what the agent does in words, and its numbers."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.style import Style
from rich.table import Table
from rich.text import Text

from zscout.watch.body import BodyFrame, BodyScene
from zscout.watch.viewer import Frame, Point, Scene

VIRIDIS = np.array([list(bytes.fromhex(c)) for c in ("440154", "414487", "2a788e", "22a884", "7ad151", "fde725")])
SHADES = " ░▒▓█"  # low to high, if there are no colours
WALL, WALL_MARK = "#8a8a94", "#"
AGENT, WAY, BEST, HEADING = "()", "··", "**", "[]"
ACCENT = "#d55e00"
TRAIL = 8  # steps
BARS = "▁▂▃▄▅▆▇█"
PLAIN = {(True, True): "█", (True, False): "▀", (False, True): "▄", (False, False): " "}
GAP = 4  # columns between the maps


class View:
    """The latest of the frames; it fits the console's width, with or without colours."""

    def __init__(self, scene: Scene | BodyScene, frames: Sequence[Any], steps: int) -> None:
        self.scene, self.frames, self.steps = scene, frames, steps

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        """The world, and lines about the run."""
        scene, frame, width = self.scene, self.frames[-1], options.max_width
        coloured = console.color_system is not None and not console.no_color
        if isinstance(scene, BodyScene):
            yield _picture(frame.picture[:, _middle(frame.picture.shape[1], width)], coloured)
        else:
            yield from _maps(scene, self.frames, width, coloured)
        yield Text(f"It {frame.doing}", no_wrap=True, overflow="ellipsis")
        if isinstance(scene, BodyScene):
            yield Text(pays_line(frame.correlations), no_wrap=True, overflow="ellipsis")
        yield Text("reward ").append(sparkline([f.reward for f in self.frames[-(width - 7) :]]), style=ACCENT)
        yield Text(numbers_line(frame, self.steps))


def _maps(scene: Scene, frames: Sequence[Frame], width: int, coloured: bool) -> Iterator[RenderableType]:
    """Two maps, side by side or one below the other, and a legend."""
    centres = slice(scene.per_cell // 2, None, scene.per_cell)
    truth, estimate = (values[centres, centres] for values in (scene.truth, frames[-1].estimate))
    columns = truth.shape[1]
    cell = 2 if 2 * columns <= width else 1
    low, high = scene.limits
    estimate, truth = (np.clip((values - low) / (high - low), 0, 1) for values in (estimate, truth))
    best = set(map(_cell, scene.best))
    expected = _map(estimate, _marks(scene, frames), cell, coloured)
    left = Group(Text("its estimate φ·ẑ", "bold", no_wrap=True, overflow="crop"), expected)
    hidden = _half_blocks(truth, best) if coloured else _map(truth, dict.fromkeys(best, "*"), 1, False)
    title = f"the hidden reward {scene.reward}"
    right = Group(Text(title, "bold", no_wrap=True, overflow="crop"), hidden)
    if max(cell * columns, 16) + GAP + max(columns, len(title)) <= width:
        table = Table.grid(padding=(0, GAP, 0, 0))
        table.add_row(left, right)
        yield table
    else:
        yield Group(left, right)
    legend = f"{AGENT} the agent  {WAY} its way  {HEADING} where its behaviour leads"
    legend += f"  {BEST} the best cell" if best else ""
    yield Text(legend, style="dim", no_wrap=True, overflow="ellipsis")


def plain_line(frame: Frame | BodyFrame, steps: int) -> str:
    """One step as a line, for output that cannot be redrawn."""
    return f"{numbers_line(frame, steps)}  {frame.doing}"


def numbers_line(frame: Frame | BodyFrame, steps: int) -> str:
    """Step, reward, and the numbers of this kind of world."""
    return f"step {frame.step:>{len(str(steps))}} of {steps}  reward {signed(frame.reward)}  {frame.line}"


def signed(number: float) -> str:
    """A reward, always with its sign."""
    return f"{number:+.2f}".replace("-", "−")


def sparkline(numbers: Sequence[float]) -> str:
    """One bar per number, from the least to the largest."""
    low, high = min(numbers), max(numbers)
    scale = (len(BARS) - 1) / (high - low) if high > low else 0.0
    return "".join(BARS[round((number - low) * scale)] for number in numbers)


def _cell(point: Point) -> tuple[int, int]:
    row, column = (math.floor(number + 0.5) for number in point)
    return row, column


def _marks(scene: Scene, frames: Sequence[Frame]) -> dict[tuple[int, int], str]:
    """The mark of each marked cell; the agent hides what is below it."""
    marks = {_cell(point): WAY for frame in frames[-TRAIL:] for point in frame.path[:-1].tolist()}
    if frames[-1].heading is not None:
        marks[_cell(frames[-1].heading)] = HEADING
    return marks | dict.fromkeys(map(_cell, scene.best), BEST) | {_cell(frames[-1].place): AGENT}


def _map(shares: np.ndarray, marks: Mapping[tuple[int, int], str], cell: int, coloured: bool) -> Text:
    """Rows of cells, each one or two characters wide; shares are 0 to 1, NaN on walls."""
    text = Text(no_wrap=True, overflow="crop")
    for (row, column), value in np.ndenumerate(shares):
        if row and not column:
            text.append("\n")
        mark = marks.get((row, column), "")
        if not coloured:
            shade = WALL_MARK if math.isnan(value) else SHADES[round(value * (len(SHADES) - 1))]
            text.append((mark or shade * 2)[:cell])
        elif mark == AGENT:
            text.append(mark[:cell], Style(color="#ffffff", bgcolor=ACCENT, bold=True))
        else:
            ink = "#ffffff" if value < 0.6 else "#000000"
            text.append((mark or "  ")[:cell], Style(color=ink, bgcolor=_colour(value), bold=True))
    return text


def _half_blocks(shares: np.ndarray, best: set[tuple[int, int]]) -> Text:
    """One character per two cells: the upper half of a block is one row, its background the next."""
    text = Text(no_wrap=True, overflow="crop")
    colours = {at: "#ffffff" if at in best else _colour(value) for at, value in np.ndenumerate(shares)}
    for upper in range(0, len(shares), 2):
        for column in range(shares.shape[1]):
            text.append("▀", Style(color=colours[upper, column], bgcolor=colours.get((upper + 1, column))))
        text.append("\n")
    return text.append("white: the best cell" if best else "", "dim")


def _colour(share: float) -> str:
    if math.isnan(share):
        return WALL
    mixed = (round(np.interp(share * (len(VIRIDIS) - 1), range(len(VIRIDIS)), channel)) for channel in VIRIDIS.T)
    return "#" + bytes(mixed).hex()


def pays_line(correlations: dict[str, float]) -> str:
    """What the expected reward goes with most, in words: the three largest correlations."""
    most = sorted(correlations.items(), key=lambda item: -abs(item[1]))[:3]
    said = [f"{name} {value:+.1f}".replace("-", "−") for name, value in most if abs(value) >= 0.1]
    return f"it seems to pay: {', '.join(said)}" if said else "it does not know yet what pays"


def _middle(columns: int, width: int) -> slice:
    cut = max(columns - width, 0)
    return slice(cut // 2, columns - (cut - cut // 2))


def _picture(pixels: np.ndarray, coloured: bool) -> Text:
    """One character for two pixels: the upper half of a block is one row, its background the next."""
    text = Text(no_wrap=True, overflow="crop")
    paper = pixels[0, 0]
    for upper in range(0, len(pixels) - 1, 2):
        for top, below in zip(pixels[upper], pixels[upper + 1], strict=True):
            if coloured:
                text.append("▀", Style(color=_hex(top), bgcolor=_hex(below)))
            else:
                text.append(PLAIN[bool((top != paper).any()), bool((below != paper).any())])
        text.append("\n")
    return text


def _hex(pixel: np.ndarray) -> str:
    return "#" + bytes(pixel.tolist()).hex()
