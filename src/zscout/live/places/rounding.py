"""Numbers as they are sent to the page."""

from typing import Any

import numpy as np
from torch import Tensor

DIGITS = 4


def rounded(values: Tensor | np.ndarray | float | None, digits: int = DIGITS) -> Any:
    """Plain numbers with few digits."""
    return None if values is None else np.round(np.asarray(values), digits).tolist()
