"""A training update as one CUDA graph."""

from collections.abc import Callable

import torch
from torch import Generator, Tensor

WARM_UP = 3  # updates before the capture, as CUDA graphs need


def as_graph(
    update: Callable[[], Tensor], live: Callable[[], dict[str, Tensor]], rng: Generator
) -> Callable[[], Tensor]:
    """Capture ``update``; the tensors that it changes (``live``) and ``rng`` are put back afterwards."""
    before = {name: tensor.detach().clone() for name, tensor in live().items()}
    seeded = rng.get_state()
    precision = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")  # TF32: the graph keeps the kernels chosen now
    try:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
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
