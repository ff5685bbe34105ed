"""A run of a body in the terminal: the body from the side, what it does in words, and its numbers."""

from collections.abc import Iterator, Sequence

import numpy as np
from rich.console import Console, ConsoleOptions, RenderableType
from rich.style import Style
from rich.text import Text

from zscout.watch.body import BodyFrame, BodyScene
from zscout.watch.terminal import ACCENT, numbers_line, sparkline

PLAIN = {(True, True): "█", (True, False): "▀", (False, True): "▄", (False, False): " "}


class BodyView:
    """The latest of the frames; it fits the console's width, with or without colours."""

    def __init__(self, scene: BodyScene, frames: Sequence[BodyFrame], steps: int) -> None:
        self.scene, self.frames, self.steps = scene, frames, steps

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        """The body and four lines."""
        frame, width = self.frames[-1], options.max_width
        coloured = console.color_system is not None and not console.no_color
        yield _picture(frame.picture[:, _middle(frame.picture.shape[1], width)], coloured)
        yield Text(f"It {frame.doing}", no_wrap=True, overflow="ellipsis")
        yield Text(pays_line(frame.correlations), no_wrap=True, overflow="ellipsis")
        yield Text("reward ").append(sparkline([f.reward for f in self.frames[-(width - 7) :]]), style=ACCENT)
        yield Text(numbers_line(frame, self.steps))


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
