"""Numbers as people read them: tensors of one run or of many."""

from jaxtyping import Float
from torch import Tensor


def one_or_range(values: Float[Tensor, "*b"], form: str) -> str:
    """The number, or the least and the largest of many runs; "unknown" if all are NaN."""
    known = values[~values.isnan()]
    if not known.numel():
        return "unknown"
    low, high = (format(float(value), form) for value in (known.min(), known.max()))
    return low if low == high else f"{low} to {high}"


def of_runs(values: Float[Tensor, "*b"]) -> str:
    """ " in 3 runs", or nothing for a single run."""
    return f" in {values.numel()} runs" if values.ndim else ""
