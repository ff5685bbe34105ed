"""An update as one CUDA graph of fused kernels, and the time that its kernels take. On the CPU: the update as it is."""

import contextlib
import warnings
from collections.abc import Callable, Iterator

import torch
from torch import Generator, Tensor

WARM_UP = 3  # updates before one is captured, as CUDA graphs need
MOST_SPANS = 1_000  # of a stopwatch, before they are added up


class Stopwatch:
    """Frames simulated so far, and the seconds from the first to the last kernel of updates on a GPU.

    Gaps between kernels count; updates that are one graph have short ones.
    """

    def __init__(self, device: torch.device) -> None:
        self.frames, self._busy, self._on_gpu = 0, 0.0, device.type == "cuda"
        self._spans: list[tuple[torch.cuda.Event, torch.cuda.Event]] = []

    @contextlib.contextmanager
    def updates(self) -> Iterator[None]:
        """While updates are enqueued."""
        if not self._on_gpu:
            yield
            return
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        yield
        last.record()
        self._spans.append((first, last))
        if len(self._spans) > MOST_SPANS:
            self._add_up()

    @property
    def busy(self) -> float:
        """Seconds on the GPU; 0 on the CPU. Waits for the updates."""
        self._add_up()
        return self._busy

    def _add_up(self) -> None:
        for first, last in self._spans:
            last.synchronize()
            self._busy += first.elapsed_time(last) / 1e3
        self._spans.clear()


def fused(update: Callable[[], Tensor]) -> Callable[[], Tensor]:
    """``update`` compiled into fewer kernels, or as it is if it cannot be compiled; calls it once."""
    try:
        compiled: Callable[[], Tensor] = torch.compile(update, dynamic=False)
        compiled()
    except Exception as error:
        reason = f"{error}".strip().partition("\n")[0]
        warnings.warn(f"the update is not compiled, so training takes longer: {reason}", stacklevel=2)
        return update
    return compiled


def as_graph(
    update: Callable[[], Tensor], live: Callable[[], dict[str, Tensor]], rng: Generator, *, fuse: bool = False
) -> Callable[[], Tensor]:
    """``update`` as one CUDA graph, of fused kernels if asked for; what it changes (``live``, ``rng``) is put back.

    On the CPU, the update as it is.
    """
    if rng.device.type != "cuda":
        return update
    before = {name: tensor.detach().clone() for name, tensor in live().items()}
    seeded = rng.get_state()
    precision = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")  # TF32: the graph keeps the kernels chosen now
    try:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            update = fused(update) if fuse else update
            for _ in range(WARM_UP):
                update()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        graph.register_generator_state(rng)
        with torch.cuda.graph(graph):
            answer = update()
    finally:
        torch.set_float32_matmul_precision(precision)
    with torch.no_grad():
        for name, tensor in live().items():  # moments of an optimiser appear with its first step
            tensor.copy_(before[name]) if name in before else tensor.zero_()
    rng.set_state(seeded)

    def replay() -> Tensor:
        graph.replay()
        return answer

    return replay
