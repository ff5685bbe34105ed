"""Small files in the public layouts of reward-free data, all of the same episodes."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow
import pyarrow.parquet

WIDTH, ACTIONS = 3, 2
LENGTHS = (5, 9, 4)  # transitions of each episode; the second terminates
TERMINATES = 1

Episode = tuple[np.ndarray, np.ndarray, np.ndarray]


def episodes() -> list[Episode]:
    """Observations [T+1 k], actions [T a] in [−1, 1], and where it terminated [T]."""
    rng = np.random.default_rng(0)
    found = []
    for number, length in enumerate(LENGTHS):
        over = np.zeros(length, bool)
        over[-1] = number == TERMINATES
        obs = rng.normal(size=(length + 1, WIDTH)).astype(np.float32)
        found.append((obs, rng.uniform(-1, 1, (length, ACTIONS)).astype(np.float32), over))
    return found


def transitions() -> tuple[np.ndarray, ...]:
    """All of them: obs, action, next_obs, terminated, and where a trajectory ends."""
    each = [
        (obs[:-1], action, obs[1:], over, np.arange(len(action)) == len(action) - 1) for obs, action, over in episodes()
    ]
    return tuple(np.concatenate(part) for part in zip(*each, strict=True))


def plain(path: Path, **others: Any) -> None:
    """An .npz of all transitions, some arrays replaced; None leaves one out."""
    obs, action, next_obs, over, _ = transitions()
    arrays = {"obs": obs, "action": action, "next_obs": next_obs, "terminated": over, **others}
    np.savez(path, **{name: array for name, array in arrays.items() if array is not None})


def _exorl(folder: Path) -> None:
    for number, (obs, action, over) in enumerate(episodes()):
        dummy = np.zeros((1, ACTIONS), np.float32)
        arrays: dict[str, Any] = {
            "observation": obs,
            "action": np.concatenate([dummy, action]),
            "reward": np.zeros((len(obs), 1), np.float32),
            "discount": np.concatenate([[[1.0]], 1.0 - over[:, None]]).astype(np.float32),
            "physics": np.zeros((len(obs), 7)),
        }
        np.savez_compressed(folder / f"episode_{number:06d}_{len(action)}.npz", **arrays)


def _ogbench(folder: Path) -> None:
    rows = [
        (obs, np.concatenate([action, action[-1:]]), np.arange(len(obs)) == len(obs) - 1)
        for obs, action, _ in episodes()
    ]
    obs, actions, terminals = (np.concatenate(part) for part in zip(*rows, strict=True))
    np.savez_compressed(
        folder / "maze-v0.npz", observations=obs, actions=actions, terminals=terminals, qpos=np.zeros((len(obs), 4))
    )


def _ogbench_with_next(folder: Path) -> None:
    obs, action, next_obs, _, end = transitions()
    np.savez(folder / "maze-v0.npz", observations=obs, actions=action, next_observations=next_obs, terminals=end)


def _d4rl(folder: Path) -> None:
    """Its last observations, where it terminated or timed out, have an action that leads nowhere."""
    rows = [
        (obs, np.concatenate([action, action[-1:]]), np.append(over, over[-1]), np.arange(len(obs)) == len(obs) - 1)
        for obs, action, over in episodes()
    ]
    obs, actions, over, last = (np.concatenate(part) for part in zip(*rows, strict=True))
    with h5py.File(folder / "maze-v0.hdf5", "w") as file:
        arrays = {"observations": obs, "actions": actions, "terminals": over & last, "timeouts": last & ~over}
        for name, array in {**arrays, "infos/qpos": obs}.items():
            file[name] = array
        file["metadata/algorithm"] = "SAC"


def _d4rl_with_next(folder: Path) -> None:
    obs, action, next_obs, over, end = transitions()
    arrays = {"observations": obs, "actions": action, "next_observations": next_obs, "terminals": over}
    with h5py.File(folder / "maze-v0.hdf5", "w") as file:
        for name, array in {**arrays, "timeouts": end & ~over}.items():
            file[name] = array


def _minari(folder: Path) -> None:
    (folder / "data").mkdir()
    (folder / "data" / "metadata.json").write_text("{}")
    with h5py.File(folder / "data" / "main_data.hdf5", "w", track_order=True) as file:
        for number, (obs, action, over) in enumerate(episodes()):
            group = file.create_group(f"episode_{number}")
            arrays = {"observations": obs, "actions": action, "rewards": np.zeros(len(action)), "terminations": over}
            for name, array in {**arrays, "truncations": ~over}.items():
                group.create_dataset(name, data=array)


def _minari_of_dicts(folder: Path) -> None:
    with h5py.File(folder / "main_data.hdf5", "w") as file:
        for number, (obs, action, over) in enumerate(episodes()):
            group = file.create_group(f"episode_{number}")
            group.create_dataset("observations/observation", data=obs)
            group.create_dataset("observations/desired_goal", data=obs[:, :1])
            for name, array in {"actions": action, "terminations": over}.items():
                group.create_dataset(name, data=array)


def _metamotivo(folder: Path) -> None:
    with h5py.File(folder / "episodes.hdf5", "w") as file:
        file.attrs["num_episodes"] = len(LENGTHS)
        for number, (obs, action, over) in enumerate(episodes()):
            for name, array in {"observation": obs, "action": action, "terminated": over[:, None]}.items():
                file.create_dataset(f"ep_{number}/{name}", data=array, compression="gzip")


def _metamotivo_buffer(folder: Path, following: str = "next/", terminated: str = "next/terminated") -> None:
    obs, action, next_obs, over, _ = transitions()
    with h5py.File(folder / "buffer.hdf5", "w") as file:
        arrays = {"observation": obs, "action": action, "qpos": obs, f"{following}observation": next_obs}
        flags = 1.0 - over if terminated == "discount" else over
        for name, array in {**arrays, terminated: flags[:, None]}.items():
            file.create_dataset(name, data=array)


def _plain(folder: Path) -> None:
    plain(folder / "all.npz")


def _plain_parquet(folder: Path) -> None:
    obs, action, next_obs, over, _ = transitions()
    columns = {"obs": obs.tolist(), "action": action.tolist(), "next_obs": next_obs.tolist(), "terminated": over}
    pyarrow.parquet.write_table(pyarrow.table(columns), folder / "all.parquet", row_group_size=7)


WRITERS: dict[str, tuple[str, Callable[[Path], None]]] = {
    "exorl": ("exorl", _exorl),
    "ogbench": ("ogbench", _ogbench),
    "ogbench with next": ("ogbench", _ogbench_with_next),
    "d4rl": ("d4rl", _d4rl),
    "d4rl with next": ("d4rl", _d4rl_with_next),
    "minari": ("minari", _minari),
    "minari of dicts": ("minari", _minari_of_dicts),
    "metamotivo": ("metamotivo", _metamotivo),
    "metamotivo buffer": ("metamotivo", _metamotivo_buffer),
    "flat buffer": ("metamotivo", partial(_metamotivo_buffer, following="next_", terminated="next_terminated")),
    "flat buffer, terminated": ("metamotivo", partial(_metamotivo_buffer, following="next_", terminated="terminated")),
    "flat buffer with discount": ("metamotivo", partial(_metamotivo_buffer, following="next_", terminated="discount")),
    "plain": ("plain", _plain),
    "plain Parquet": ("plain", _plain_parquet),
}
"""By name: the layout, and what writes it into a folder."""
