"""Faults of files, copies, forks and long runs that were found by attack; each test repeats one attack."""

import contextlib
import copy
import errno
import gc
import os
import pickle
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import projects
import zscout
from test_atlas import DriftWorld
from toys import Drifter
from waiting import PATIENCE
from zscout import AsyncTransfer, ExactModel, OnlineTransfer
from zscout.base.files import read_headed, write_headed
from zscout.cli import main
from zscout.lab.arenas.arena import MOST_SEED, Tasks
from zscout.lab.arenas.grid import GridArena
from zscout.lab.compare.comparison import Entrant
from zscout.lab.runs import ray_executor
from zscout.lab.runs.chunks import run_all
from zscout.lab.runs.ray_executor import RayCluster
from zscout.lab.runs.spec import Spec
from zscout.lab.runs.store import Store
from zscout.transfer import saving
from zscout.transfer.belief import logistic
from zscout.transfer.belief.feedback import Preferences
from zscout.transfer.saving import tensors_of


def told(agent: OnlineTransfer, steps: int) -> OnlineTransfer:
    """The agent after steps with the reward s mod 5."""
    for state in range(steps):
        agent.ask(state)
        agent.tell(state + 1, float((state + 1) % 5))
    return agent


def in_child(work: Callable[[], object]) -> str:
    """What a forked process returns or raises; ``hangs`` if it does not end."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        answer = "hangs"
        with contextlib.suppress(BaseException):
            try:
                answer = f"returned {work()}"
            except Exception as error:
                answer = f"{type(error).__name__}: {error}"
        os.write(write, answer.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as file:
        if not select.select([file], [], [], PATIENCE)[0]:
            os.kill(child, signal.SIGKILL)
        answer = file.read() or "hangs"
    os.waitpid(child, 0)
    return answer


# Agents


def test_a_loaded_agent_has_the_best_z_of_its_bank(clusters_model: ExactModel, tmp_path: Path) -> None:
    agent = told(OnlineTransfer(clusters_model, bank=clusters_model.sample_z(20, 3)), 30)
    agent.save(tmp_path)
    again = OnlineTransfer.load(tmp_path, clusters_model)
    assert torch.equal(again.best_z, agent.best_z)
    assert not torch.equal(again.best_z, OnlineTransfer(clusters_model, again.method).best_z)  # the bank's first


@pytest.mark.parametrize("outlier", [1e30, 1e300])
def test_an_outlier_is_refused_by_tell_and_the_loop_goes_on(outlier: float, clusters_network: zscout.USFA) -> None:
    with AsyncTransfer(OnlineTransfer(clusters_network)) as robot:
        robot.act(3)
        with pytest.raises(ValueError, match="reward"):
            robot.tell(4, outlier)
        robot.tell(4, 1.0)  # the same step, with another reward
        robot.act(4)
        robot.tell(5, 2.0)
    assert robot.agent.t == 2
    assert robot.agent.z_hat.abs().max() < 100


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("call", ["act", "drain", "close", "agent"])
def test_after_a_fork_an_async_transfer_says_so(call: str, clusters_network: zscout.USFA) -> None:
    with AsyncTransfer(OnlineTransfer(clusters_network)) as robot:
        robot.act(3)
        robot.tell(4, 1.0)
        robot.drain()
        calls = {"act": lambda: robot.act(4), "drain": robot.drain, "close": robot.close, "agent": lambda: robot.agent}
        assert "fork" in in_child(calls[call])
        robot.act(4)
        robot.tell(5, 1.0)
    assert robot.agent.t == 2


def test_a_forgotten_async_transfer_ends_its_thread(clusters_network: zscout.USFA) -> None:
    before, robot = set(threading.enumerate()), AsyncTransfer(OnlineTransfer(clusters_network))
    robot.act(3)
    robot.tell(4, 1.0)
    robot.drain()
    [thread] = [thread for thread in threading.enumerate() if thread not in before]
    del robot
    gc.collect()
    thread.join(PATIENCE)
    assert not thread.is_alive()


def after_labels(agent: OnlineTransfer, kind: str) -> OnlineTransfer:
    """The agent after steps, and labels that refactor its posterior."""
    told(agent, 30)
    if kind == "learn":
        agent.learn([3, 5, 7], [1.0, 2.0, 4.0])
    elif kind == "credit":
        agent.credit([3, 5, 7], 1.0, zscout.Credit(delay=1, spread=2))
    return agent


@pytest.mark.parametrize("kind", ["learn", "credit", "change"])
def test_a_saved_agent_goes_on_bit_for_bit_after_labels_at_once(
    kind: str, laplacian_model: ExactModel, tmp_path: Path
) -> None:
    method = zscout.METHODS["usf-ucb"](dim=laplacian_model.dim)
    if kind == "change":
        method = replace(method, change=zscout.ChangeTest(evidence=0.5))
    agent = after_labels(OnlineTransfer(laplacian_model, method), kind)
    assert agent.changes or kind != "change"
    agent.save(tmp_path)
    again = OnlineTransfer.load(tmp_path, laplacian_model)
    for step in range(20):  # rounding depends on how a matrix lies in memory
        assert torch.equal(agent.ask(step), again.ask(step))
        for each in (agent, again):
            each.tell((7 * step) % 81, float(step % 3))
        assert torch.equal(agent.z_hat, again.z_hat)


def test_transition_features_in_a_batch_are_saved_and_labels_are_refused(tmp_path: Path) -> None:
    model = projects.agent("hilp", "diff").model()
    path = np.random.default_rng(0).normal(size=(14, 3, projects.K)).astype(np.float32)
    agent = OnlineTransfer(model, runs=3)
    for step in range(6):
        agent.act(path[step])
        agent.tell(path[step + 1], [1.0 * step, 2.0, -step], seen=[True, step % 2 == 0, True])
    agent.act(path[6])
    agent.save(tmp_path)
    again = OnlineTransfer.load(tmp_path, model)
    for step in range(6, 12):
        for each in (agent, again):
            each.tell(path[step + 1], [1.0, -step, 0.5])
        assert torch.equal(agent.z_hat, again.z_hat)
        assert np.array_equal(agent.act(path[step + 1]), again.act(path[step + 1]))
    with pytest.raises(ValueError, match="transition"):
        agent.learn(path[:3], np.zeros((3, 3)))
    with pytest.raises(ValueError, match="transition"):
        agent.prefer(path[:3], path[3:6])


WRONG_TENSORS = {
    "grad": torch.ones((), requires_grad=True),
    "meta": torch.empty((), device="meta"),
    "sparse": torch.ones(2).to_sparse(),
    "bfloat16": torch.ones((), dtype=torch.bfloat16),
}


@pytest.mark.parametrize("kind", WRONG_TENSORS)
def test_tensors_that_are_no_flags_are_refused_in_a_sentence(kind: str, clusters_network: zscout.USFA) -> None:
    agent, wrong = OnlineTransfer(clusters_network), WRONG_TENSORS[kind]
    agent.ask(3)
    before = agent._state
    for flag in ({"done": wrong}, {"seen": wrong}):
        with pytest.raises(ValueError, match=next(iter(flag))):
            agent.tell(4, 1.0, **flag)
    if kind in ("meta", "sparse"):
        with pytest.raises(ValueError, match="reward must be real numbers"):
            agent.tell(4, wrong)
        with pytest.raises(ValueError, match="z must be real numbers"):
            agent.follow(3, wrong)
    assert agent._state is before


def test_what_is_not_a_number_or_a_target_is_refused(clusters_network: zscout.USFA) -> None:
    agent = OnlineTransfer(clusters_network)
    agent.ask(3)
    with pytest.raises(ValueError, match=r"until must be a zscout\.Certified"):
        agent.wants_reward(4, until=0.1)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="delta must be a number"):
        agent.certificate(np.complex64(1j), obs=3)  # type: ignore[arg-type]


def test_a_z_that_overflows_the_model_is_not_followed(clusters_network: zscout.USFA) -> None:
    agent = OnlineTransfer(clusters_network)
    before = agent._state
    with pytest.raises(ValueError, match="overflow"):
        agent.follow(3, np.full(clusters_network.dim, 1e200))  # every later ask would raise
    assert agent._state is before
    z = torch.ones(clusters_network.dim, requires_grad=True)
    agent.follow(3, z)
    agent.tell(4, 1.0)
    assert agent.present_z is not None
    assert not agent.present_z.requires_grad
    agent.ask(4)


@pytest.fixture(scope="module")
def drift_atlas() -> zscout.Atlas:
    return zscout.chart(Drifter(), DriftWorld(), behaviours=20, starts=2, steps=20, progress=False)


def test_a_cost_with_a_gradient_is_kept_without_it(drift_atlas: zscout.Atlas) -> None:
    limit = [zscout.Limit(at_most=0.5), zscout.Limit(at_most=0.5, name="far", cost=lambda o: o[:, 0].requires_grad_())]
    agent = OnlineTransfer(Drifter(), atlas=drift_atlas, limit=limit)
    for cost in (torch.tensor(0.3, requires_grad=True), 0.2):
        agent.ask(np.zeros(4))
        agent.tell(np.ones(4), 1.0, cost={"cost": cost})
    assert not any(tensor.requires_grad for tensor in tensors_of(agent._state).values())
    copy.deepcopy(agent)


# Bodies


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda thing: pickle.loads(pickle.dumps(thing))])
def test_bodies_and_their_environments_are_copied(copied: Callable[[object], object]) -> None:
    pytest.importorskip("mujoco")
    import gymnasium

    env = gymnasium.make("zscout/Walker-v0", reward="run")
    env.reset(seed=0)
    env.step(np.zeros(6, np.float32))
    twin = copied(env)
    assert isinstance(twin, gymnasium.Env)
    for one, other in zip(env.step(np.ones(6, np.float32)), twin.step(np.ones(6, np.float32)), strict=True):
        assert np.array_equal(one, other)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_body_steps_after_a_fork() -> None:
    pytest.importorskip("mujoco")
    walker = zscout.worlds.body("walker", threads=2)
    states = walker.random_states(4, torch.Generator().manual_seed(0))

    def stepped() -> float:
        return float(walker.step(states, torch.zeros(4, 6))[0].sum())

    assert in_child(stepped) == in_child(stepped) == f"returned {stepped()}"
    assert in_child(stepped) == f"returned {stepped()}"


# Models as files


@pytest.fixture
def folder(clusters_network: zscout.USFA, tmp_path: Path) -> Path:
    return zscout.save(clusters_network, tmp_path / "model")


def eight_bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(torch.float8_e4m3fn)


def huge(tensor: torch.Tensor) -> torch.Tensor:
    return torch.full_like(tensor, 1e300, dtype=torch.float64)


@pytest.mark.parametrize(("change", "dtype"), [(eight_bits, "F8_E4M3"), (huge, "F64")])
def test_weights_of_another_type_are_refused_before_they_are_read(
    change: Callable[[torch.Tensor], torch.Tensor], dtype: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tensors = load_file(folder / "model.safetensors")
    name = next(name for name in tensors if ".weights." in name)
    save_file({**tensors, name: change(tensors[name])}, folder / "model.safetensors")
    monkeypatch.setattr("zscout.models.files.pretrained.unpacked", None)  # reading would be a TypeError
    with pytest.raises(ValueError, match=f"{name} as {dtype}"):
        zscout.load(folder)


def test_an_agent_of_another_type_is_refused_before_it_is_read(
    clusters_network: zscout.USFA, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told(OnlineTransfer(clusters_network), 3).save(tmp_path)
    file = tmp_path / "agent.safetensors"
    with safe_open(file, framework="pt") as kept:
        about = kept.metadata()
    save_file({**load_file(file), "age": eight_bits(torch.zeros(()))}, file, about)
    with pytest.raises(ValueError, match="age as F8_E4M3"):
        OnlineTransfer.load(tmp_path, clusters_network)

    def unreadable(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr("zscout.base.files.safe_open", unreadable)
    with pytest.raises(ValueError, match="damaged"):
        OnlineTransfer.load(tmp_path, clusters_network)


def test_an_entry_without_a_name_is_named(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    save_file({**tensors, "": torch.zeros(3)}, folder / "model.safetensors")
    with pytest.raises(ValueError, match="expects no ''"):
        zscout.load(folder)


def test_a_huge_config_is_refused_before_it_is_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (folder / "config.json").open("wb") as file:
        file.truncate(400_000_000)  # takes no space
    monkeypatch.setattr(Path, "read_bytes", None)
    with pytest.raises(ValueError, match="400,000,000 bytes"):
        zscout.load(folder)


@pytest.mark.parametrize("device", ["cuda:99", "quantum", "meta"])
def test_a_device_that_is_not_here_is_refused_before_the_model_is_read(
    device: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zscout.models.files.pretrained._read_weights", None)
    with pytest.raises(ValueError, match=f"'{device}' cannot be used"):
        zscout.load(folder, device=device)


# The command line


def refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The one line of a command that ends with code 2."""
    with pytest.raises(SystemExit) as stop:
        main(words)
    said = capsys.readouterr().err
    assert (stop.value.code, said.count("\n")) == (2, 1)
    return said


def test_a_missing_option_is_named_without_utf8() -> None:
    given = {**os.environ, "PYTHONIOENCODING": "ascii", "LC_ALL": "C"}
    run = subprocess.run([sys.executable, "-m", "zscout", "export"], env=given, capture_output=True, text=True)
    assert run.returncode == 2
    assert "MODEL" in run.stderr
    assert "--out" in run.stderr


@pytest.mark.parametrize(
    ("words", "why"), [(["--layout", "plain"], "--layout applies to --data only"), (["--steps", "0"], "at least 10")]
)
def test_options_of_a_chart_are_not_passed_over(
    words: list[str], why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert why in refused(["chart", "--out", str(tmp_path), *words], capsys)


@pytest.mark.parametrize(
    "words",
    [
        ["transfer", "--gif", "file/run.gif"],
        ["pretrain", "--out", "model", "--json", "file/log.json"],
        *(
            [command, "--out", "file/out"]
            for command in ("pretrain", "chart", "compare", "tune", "export pointmaze-fb")
        ),
    ],
    ids=str,
)
def test_what_cannot_be_written_is_refused_before_anything_runs(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("")
    monkeypatch.setattr("zscout.loop.loading.load", None)  # loading a model would be a TypeError
    monkeypatch.setattr("zscout.load", None)
    assert "file/" in refused([*words[0].split(), *words[1:]], capsys)


def test_large_seeds_give_other_tasks_and_seeds() -> None:
    draws = [Tasks(2, 2, seed=seed).run_seeds for seed in (0, 1_000, 1_001, MOST_SEED)]
    assert len({seed for seeds in draws for seed in seeds}) == 16
    assert max(max(seeds) for seeds in draws) < 2**62
    with pytest.raises(ValueError, match="seed must be from 0"):
        Tasks(seed=MOST_SEED + 1)


# A cluster


def test_a_full_object_store_makes_chunks_smaller(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    kinds = ("WorkerCrashedError", "NodeDiedError", "OutOfMemoryError", "ObjectLostError", "ObjectStoreFullError")
    raised = {name: type(name, (Exception,), {}) for name in (*kinds, "OutOfDiskError")}

    class TaskError(Exception):
        """Ray's error of a task, with its cause."""

        def __init__(self, cause: Exception) -> None:
            super().__init__("a task failed")
            self.cause = cause

    exceptions = SimpleNamespace(RayTaskError=TaskError, **raised)
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(exceptions=exceptions))
    monkeypatch.setitem(sys.modules, "ray.exceptions", exceptions)
    sizes: list[int] = []

    class SmallStore:
        """A cluster with room for the answer of one run."""

        slots, isolated, lost = 1, True, RayCluster.lost.fget(None)  # type: ignore[attr-defined]

        def submit(self, work: Callable[..., Any], specs: Sequence[Spec]) -> "Future[Any]":
            sizes.append(len(specs))
            there, answer = Future[Any](), Future[Any]()
            there.add_done_callback(partial(ray_executor._pass_on, answer))
            if len(specs) > 1:
                there.set_exception(TaskError(raised["ObjectStoreFullError"]("full")))
            else:
                there.set_result(work(specs))
            return answer

        def close(self) -> None:
            pass

    specs = Entrant.of(GridArena(features="clusters"), "greedy", {}, Tasks(3, 1), steps=5).specs
    with Store(tmp_path) as store:
        list(run_all(specs, store, SmallStore()))
        assert not [spec for spec in specs if store.failure(spec)]
        assert len(store) == 3
    assert max(sizes) > 1


# Long runs


def compared(model: ExactModel, answers: int) -> OnlineTransfer:
    """An agent after answers by a person who errs in one of ten."""
    rng = torch.Generator().manual_seed(0)
    agent, z = OnlineTransfer(model), torch.randn(model.dim, generator=rng, dtype=torch.float64)
    apart = torch.randn(answers, model.dim, generator=rng, dtype=torch.float64)
    right = torch.where(torch.rand(answers, 1, generator=rng) < 0.1, -1.0, 1.0)
    agent._state = replace(agent._state, answers=apart * (apart @ z).sign()[:, None] * right)
    return agent


def test_a_reward_after_many_comparisons_starts_from_where_the_last_one_ended(
    laplacian_model: ExactModel, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    computed: list[int] = []  # numbers of each round
    moments = logistic._Moments.of.__func__  # type: ignore[attr-defined]

    def counted(cls: Any, rows: torch.Tensor, *rest: torch.Tensor) -> Any:
        computed.append(rows.numel())
        return moments(cls, rows, *rest)

    monkeypatch.setattr(logistic._Moments, "of", classmethod(counted))
    agent = told(compared(laplacian_model, 300), 20)
    agent.save(tmp_path)
    again = OnlineTransfer.load(tmp_path, laplacian_model)
    computed.clear()
    told(agent, 1)
    fewer = sum(computed)
    told(again, 1)
    assert torch.equal(agent.z_hat, again.z_hat)  # a loaded agent goes on as the saved one
    computed.clear()
    fresh = Preferences.of(agent._state.posterior.with_likely_prior, agent._state.answers)
    assert fewer < sum(computed) / 3
    assert torch.allclose(agent.z_hat, fresh.posterior.z_hat, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("where", ["fsync", "replace"])
def test_a_full_disk_is_named_with_the_file_and_leaves_nothing(
    where: str, clusters_network: zscout.USFA, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = told(OnlineTransfer(clusters_network), 3)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os if where == "fsync" else Path, where, full)
    with pytest.raises(OSError, match="No space left on device: .*agent.safetensors'$"):
        agent.save(tmp_path / "agent")
    assert not list((tmp_path / "agent").iterdir())
    assert agent.t == 3


def test_an_agent_with_transition_features_is_saved_between_act_and_tell(tmp_path: Path) -> None:
    model, rng = projects.agent("hilp", "diff").model(), np.random.default_rng(0)
    path, agent = rng.normal(size=(6, projects.K)).astype(np.float32), OnlineTransfer(model)
    for step in range(4):
        agent.act(path[step])
        agent.tell(path[step + 1], float(step))
    agent.act(path[4])
    agent.save(tmp_path)
    again = OnlineTransfer.load(tmp_path, model)
    for each in (agent, again):
        each.tell(path[5], 7.0)
    assert torch.equal(agent.z_hat, again.z_hat)
    agent.act(path[5])
    agent.save(tmp_path)
    file = tmp_path / "agent.safetensors"
    about, tensors = read_headed(file, "agent", saving.FORMAT)
    for name, wrong in (("asked", torch.zeros(3)), ("asked", tensors["asked"] * torch.nan), ("entered", torch.ones(2))):
        write_headed(file, "agent", about, tensors | {name: wrong})
        with pytest.raises(ValueError, match="observation"):
            OnlineTransfer.load(tmp_path, model)


def test_memory_stays_the_same_over_many_rewards(clusters_model: ExactModel) -> None:
    agent, z = OnlineTransfer(clusters_model), clusters_model.sample_z(1, 0)[0]

    def kept() -> int:
        gc.collect()
        return sum(tensor.nbytes for tensor in tensors_of(agent._state).values()) + len(gc.get_objects())

    sizes = []
    for step in range(1_300):
        agent.follow(step % 81, z)
        agent.tell((step * 7) % 81, float(step % 3))
        if step in (260, 1_284):  # 64 pairs wait to be summed at most
            sizes.append(kept())
    assert abs(sizes[1] - sizes[0]) < 1_000


def test_the_fit_of_equal_rewards_is_unknown_and_says_so(clusters_model: ExactModel) -> None:
    agent = OnlineTransfer(clusters_model)
    agent.learn(list(range(20)), [2.0] * 20)
    assert agent.fit.r2.isnan()
    assert "unknown" in repr(agent.fit)


@pytest.mark.parametrize("kind", ["exact", "model", "atlas"])
def test_nothing_to_learn_from_is_refused(kind: str, drift_atlas: zscout.Atlas) -> None:
    exact = ExactModel(zscout.worlds.open_grid(3), torch.eye(9).double(), 0.9) if kind == "exact" else None
    agent = OnlineTransfer(exact or Drifter(), atlas=drift_atlas if kind == "atlas" else None)
    empty: list[Any] = [[], torch.zeros(0), torch.zeros(3, 0)]
    empty += [] if kind == "exact" else [np.zeros((0, 4)), np.zeros((2, 0, 4)), torch.zeros(0, 0)]
    for observations in empty:
        before = agent._state
        with pytest.raises(ValueError, match="got no observations"):
            agent.learn(observations, torch.zeros(np.shape(observations)[:-1]))
        with pytest.raises(ValueError, match="got no observations"):
            agent.credit(observations, 1.0, zscout.Credit())
        assert agent._state is before
