"""AsyncTransfer: the agent itself when it is drained, order, errors and ends when it is not. Nothing is timed."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from torch import Tensor

from toys import Compass, Drifter
from waiting import PATIENCE
from zscout import METHODS, AsyncTransfer, ExactModel, Method, OnlineTransfer, load, rollout
from zscout.base.types import Action, Agent, Obs, Vectors


class Gate(Drifter):
    """A model whose ψ waits until the gate is open, and which keeps what φ was asked for and by whom."""

    def __init__(self) -> None:
        super().__init__()
        self.open, self.inside = threading.Event(), threading.Event()
        self.seen: list[float] = []
        self.threads: set[str] = set()
        self.breaks = False

    def phi(self, obs: Obs) -> Tensor:
        self.seen.append(float(np.asarray(obs)[0]))
        self.threads.add(threading.current_thread().name)
        return super().phi(obs)

    def psi(self, obs: Obs, z: Vectors) -> Tensor:
        self.inside.set()
        assert self.open.wait(PATIENCE)
        if self.breaks:
            raise ZeroDivisionError("the model broke")
        return Drifter().psi(obs, z)

    def act(self, obs: Obs, z: Vectors, rng: Any = None) -> Action:
        return Drifter().act(obs, z)


def at(x: float) -> "np.ndarray[Any, Any]":
    return np.array([x, 0.0, 0.0, 0.0])


@pytest.fixture
def gate() -> Iterator[Gate]:
    model = Gate()
    yield model
    model.open.set()  # a worker that still waits ends


def held(model: Any, hold: int | str) -> Method:
    return replace(METHODS["usf-ucb"](dim=model.dim, noise=None, norm_bound=None), hold=hold)


@pytest.mark.parametrize("hold", [1, 4, "episode"])
@pytest.mark.parametrize("kind", ["exact", "drawn"])
def test_drained_after_each_call_it_is_the_agent(hold: int | str, kind: str, laplacian_model: ExactModel) -> None:
    model: Any = laplacian_model if kind == "exact" else Compass()
    states = np.random.default_rng(0).integers(81, size=25) if kind == "exact" else np.linspace(0, 1, 50).reshape(25, 2)
    alone, wrapped = (OnlineTransfer(model, held(model, hold), seed=3) for _ in range(2))
    with AsyncTransfer(wrapped) as robot:
        assert isinstance(robot, Agent)
        for t, state in enumerate(states):
            if t % 10 == 0:  # an episode begins, and its first z is waited for
                robot.act(state)
                robot.drain()
            assert np.array_equal(robot.act(state), alone.act(state))
            assert torch.equal(robot.present_z, alone.present_z)  # type: ignore[arg-type]
            told = (states[(t + 1) % 25], float(np.sin(t)) if t != 12 else None, t % 10 == 9)
            alone.tell(*told)
            robot.tell(*told)
            robot.drain()
            assert torch.equal(robot.agent.z_hat, alone.z_hat)
    assert robot.agent.t == alone.t == 25
    assert torch.equal(robot.agent.best_z, alone.best_z)


def test_the_loop_goes_on_while_the_worker_asks_and_rewards_are_learned_in_order(gate: Gate) -> None:
    wrapped = OnlineTransfer(gate, held(gate, 1))
    first = wrapped.best_z
    robot = AsyncTransfer(wrapped)
    for t in range(20):
        robot.act(at(t))
        assert gate.inside.wait(PATIENCE)  # the worker asks, and its answer is not waited for
        assert torch.equal(robot.present_z, first)
        robot.tell(at(t + 1), float(t))
    assert robot.waiting == 20
    with pytest.raises(RuntimeError, match=r"the worker is using the agent: call drain\(\) or close\(\) before"):
        _ = robot.agent
    gate.open.set()
    robot.drain()
    assert not torch.equal(robot.present_z, first)
    assert gate.seen == [float(t + 1) for t in range(20)]
    assert gate.threads == {"zscout-transfer"}
    assert robot.agent.t == 20
    whole = OnlineTransfer(Drifter(), held(gate, 1))
    whole.learn(np.stack([at(t + 1) for t in range(20)]), np.arange(20.0))
    assert torch.allclose(robot.agent.z_hat, whole.z_hat)
    robot.close()


def test_a_z_is_held_for_its_steps_and_those_of_the_search(gate: Gate) -> None:
    robot = AsyncTransfer(OnlineTransfer(gate, held(gate, 3)))
    gate.open.set()
    robot.act(at(0))
    robot.drain()
    used = []
    for t in range(9):
        if t == 2:
            gate.open.clear()  # the search after the third step does not end until the sixth
        robot.act(at(t))
        used.append(robot.present_z)
        robot.tell(at(t + 1), 1.0 - t)
        if t == 5:
            gate.open.set()
        if gate.open.is_set():
            robot.drain()
    changes = [t for t in range(1, 9) if not torch.equal(used[t], used[t - 1])]
    assert changes == [6]  # found at step 5 and then held for three
    robot.close()


def test_a_full_queue_makes_tell_wait(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    robot = AsyncTransfer(OnlineTransfer(gate), backlog=2)
    robot.act(at(0))
    assert gate.inside.wait(PATIENCE)
    for t in range(2):
        robot.act(at(t))
        robot.tell(at(t + 1), 0.0)
    robot.act(at(2))
    news, waits = robot._worker._news, threading.Event()

    def wait(timeout: float | None = None) -> bool:
        waits.set()
        return type(news).wait(news, timeout)

    monkeypatch.setattr(news, "wait", wait)
    third = threading.Thread(target=robot.tell, args=(at(3), 0.0))
    third.start()
    assert waits.wait(PATIENCE)
    assert robot.waiting == 2
    gate.open.set()
    third.join(PATIENCE)
    assert not third.is_alive()
    robot.close()
    assert robot.agent.t == 3


def test_a_loop_faster_than_the_worker_still_gets_new_z(gate: Gate) -> None:
    """Rewards come all the time, and a search has its turn all the same."""
    gate.open.set()
    used: list[Tensor] = []
    with AsyncTransfer(OnlineTransfer(gate), backlog=5) as robot:
        for t in range(400):
            robot.act(at(t % 7))
            robot.tell(at((t + 1) % 7), float(t % 3))
            if not used or not torch.equal(robot.present_z, used[-1]):
                used.append(robot.present_z)
    assert robot.agent.t == 400
    assert len(used) > 3


def test_errors_of_the_worker_are_raised_at_the_next_call(gate: Gate) -> None:
    robot = AsyncTransfer(OnlineTransfer(gate))
    robot.act(at(0))
    assert gate.inside.wait(PATIENCE)
    robot.tell(at(1), 1.0)
    gate.breaks = True
    gate.open.set()
    with pytest.raises(ZeroDivisionError, match="the model broke"):
        robot.drain()
    for call in (lambda: robot.act(at(1)), lambda: robot.tell(at(1), 1.0), robot.close):
        with pytest.raises(ZeroDivisionError):
            call()
    assert robot.agent.t == 0  # usable, as it was before the call that failed

    def loop() -> None:
        with AsyncTransfer(OnlineTransfer(gate)) as robot:
            robot.act(at(0))
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):  # not hidden by the worker's
        loop()


def test_bad_input_is_refused_at_once_and_changes_nothing(gate: Gate) -> None:
    gate.open.set()
    with AsyncTransfer(OnlineTransfer(gate)) as robot:
        with pytest.raises(ValueError, match=r"each tell needs an act\(obs\) before it"):
            robot.tell(at(0), 1.0)
        with pytest.raises(ValueError, match="expected \\(4,\\) for one run"):
            robot.act(np.zeros(3))
        robot.act(at(0))
        for reward, message in ((float("nan"), "reward holds NaN"), ([1.0, 2.0], "expected one number")):
            with pytest.raises(ValueError, match=message):
                robot.tell(at(1), reward)
        with pytest.raises(ValueError, match="done must be True or False"):
            robot.tell(at(1), 1.0, "no")  # type: ignore[arg-type]
        robot.tell(at(1), 1.0)
        robot.drain()
        assert robot.agent.t == 1
    for call in (lambda: robot.act(at(0)), lambda: robot.tell(at(0), 1.0)):
        with pytest.raises(RuntimeError, match="is closed: continue with its agent"):
            call()
    robot.close()  # again: nothing happens
    for agent, message in (
        (OnlineTransfer(gate, runs=2), "expected an agent of one run, got 2 runs"),
        (OnlineTransfer(gate, "lola"), "chooses actions or whole rollouts"),
        (OnlineTransfer(gate, "random"), "chooses actions or whole rollouts"),
        (gate, "expected an OnlineTransfer, got Gate"),
    ):
        with pytest.raises(ValueError, match=message):
            AsyncTransfer(agent)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="learns from its own choices only"):
        OnlineTransfer(gate, "lola").follow(at(0), gate.sample_z(1, 0)[0])
    with pytest.raises(ValueError, match=r"z has shape \(1, 2\), expected \(2,\)"):
        OnlineTransfer(gate).follow(at(0), gate.sample_z(1, 0))


def test_a_rollout_runs_on_it_and_the_agent_is_saved(tmp_path: Path) -> None:
    model = load("pointmaze-fb")
    env = gymnasium.make("zscout/PointMaze-v0", reward=lambda obs: float(obs[0] > 6), max_episode_steps=15)
    robot = AsyncTransfer(OnlineTransfer(model, seed=1))
    steps = list(rollout(robot, env, 40, seed=0))
    robot.close()
    assert [step.episode for step in steps][-1] == 2
    assert robot.agent.t == 40
    robot.agent.save(tmp_path)
    again = OnlineTransfer.load(tmp_path, model)
    assert torch.equal(again.best_z, robot.agent.best_z)
    with AsyncTransfer(again) as robot:  # goes on where it was
        assert torch.equal(robot.present_z, again.present_z)  # type: ignore[arg-type]


def test_environments_that_reuse_their_buffers_do_not_change_what_is_learned(gate: Gate) -> None:
    buffer = at(0)
    with AsyncTransfer(OnlineTransfer(gate)) as robot:
        for t in range(3):
            buffer[:] = at(t)
            robot.act(buffer)
            buffer[:] = at(t + 1)
            robot.tell(buffer, 0.0)
        buffer[:] = at(99)
        gate.open.set()
    assert gate.seen == [1.0, 2.0, 3.0]


def test_a_program_that_forgets_to_close_ends(tmp_path: Path) -> None:
    code = (
        "import numpy, sys\n"
        f"sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "from toys import Drifter\nfrom zscout import AsyncTransfer, OnlineTransfer\n"
        "robot = AsyncTransfer(OnlineTransfer(Drifter()))\n"
        "for t in range(50):\n    robot.act(numpy.ones(4))\n    robot.tell(numpy.ones(4), 1.0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE)
    assert (done.returncode, done.stderr) == (0, "")
