"""Export a model to ONNX: π, φ and ψ as files that run without torch and without zscout."""

import copy
import inspect
import io
import json
import math
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from zscout.base.files import write_bytes
from zscout.base.hints import MissingExtraError
from zscout.models.fb.model import FB
from zscout.models.usfa.model import USFA

FORMAT = "zscout-onnx-1"
OPSET = 17  # the first with layer normalisation
DESCRIPTION = "export.json"
OBSERVATION, Z = "observation", "z"
INPUTS = {"pi": (OBSERVATION, Z), "phi": (OBSERVATION,), "psi": (OBSERVATION, Z)}
Parts: TypeAlias = dict[str, tuple[Callable[..., Tensor], str]]  # functions, each with its output's name


def export(model: USFA | FB, folder: str | Path) -> Path:
    """Write pi.onnx (observation, z → action), phi.onnx (observation → φ), psi.onnx (observation, z → ψ), export.json.

    All inputs have a leading batch dimension of any size. z is as for ``model.act``: any length, 0 included. A policy
    that draws its actions gives their probabilities instead.
    """
    if not isinstance(model, USFA | FB):
        raise ValueError(f"{type(model).__name__} cannot be exported: only the networks of a USFA or an FB can")
    if find_spec("onnx") is None:
        raise MissingExtraError("export needs onnx", "onnx")
    frozen = copy.deepcopy(model).cpu().float().freeze()
    parts = _parts_of_fb(frozen) if isinstance(frozen, FB) else _parts_of_usfa(frozen)
    contents = {f"{name}.onnx": _as_onnx(frozen, name, *part) for name, part in parts.items()}
    text = json.dumps(_description(frozen, parts), indent=1, allow_nan=False) + "\n"
    folder = Path(folder)
    for name, content in {**contents, DESCRIPTION: text.encode()}.items():
        write_bytes(folder / name, content)
    return folder


def _parts_of_fb(model: FB) -> Parts:
    def pi(obs: Float[Tensor, "n k"], z: Float[Tensor, "n d"]) -> Float[Tensor, "n a"]:
        return model.action_of(model.encode(obs), model.to_z(z))

    def psi(obs: Float[Tensor, "n k"], z: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
        encoded, own = model.encode(obs), model.to_z(z)
        return model.forward_of(encoded, model.action_of(encoded, own), own).mean(0) @ model.root

    return {"pi": (pi, "action"), "phi": (model.features_of, "phi"), "psi": (psi, "psi")}


def _parts_of_usfa(model: USFA) -> Parts:
    draws = bool(model.config.temperature)

    def pi(state: Int[Tensor, " n"], z: Float[Tensor, "n d"]) -> Tensor:
        _, logits = model.outputs(state, z, with_psi=model.actor is None)
        return model.probabilities(logits) if draws else logits.argmax(-1)

    def phi(state: Int[Tensor, " n"]) -> Float[Tensor, "n d"]:
        return model.features[state]

    def psi(state: Int[Tensor, " n"], z: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
        each, logits = model.outputs(state, z, with_psi=True)
        weights = model.probabilities(logits)
        return (weights[:, None] @ each.mean(0))[:, 0]

    return {"pi": (pi, "probabilities" if draws else "action"), "phi": (phi, "phi"), "psi": (psi, "psi")}


def _as_onnx(model: USFA | FB, name: str, compute: Callable[..., Tensor], output: str) -> bytes:
    """A part as an ONNX file, by torch's exporter that traces: the other one needs onnxscript."""
    obs = torch.zeros(2, *model.observation_space.shape) if isinstance(model, FB) else torch.zeros(2, dtype=torch.long)
    given = {OBSERVATION: obs, Z: torch.ones(2, model.dim)}
    arguments = tuple(given[one] for one in INPUTS[name])
    newer = "dynamo" in inspect.signature(torch.onnx.export).parameters  # 2.5 or newer
    chosen: dict[str, Any] = {"dynamo": False} if newer else {}
    file: Any = io.BytesIO()
    with torch.no_grad(), warnings.catch_warnings(action="ignore"):  # it warns of its age, and of fixed shapes
        compute(*arguments)  # fills caches outside the trace
        torch.onnx.export(
            _Module(compute),
            arguments,
            file,
            input_names=list(INPUTS[name]),
            output_names=[output],
            dynamic_axes={name: {0: "batch"} for name in (*INPUTS[name], output)},
            opset_version=OPSET,
            **chosen,
        )
    content: bytes = file.getvalue()
    return content


class _Module(nn.Module):
    """A function as a module; its tensors become constants of the file."""

    def __init__(self, compute: Callable[..., Tensor]) -> None:
        super().__init__()
        self.compute = compute

    def forward(self, *inputs: Tensor) -> Tensor:
        """The function's output."""
        return self.compute(*inputs)


def _description(model: USFA | FB, parts: Parts) -> dict[str, Any]:
    """What a program needs to know to run the files."""
    if isinstance(model, FB):
        observation: dict[str, Any] = {"dtype": "float32", "shape": list(model.observation_space.shape)}
        observation |= {"low": model.config.observation_low, "high": model.config.observation_high}
        action: dict[str, Any] = {"dtype": "float32", "shape": [model.config.actions], "low": -1.0, "high": 1.0}
    else:
        observation = {"dtype": "int64", "shape": [], "n": model.config.n_states}
        action = {"dtype": "int64", "shape": [], "n": model.config.n_actions}
    return {
        "format": FORMAT,
        "name": str(model.about.get("name", "")),
        "model": type(model).__name__,
        "dim": model.dim,
        "gamma": model.gamma,
        "z_radius": math.sqrt(model.dim),
        "observation": observation,
        "action": action,
        "files": {f"{name}.onnx": {"inputs": list(INPUTS[name]), "output": out} for name, (_, out) in parts.items()},
    }
