"""Readers of public layouts: the same episodes in each, in blocks; files that are damaged, hostile or wrong."""

import errno
import io
import os
import pickle
import tracemalloc
import zipfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
import torch

from data_files import LENGTHS, WRITERS, plain, transitions
from zscout.base.hints import MissingExtraError
from zscout.models.data import tables
from zscout.models.data.dataset import Dataset, continuous, gather
from zscout.models.data.layouts import data_files


def read(path: Path, into: Path, layout: str = "") -> Dataset:
    for _ in gather(path, into, layout):
        pass
    return Dataset(into)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("rows", [3, 65_536])
def test_every_layout_gives_the_same_transitions(
    name: str, rows: int, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "ROWS", rows)
    layout, write = WRITERS[name]
    write(folder)
    data = read(folder, tmp_path / "cache")
    assert data.summary.layout == layout
    obs, action, next_obs, over, end = transitions()
    np.testing.assert_array_equal(data.obs, obs)
    np.testing.assert_array_equal(data.action, action)
    np.testing.assert_array_equal(data.next_obs, next_obs)
    np.testing.assert_array_equal(data.end, end)
    terminates = layout != "ogbench" and name != "d4rl"  # ends of trajectories only; the terminal state is not there
    np.testing.assert_array_equal(data.terminated, over & terminates)
    assert data.summary.trajectories == len(LENGTHS)
    assert (data.summary.longest, data.summary.terminated) == (max(LENGTHS), int(terminates))
    assert data.summary.obs_high == pytest.approx(np.maximum(obs.max(0), next_obs.max(0)).tolist())
    assert not data.summary.discrete


def test_trajectories_are_found_where_the_next_observation_is_the_next_row(folder: Path, tmp_path: Path) -> None:
    obs, action, next_obs, over, end = transitions()
    order = np.random.default_rng(1).permutation(len(obs) // 2).repeat(2) * 2 + np.tile([0, 1], len(obs) // 2)
    plain(folder / "a.npz", obs=obs[order], action=action[order], next_obs=next_obs[order], terminated=over[order])
    data = read(folder, tmp_path / "cache")
    assert data.summary.trajectories == 1 + sum(b != a + 1 or end[a] for a, b in pairwise(order))
    first, lengths = data.trajectories
    for start, length in zip(first, lengths, strict=True):
        rows = slice(start, start + length)
        np.testing.assert_array_equal(data.next_obs[rows][:-1], data.obs[rows][1:])


def test_truncated_ends_a_trajectory(folder: Path, tmp_path: Path) -> None:
    truncated = np.zeros(sum(LENGTHS), bool)
    truncated[2] = True
    plain(folder / "a.npz", truncated=truncated)
    assert read(folder, tmp_path / "cache").summary.trajectories == len(LENGTHS) + 1


def test_rows_are_drawn_in_the_order_asked_for(folder: Path, tmp_path: Path) -> None:
    plain(folder / "a.npz")
    data = read(folder, tmp_path / "cache")
    index = torch.tensor([7, 0, 12, 7])
    drawn = data.rows(index)
    np.testing.assert_array_equal(drawn.obs, data.obs[index])
    np.testing.assert_array_equal(drawn.over, data.terminated[index])


def test_whole_trajectories_are_held_out(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    for number in range(30):
        plain(tmp_path / "data" / f"{number:02d}.npz")
    data = read(tmp_path / "data", tmp_path / "cache")
    train, held = data.split(torch.Generator().manual_seed(0))
    assert sorted([*train.tolist(), *held.tolist()]) == list(range(len(data)))
    first, _ = data.trajectories
    parts = [np.searchsorted(first, part.numpy(), side="right") for part in (train, held)]
    assert not set(parts[0]) & set(parts[1])
    assert 27 - max(LENGTHS) < len(held) <= 27 == round(0.05 * len(data))


def test_of_few_trajectories_the_end_of_the_longest_is_held_out(folder: Path, tmp_path: Path) -> None:
    plain(folder / "a.npz")
    train, held = read(folder, tmp_path / "cache").split(torch.Generator().manual_seed(0))
    assert held.tolist() == [LENGTHS[0] + LENGTHS[1] - 1]
    assert len(train) == sum(LENGTHS) - 1
    parts = dict(zip(("obs", "action", "next_obs", "terminated"), transitions(), strict=False))
    plain(folder / "a.npz", **{name: part[:1] for name, part in parts.items()})
    train, held = read(folder, tmp_path / "cache").split(torch.Generator().manual_seed(0))
    assert (train.tolist(), held.tolist()) == ([0], [])


def test_the_same_files_are_read_once(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain(folder / "a.npz")
    first = read(folder, tmp_path / "cache").summary
    monkeypatch.setattr("zscout.models.data.dataset.opened", None)  # reading again would be a TypeError
    assert read(folder, tmp_path / "cache").summary == first
    monkeypatch.undo()
    plain(folder / "a.npz", obs=transitions()[0] + 1)
    os.utime(folder / "a.npz", ns=(1, 1))
    assert read(folder, tmp_path / "cache").summary.digest != first.digest


def test_only_a_folder_of_copies_is_replaced(folder: Path, tmp_path: Path) -> None:
    """No file of the user is removed, whatever it is called."""
    plain(folder / "a.npz")
    (folder / "manifest.json").write_text("{}")
    for into in (folder, folder.parent):  # holds the source; holds other files
        with pytest.raises(ValueError, match="move"):
            read(folder, into)
    (tmp_path / "link").symlink_to(folder)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.txt").touch()
    for name in ("link", "other"):
        with pytest.raises(ValueError, match="move"):
            read(folder / "a.npz", tmp_path / name)
    assert sorted(path.name for path in tmp_path.rglob("*.*")) == ["a.npz", "manifest.json", "thesis.txt"]
    plain(tmp_path / "b.npz")
    read(tmp_path / "b.npz", tmp_path / "cache")
    assert read(folder / "a.npz", tmp_path / "cache").summary.transitions == sum(LENGTHS)


def test_a_large_compressed_file_is_read_in_blocks(folder: Path, tmp_path: Path) -> None:
    """Each block has 65,536 rows; no array is as long as the file."""
    n = 150_000
    obs = np.arange(2 * n, dtype=np.float32).reshape(n, 2) / n
    np.savez_compressed(folder / "a.npz", observations=obs, actions=obs / 2, terminals=np.arange(n) % 1000 == 999)
    longest = 0
    for block in tables.NpzTable(folder / "a.npz").blocks(["observations", "actions", "terminals"]):
        longest = max(longest, *map(len, block))
    assert longest == tables.ROWS
    data = read(folder, tmp_path / "cache")
    assert (len(data), data.summary.trajectories, data.summary.longest) == (n - 150, 150, 999)
    assert isinstance(data.obs, np.memmap)


def test_arrays_stored_by_columns_are_read(folder: Path, tmp_path: Path) -> None:
    plain(folder / "a.npz", obs=np.asfortranarray(transitions()[0]))
    np.testing.assert_array_equal(read(folder, tmp_path / "cache").obs, transitions()[0])


# Wrong files


class Evil:
    """Its pickle would make a file."""

    def __reduce__(self) -> Any:
        return Path.touch, (Path("made-by-a-pickle"),)


def broken(name: str, path: Path) -> None:
    obs, action, next_obs, over, _ = transitions()
    if name == "pickled":
        plain(path, obs=np.array([Evil()] * len(obs), dtype=object))
    elif name == "NaN":
        wrong = obs.copy()
        wrong[3, 1] = np.nan
        plain(path, obs=wrong)
    elif name == "beyond float32":
        plain(path, next_obs=next_obs.astype(np.float64) * 1e300)
    elif name == "missing":
        plain(path, next_obs=None)
    elif name == "truncated":
        plain(path)
        path.write_bytes(path.read_bytes()[:-300])
    elif name == "cut inside":
        plain(path)
        with zipfile.ZipFile(path) as file:
            members = {member: file.read(member) for member in file.namelist()}
        with zipfile.ZipFile(path, "w") as file:
            for member, content in members.items():
                file.writestr(member, content[:-40] if member == "obs.npy" else content)
    elif name == "widths":
        plain(path, next_obs=next_obs[:, :2])
    elif name == "lengths":
        plain(path, action=action[:-1])
    elif name == "images":
        plain(path, obs=np.zeros((len(obs), 8, 8)), next_obs=np.zeros((len(obs), 8, 8)))
    elif name == "words":
        plain(path, action=np.array(["left"] * len(obs)))
    elif name == "a pickle":
        path.write_bytes(pickle.dumps({"obs": obs, "terminated": over}))
    elif name == "wide":
        plain(path, obs=np.zeros((len(obs), 10_001)))
    elif name == "nothing by columns":
        plain(path, obs=np.asfortranarray(obs[:0]), action=action[:0], next_obs=next_obs[:0], terminated=over[:0])
    elif name == "nothing":
        plain(path, obs=obs[:0], action=action[:0], next_obs=next_obs[:0], terminated=over[:0])


WRONG = {
    "pickled": "Python objects",
    "NaN": "obs of transition 3 holds NaN",
    "beyond float32": "beyond float32",
    "missing": "no known layout",
    "truncated": "damaged",
    "cut inside": "damaged",
    "widths": "next_obs has 2 entries",
    "lengths": "differ in length",
    "images": "expected \\[n k\\]",
    "words": "dtype <U4",
    "a pickle": "damaged",
    "wide": "at most 10,000",
    "nothing by columns": "no transitions",
    "nothing": "no transitions",
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_file_is_named_and_nothing_is_left(
    name: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    broken(name, folder / "a.npz")
    with pytest.raises(ValueError, match=WRONG[name]) as caught:
        read(folder, tmp_path / "cache")
    assert "a.npz" in str(caught.value)
    assert not (tmp_path / "made-by-a-pickle").exists()
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("kind", ["lzma", "parquet"])
def test_a_small_file_that_unpacks_to_very_much_is_refused(
    kind: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "PACKED", 100)
    monkeypatch.setattr(tables, "UNSTORED", 2**16)
    rows = 200_000
    if kind == "lzma":
        with zipfile.ZipFile(folder / "a.npz", "w", zipfile.ZIP_LZMA) as file, file.open("obs.npy", "w") as part:
            np.save(part, np.zeros(rows, np.float32))
    else:
        column = pyarrow.array(np.zeros(rows, np.float32))
        table = pyarrow.table(dict.fromkeys(("obs", "action", "next_obs", "terminated"), column))
        pyarrow.parquet.write_table(table, folder / "a.parquet")
    with pytest.raises(ValueError, match="should have .* are stored"):
        read(folder, tmp_path / "cache")
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("name", WRITERS)
def test_flags_other_than_0_and_1_are_refused(
    name: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """File, field and the first row are named, wherever blocks end."""
    monkeypatch.setattr(tables, "ROWS", 2)
    WRITERS[name][1](folder)
    file = data_files(folder)[0]
    for wrong in (np.nan, 0.5, -1.0, 1e-30, 2.0, np.inf):
        field = with_flag(with_flag(file, 4, -7.0)[0], 3, wrong)[1]
        with pytest.raises(ValueError, match=rf"{file.name}: {field} of row 3 is {wrong}, expected 0 or 1"):
            read(folder, tmp_path / "cache")
        assert not (tmp_path / "cache").exists()
    with_flag(file, 4, 1.0)
    for right in (0.0, 1.0):
        with_flag(file, 3, right)
        read(folder, tmp_path / "cache")


def with_flag(path: Path, row: int, value: float) -> tuple[Path, str]:
    """The file with another number in a flag, as float64, and the name of its field."""
    ends = ("terminals", "terminated", "terminations", "discount")
    if path.suffix == ".hdf5":
        with h5py.File(path, "a") as file:
            names = list[str]()
            file.visit(names.append)
            name = next(one for one in names if one.endswith(ends))
            flags = file[name][()].astype(float)
            flags[row] = value
            del file[name]
            file[name] = flags
        return path, name
    if path.suffix == ".parquet":
        table = pyarrow.parquet.read_table(path)
        flags = table["terminated"].to_numpy().astype(float)
        flags[row] = value
        at = table.column_names.index("terminated")
        pyarrow.parquet.write_table(table.set_column(at, "terminated", pyarrow.array(flags)), path)
        return path, "terminated"
    arrays = dict(np.load(path))
    name = next(one for one in arrays if one.endswith(ends))
    arrays[name] = arrays[name].astype(float)
    arrays[name][row] = value
    np.savez(path, **arrays)
    return path, name


@pytest.mark.parametrize("name", ["truncated", "timeouts"])
def test_flags_that_only_end_a_trajectory_are_checked_too(name: str, folder: Path, tmp_path: Path) -> None:
    flags = np.where(np.arange(sum(LENGTHS)) == 5, np.nan, 0.0)
    if name == "truncated":
        plain(folder / "a.npz", truncated=flags)
    else:
        WRITERS["d4rl with next"][1](folder)
        with h5py.File(folder / "maze-v0.hdf5", "a") as file:
            del file[name]
            file[name] = flags
    with pytest.raises(ValueError, match=f"{name} of row 5 is nan"):
        read(folder, tmp_path / "cache")


def npy(shape: tuple[int, ...], content: bytes = b"", by_columns: bool = False) -> bytes:
    """An array in NumPy's format whose header says this shape."""
    made = io.BytesIO()
    np.lib.format.write_array_header_1_0(made, {"descr": "<f4", "fortran_order": by_columns, "shape": shape})
    return made.getvalue() + content


SIZE = 2**23
BOMBS = {
    "zeros": (npy((SIZE // 4,), bytes(SIZE)), "8,388,608 bytes"),
    "zeros by columns": (npy((SIZE // 8, 2), bytes(SIZE), by_columns=True), "8,388,608 bytes"),
    "a long header": (b"\x93NUMPY\x02\x00" + SIZE.to_bytes(4, "little") + b" " * SIZE, "cannot be read"),
    "a header of more": (npy((10**12,), bytes(SIZE)), "4,000,000,000,000 bytes"),
    "a header of a little more": (npy((SIZE // 16,), bytes(SIZE // 4 - 4)), "breaks off"),
    "the same by columns": (npy((SIZE // 32, 2), bytes(SIZE // 4 - 4), by_columns=True), "breaks off"),
}


@pytest.mark.parametrize("kind", BOMBS)
def test_the_size_of_an_array_is_read_from_its_header_and_refused_before_it_is_unpacked(
    kind: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "UNSTORED", 2**21)
    content, why = BOMBS[kind]
    with zipfile.ZipFile(folder / "a.npz", "w", zipfile.ZIP_DEFLATED) as file:
        for name in ("obs", "action", "next_obs", "terminated"):
            file.writestr(f"{name}.npy", content)
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=rf"a\.npz.*{why}"):
            read(folder, tmp_path / "cache")
        assert tracemalloc.get_traced_memory()[1] < SIZE / 8
    finally:
        tracemalloc.stop()


def test_what_packs_well_is_read_and_what_packs_as_zeros_do_is_not() -> None:
    tables.check_packed(10**7 * 4, 10**7 * 4 // 1_000, "the flags of ten million transitions")
    tables.check_packed(10**9, 5 * 10**6, "observations with a single 1 of hundreds")
    with pytest.raises(ValueError, match="720,000,000 bytes, 800,000 are stored"):
        tables.check_packed(720 * 10**6, 800 * 10**3, "zeros")


def test_a_full_disk_is_named_while_data_is_read(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain(folder / "a.npz")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("zscout.models.data.dataset._Writer.add", full)
    with pytest.raises(OSError, match="No space left on device: .*cache'$"):
        read(folder, tmp_path / "cache")
    assert not (tmp_path / "cache").exists()


def test_files_of_other_widths_are_both_named(folder: Path, tmp_path: Path) -> None:
    plain(folder / "a.npz")
    obs, _, next_obs, *_ = transitions()
    plain(folder / "b.npz", obs=obs[:, :2], next_obs=next_obs[:, :2])
    with pytest.raises(ValueError, match=r"b\.npz: obs has 2 entries, obs of .*a\.npz has 3"):
        read(folder, tmp_path / "cache")


def test_paths_without_data_are_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="holds no data"):
        read(folder, tmp_path / "cache")
    with pytest.raises(ValueError, match="there is no"):
        read(folder / "none", tmp_path / "cache")
    plain(folder / "a.npz")
    (folder / "b.parquet").write_bytes(b"PAR1")
    with pytest.raises(ValueError, match="several kinds"):
        read(folder, tmp_path / "cache")
    (folder / "a.npz").unlink()
    with pytest.raises(ValueError, match="damaged"):
        read(folder, tmp_path / "cache")
    (folder / "b.parquet").unlink()
    (folder / "c.hdf5").write_bytes(b"\x89HDF\r\n\x1a\nno more")
    with pytest.raises(ValueError, match="damaged"):
        read(folder, tmp_path / "cache")


def test_a_layout_can_be_forced(folder: Path, tmp_path: Path) -> None:
    plain(folder / "a.npz", **{f"array_{number}": np.zeros(1) for number in range(100)})
    with pytest.raises(ValueError, match="has no 'observations'") as caught:
        read(folder, tmp_path / "cache", "ogbench")
    assert len(str(caught.value).partition("it has ")[2]) == 200  # of many arrays, the first
    with pytest.raises(ValueError, match="no groups episode_0"):
        read(folder, tmp_path / "cache", "minari")
    with pytest.raises(ValueError, match="'exrol'"):
        read(folder, tmp_path / "cache", "exrol")


def test_hdf5_reads_no_other_file(folder: Path, tmp_path: Path) -> None:
    obs, action, _, *_ = transitions()
    with h5py.File(tmp_path / "secret.hdf5", "w") as file:
        file["observation"] = obs
    with h5py.File(folder / "a.hdf5", "w") as file:
        file["observation"] = h5py.ExternalLink(str(tmp_path / "secret.hdf5"), "observation")
        file["action"] = action
    with pytest.raises(ValueError, match="is a link"):
        read(folder, tmp_path / "cache")
    with h5py.File(folder / "a.hdf5", "w") as file:  # a link to a link
        file["a/b/c/d"] = h5py.ExternalLink(str(tmp_path / "secret.hdf5"), "/")
        file["ep_0"] = h5py.SoftLink("/a/b/c/d")
    with pytest.raises(ValueError, match="ep_0 is a link"):
        read(folder, tmp_path / "cache")
    with h5py.File(folder / "a.hdf5", "w") as file:
        layout = h5py.VirtualLayout(obs.shape, obs.dtype)
        layout[:] = h5py.VirtualSource(str(tmp_path / "secret.hdf5"), "observation", obs.shape)
        for name in ("observation", "next_observation"):
            file.create_virtual_dataset(name, layout)
        file["action"] = action
    with pytest.raises(ValueError, match="in another file"):
        read(folder, tmp_path / "cache")


def hdf5(path: Path, **others: Any) -> None:
    """All transitions in the plain layout, and others beside them or in their place."""
    parts = dict(zip(("obs", "action", "next_obs", "terminated"), transitions(), strict=False))
    with h5py.File(path, "w") as file:
        for name, part in {**parts, **others}.items():
            file[name] = part


def test_hdf5_with_types_of_its_own_is_read(folder: Path, tmp_path: Path) -> None:
    hdf5(folder / "a.hdf5", kind=np.dtype("f8"))
    assert len(read(folder, tmp_path / "cache")) == sum(LENGTHS)


def test_hdf5_declares_no_more_than_it_stores(folder: Path, tmp_path: Path) -> None:
    with h5py.File(folder / "a.hdf5", "w") as file:
        for name, width in {"obs": 9_000, "action": 2, "next_obs": 9_000, "terminated": 1}.items():
            file.create_dataset(name, shape=(10**9, width), dtype="f4", chunks=(1, width))
    with pytest.raises(ValueError, match=r"a\.hdf5: obs should have 36,000,000,000,000 bytes, 0 are stored"):
        read(folder, tmp_path / "cache")


def test_episodes_without_transitions_are_skipped(folder: Path, tmp_path: Path) -> None:
    obs, action, *_ = transitions()
    with h5py.File(folder / "a.hdf5", "w") as file:
        for number, n in enumerate((0, 1, 3)):
            file[f"episode_{number}/observations"], file[f"episode_{number}/actions"] = obs[:n], action[: max(0, n - 1)]
    data = read(folder, tmp_path / "cache")
    assert (len(data), data.summary.trajectories) == (2, 1)


def test_hdf5_is_listed_once(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    WRITERS["minari"][1](folder)
    listed, collect = list[str](), tables.Hdf5Table._collect

    def counted(self: tables.Hdf5Table, group: Any, prefix: str) -> None:
        listed.append(prefix)
        collect(self, group, prefix)

    monkeypatch.setattr(tables.Hdf5Table, "_collect", counted)
    read(folder, tmp_path / "cache")
    assert sorted(listed) == ["", "episode_0/", "episode_1/", "episode_2/"]


def parquet(path: Path, **others: Any) -> None:
    """All transitions, and other columns."""
    obs, action, next_obs, over, _ = transitions()
    columns = {"obs": obs.tolist(), "action": action.tolist(), "next_obs": next_obs.tolist(), "terminated": over}
    pyarrow.parquet.write_table(pyarrow.table({**columns, **others}), path)


def test_other_columns_of_parquet_do_not_matter(folder: Path, tmp_path: Path) -> None:
    n = sum(LENGTHS)
    pairs = pyarrow.array([[("a", 1)]] * n, type=pyarrow.map_(pyarrow.string(), pyarrow.int64()))
    parquet(
        folder / "a.parquet", info=[{"a": 1}] * n, pairs=pairs, note=[None, *"x" * (n - 1)], of=[[1], *[[]] * (n - 1)]
    )
    assert len(read(folder, tmp_path / "cache")) == n
    parquet(folder / "a.parquet", obs=[{"a": 1.0}] * n)
    with pytest.raises(ValueError, match=r"a\.parquet: obs has shape .* expected rows of numbers"):
        read(folder, tmp_path / "cache")


def test_damaged_pages_of_parquet_are_named(folder: Path, tmp_path: Path) -> None:
    parquet(folder / "a.parquet")
    content = bytearray((folder / "a.parquet").read_bytes())
    content[4:44] = b"\xff" * 40
    (folder / "a.parquet").write_bytes(content)
    with pytest.raises(ValueError, match=r"a\.parquet is damaged"):
        read(folder, tmp_path / "cache")


@pytest.mark.parametrize("ending", [".NPZ", ".HDF5", ".Parquet"])
def test_endings_in_capitals_are_known(ending: str, folder: Path, tmp_path: Path) -> None:
    {".NPZ": plain, ".HDF5": hdf5, ".Parquet": parquet}[ending](folder / ending.lower())
    (folder / ending.lower()).rename(folder / f"a{ending}")
    assert len(read(folder, tmp_path / "cache")) == sum(LENGTHS)


def test_progress_is_within_a_file(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "ROWS", 7)
    plain(folder / "a.npz")
    plain(folder / "b.npz")
    found = list(gather(folder, tmp_path / "cache"))
    assert found == [(0, 2, 7), (0, 2, 14), (0, 2, 18), (1, 2, 25), (1, 2, 32), (1, 2, 36)]


def test_without_the_extra_a_sentence_says_what_to_install(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "find_spec", lambda name: None)
    for ending, extra in ((".hdf5", "hdf5"), (".parquet", "parquet")):
        path = folder / f"a{ending}"
        path.touch()
        with pytest.raises(MissingExtraError, match=rf"\[{extra}\]"):
            read(path, tmp_path / "cache")


def test_actions_must_suit_an_fb_model(folder: Path, tmp_path: Path) -> None:
    plain(folder / "a.npz", action=2.5 * transitions()[1])
    with pytest.raises(ValueError, match="actions reach 2"):
        continuous(read(folder, tmp_path / "cache").summary)
    plain(folder / "a.npz", action=np.arange(sum(LENGTHS)) % 4)
    summary = read(folder, tmp_path / "cache").summary
    assert summary.discrete
    with pytest.raises(ValueError, match="whole numbers"):
        continuous(summary)
