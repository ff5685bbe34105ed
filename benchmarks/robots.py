"""What docs/robots.md says of exported files and of the Hub's cache.

    python -m benchmarks.robots

prints the largest differences between onnxruntime and torch over all shipped models, the time of one action of a
full-size model by either, and the CPU time to load a model from the Hub's cache without a network.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnxruntime
import torch

from benchmarks.deadlines import full_size
from benchmarks.measurement import interleaved
from zscout.models.fb.model import FB
from zscout.models.files.onnx_export import export
from zscout.models.files.pretrained import load, observations_of, shipped
from zscout.models.usfa.model import USFA

PAIRS = 2_000  # of observation and z
ROUNDS = 300
COMMIT = "0" * 40
LOADS = 5
TIMED_LOAD = """
import sys, time, torch, zscout.models.files.pretrained
before = time.process_time()
zscout.load(sys.argv[1])
print(time.process_time() - before)
"""


def main() -> None:
    """Measure and print."""
    torch.set_num_threads(1)
    for name in shipped():
        print(f"{name}: {differences(name)}", flush=True)
    print(one_action(), flush=True)
    print(loading("pointmaze-fb"))


def sessions(model: USFA | FB, folder: str) -> dict[str, onnxruntime.InferenceSession]:
    """The exported files, each on one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return {path.stem: onnxruntime.InferenceSession(path, options) for path in export(model, folder).glob("*.onnx")}


def run(session: onnxruntime.InferenceSession, obs: np.ndarray, z: np.ndarray) -> Any:
    """The output of a file."""
    given = {"observation": obs, "z": z}
    (answer,) = session.run(None, {one.name: given[one.name] for one in session.get_inputs()})
    return answer


def differences(name: str) -> str:
    """The largest difference of actions, and of φ and ψ relative to their largest entry."""
    model: Any = load(name)
    z = model.sample_z(PAIRS, 0)
    if isinstance(model, USFA):
        obs = np.arange(PAIRS) % model.config.n_states
    elif not model.observation_space.is_bounded():  # such as a body's, which are saved with it
        obs = np.resize(observations_of(name).numpy(), (PAIRS, *model.observation_space.shape))
    else:
        model.observation_space.seed(0)
        obs = np.stack([model.observation_space.sample() for _ in range(PAIRS)])
    with TemporaryDirectory() as folder:
        found = {part: run(session, obs, z.numpy()) for part, session in sessions(model, folder).items()}
    phi = model.phi(obs).numpy()
    psi = torch.cat([model.psi(o, w[:, None])[:, 0] for o, w in _in_parts(obs, z)]).numpy()
    relative = [float(np.abs(a - b).max() / np.abs(b).max()) for a, b in ((found["phi"], phi), (found["psi"], psi))]
    action = model.act(obs, z)
    apart = int((found["pi"] != action).sum()) if action.ndim == 1 else float(np.abs(found["pi"] - action).max())
    kind = f"{apart} of {PAIRS:,} actions differ" if action.ndim == 1 else f"actions differ by {apart:.1e}"
    return f"{kind}, φ by {relative[0]:.1e}, ψ by {relative[1]:.1e} of the largest entry"


def _in_parts(obs: np.ndarray, z: torch.Tensor) -> list[tuple[np.ndarray, torch.Tensor]]:
    return [(obs[first : first + 250], z[first : first + 250]) for first in range(0, len(obs), 250)]


def one_action() -> str:
    """Median time of π(obs, z) by torch and by onnxruntime, one thread."""
    model = full_size(0)
    obs = np.random.default_rng(0).standard_normal((ROUNDS, *model.observation_space.shape)).astype(np.float32)
    z, step = model.sample_z(1, 0), iter(range(10**9))
    with TemporaryDirectory() as folder:
        pi = sessions(model, folder)["pi"]
        ways = {
            "torch": lambda: model.act(obs[next(step) % ROUNDS], z[0]),
            "onnxruntime": lambda: run(pi, obs[next(step) % ROUNDS][None], z.numpy()),
        }
        timings = interleaved(ways, ROUNDS)
    said = [f"{name} {1e3 * t.median:.2f} ms (p99 {1e3 * t.p99:.2f} ms)" for name, t in timings.items()]
    return f"one action, FB of width {model.config.hidden:,}: {', '.join(said)}"


def loading(name: str) -> str:
    """Median CPU time of ``zscout.load`` in new processes: by name, and from the Hub's cache without a network."""
    with TemporaryDirectory() as home:
        stored = Path(home, "hub", "models--me--copy")
        shutil.copytree(shipped()[name], stored / "snapshots" / COMMIT)
        (stored / "refs").mkdir()
        (stored / "refs" / "main").write_text(COMMIT)
        given = {**os.environ, "HF_HOME": home, "HF_HUB_OFFLINE": "1"}
        found: dict[str, list[float]] = {name: [], "hf://me/copy": []}
        for _ in range(LOADS):
            for what, seconds in found.items():
                words = [sys.executable, "-c", TIMED_LOAD, what]
                done = subprocess.run(words, env=given, capture_output=True, text=True, check=True)
                seconds.append(float(done.stdout))
    folder, hub = (1e3 * float(np.median(seconds)) for seconds in found.values())
    return f"zscout.load of {name}, CPU time after import torch: {folder:.0f} ms by name, {hub:.0f} ms by hf:// offline"


if __name__ == "__main__":
    main()
