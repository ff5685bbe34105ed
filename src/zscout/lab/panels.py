"""Tables behind pictures of worlds: a grid of small maps, each with a background and perhaps a path."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, eq=False)
class Panel:
    """One map: a value for each cell (NaN on walls) and the cells walked through, in order."""

    title: str
    background: np.ndarray  # [rows columns]
    path: np.ndarray  # [steps + 1, 2] rows and columns; [0, 2] for none

    def to_json(self) -> dict[str, Any]:
        """The same as plain numbers, null on walls."""
        cells = [[None if np.isnan(v) else round(float(v), 6) for v in row] for row in self.background]
        return {"title": self.title, "background": cells, "path": self.path.tolist()}


@dataclass(frozen=True, eq=False)
class Strip:
    """A row of panels under one label; ``kind`` says what the background is."""

    label: str
    kind: str  # "feature" or "reward"
    panels: Sequence[Panel]


@dataclass(frozen=True, eq=False)
class PanelFigure:
    """Strips in named sections, and a caption that says what to see."""

    name: str
    caption: str
    sections: Mapping[str, Sequence[Strip]]
    alt: str = ""

    def to_json(self) -> dict[str, Any]:
        """The figure as plain numbers."""
        sections = {
            title: [
                {"label": strip.label, "kind": strip.kind, "panels": [p.to_json() for p in strip.panels]}
                for strip in strips
            ]
            for title, strips in self.sections.items()
        }
        return {"name": self.name, "caption": self.caption, "alt": self.alt, "sections": sections}
