"""Transfer with deadlines: a worker thread learns and chooses the next z while the control loop follows this one."""

import atexit
import math
import os
import threading
import weakref
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import TracebackType

from jaxtyping import Float
from torch import Tensor

from zscout.base.edge import as_finite, as_real, as_size
from zscout.base.randomness import Streams
from zscout.base.types import Action, Obs
from zscout.transfer import inputs
from zscout.transfer.agent import OneThread, OnlineTransfer
from zscout.transfer.choosers import ACT, STREAMS, drawn_action
from zscout.transfer.inputs import Flags, Rewards


@dataclass(frozen=True, eq=False)
class _Step:
    """What ``act`` did at S_t, and what ``tell`` said of it."""

    obs: Obs
    z: Float[Tensor, " d"]
    action: Action
    next_obs: Obs | None = None  # None: nothing was told yet
    reward: float | None = None
    done: bool = False
    cost: Rewards | Mapping[str, Rewards] | None = None
    doubtful: bool = False  # whether the agent may refuse the reward or cost: ``tell`` waits


class AsyncTransfer:
    """Runs an agent beside a control loop: ``act`` does not wait for a search, and ``tell`` only queues the reward.

        with AsyncTransfer(OnlineTransfer(bfm)) as robot:
            for _ in range(steps):
                obs, reward, *_ = env.step(robot.act(obs))
                robot.tell(obs, reward)
        z = robot.agent.best_z

    A worker thread learns the rewards in order. Once the present z was followed for the method's ``hold`` steps, it
    asks for the next one at the newest observation; meanwhile ``act`` follows the present z. The first is the agent's
    ``best_z``. With ``drain`` after each call the actions are the agent's own.

    At most ``backlog`` rewards wait: a further ``tell`` waits for the worker, and so does one whose reward or cost the
    agent may refuse, e.g. a very large one. Any other error in the worker ends its work, and every later call raises
    it. The model's ``act`` and ``psi`` are called by two threads at once. The worker ends with this object, or by
    ``close``.
    """

    def __init__(self, agent: OnlineTransfer, *, backlog: int = 1_000) -> None:
        if not isinstance(agent, OnlineTransfer):
            raise ValueError(f"expected an OnlineTransfer, got {type(agent).__name__}")
        if agent.runs:
            raise ValueError(f"expected an agent of one run, got {agent.runs[0]} runs: leave out runs=")
        if not agent.can_follow:
            raise ValueError("this method chooses actions or whole rollouts: use the agent itself")
        self.bfm, self.limits = agent.bfm, agent.limits
        self._worker = _Worker(agent, as_size(backlog, "backlog", 1))
        self._seeds, self._safe = agent.seeds.to(self._worker.z.device), agent.safe_reward
        self._one_thread = OneThread()
        self._t, self._begins = agent.t, True
        self._choice: _Step | None = None
        weakref.finalize(self, self._worker.abandon).atexit = False  # at exit the worker ends itself
        self._worker.start()

    # The control loop

    def act(self, obs: Obs) -> Action:
        """A_t ~ π(·|S_t, z) with the newest z: a tensor if ``obs`` is a tensor, else numpy."""
        with self._one_thread:
            self._worker.check()
            inputs.check_observation(obs, self.bfm.observation_space, ())
            z = self._worker.z
            action = drawn_action(self.bfm, obs, z, Streams(self._seeds, STREAMS * self._t + ACT))
            self._choice = _Step(inputs.copied(obs), z, inputs.copied(action))
            if self._begins:  # later observations come with the rewards
                self._worker.put(self._choice)
                self._begins = False
            return action

    def tell(
        self,
        next_obs: Obs,
        reward: Rewards | None = None,
        done: Flags = False,
        *,
        cost: Rewards | Mapping[str, Rewards] | None = None,
    ) -> None:
        """Queue (S_{t+1}, R_{t+1}) for the worker; ``reward=None``: no reward was seen. ``cost``: as the agent's."""
        with self._one_thread:
            self._worker.check()
            if self._choice is None:
                raise ValueError("each tell needs an act(obs) before it")
            inputs.check_observation(next_obs, self.bfm.observation_space, ())
            ended = bool(inputs.flags_of_runs(done, (), "done"))
            number = None if reward is None else as_finite(reward, "reward")
            if number is not None and number.ndim:
                raise ValueError(f"reward has shape {tuple(number.shape)}, expected one number")
            known = None if number is None else float(number.detach())
            doubtful = (known is not None and abs(known) > self._safe) or (cost is not None and self._may_refuse(cost))
            told = {"reward": known, "done": ended, "cost": inputs.copied(cost), "doubtful": doubtful}
            self._worker.put(replace(self._choice, next_obs=inputs.copied(next_obs), **told))
            if doubtful:
                self._worker.wait()
                if (refusal := self._worker.refusal) is not None:
                    self._worker.refusal = None
                    raise refusal
            self._t, self._choice, self._begins = self._t + 1, None, ended

    def _may_refuse(self, cost: Rewards | Mapping[str, Rewards]) -> bool:
        names = {one.name for one in self.limits if one.cost is None}
        known, given = len(names) == 1, [cost]
        if isinstance(cost, Mapping):
            known, given = cost.keys() <= names, list(cost.values())
        return not known or any(n.ndim or not abs(n) <= self._safe for n in (as_real(one, "cost") for one in given))

    @property
    def present_z(self) -> Float[Tensor, " d"]:
        """The z that the next ``act`` follows, unless the worker finds another before."""
        return self._worker.z.clone()

    @property
    def waiting(self) -> int:
        """The number of steps that the worker has not begun to learn."""
        return self._worker.waiting

    # The end, and pauses

    def drain(self) -> None:
        """Wait until all rewards are learned and the next z, if one is due, is there."""
        self._worker.wait()

    def close(self) -> None:
        """Learn what is queued, then end the worker; raises its error, if there was one."""
        self._worker.close()

    @property
    def agent(self) -> OnlineTransfer:
        """The agent, to read or save it: after ``drain`` or ``close``, while the worker does not use it."""
        return self._worker.idle_agent()

    def __enter__(self) -> "AsyncTransfer":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except BaseException:
            if error is None:  # else the loop's own error is the one to see
                raise


class _Worker:
    """The thread that learns and chooses z; it knows nothing of the ``AsyncTransfer``, which may be forgotten."""

    def __init__(self, agent: OnlineTransfer, backlog: int) -> None:
        self._agent, self._backlog = agent, backlog
        self._hold = math.inf if isinstance(agent.method.hold, str) else agent.method.hold
        z = agent.present_z
        self.z = agent.best_z if z is None else z  # replaced by the worker, never changed in place
        self.refusal: ValueError | None = None  # of the last doubtful reward
        # Of both threads, guarded by the condition
        self._news = threading.Condition()
        self._queue: deque[_Step] = deque()
        self._busy = self._closing = self._abandoned = False
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._work, name="zscout-transfer", daemon=True)
        self._process = os.getpid()

    def start(self) -> None:
        """Start the thread, and see to its end."""
        self._thread.start()
        atexit.register(self._end)  # a thread that computes while the interpreter ends would abort the process

    # Called by the control loop

    @property
    def waiting(self) -> int:
        """The number of steps that are not begun."""
        return len(self._queue)

    def put(self, step: _Step) -> None:
        """Queue a step; a reward waits while the queue is full."""
        self.check()
        with self._news:
            if step.next_obs is not None:  # else ``act`` would wait
                self._news.wait_for(lambda: len(self._queue) < self._backlog or self._error is not None)
            self.check()
            self._queue.append(step)
            self._news.notify_all()

    def wait(self) -> None:
        """Wait until it is idle; raises its error, if there was one."""
        self._check_process()
        with self._news:
            self._news.wait_for(lambda: self._idle)
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        """Learn what is queued, then end; raises its error, if there was one."""
        self._check_process()
        with self._news:
            self._closing = True
            self._news.notify_all()
        self._thread.join()
        atexit.unregister(self._end)
        if self._error is not None:
            raise self._error

    def abandon(self) -> None:
        """Let the thread end without learning what is queued."""
        if os.getpid() != self._process:
            return
        with self._news:
            self._queue.clear()
            self._closing = self._abandoned = True
            self._news.notify_all()

    def idle_agent(self) -> OnlineTransfer:
        """The agent; raises while the thread uses it."""
        self._check_process()
        with self._news:
            if not self._idle:
                raise RuntimeError("the worker is using the agent: call drain() or close() before")
            return self._agent

    def check(self) -> None:
        """Raise unless it learns."""
        self._check_process()
        if self._error is not None:
            raise self._error
        if self._closing:
            raise RuntimeError("this AsyncTransfer is closed: continue with its agent")

    # The thread

    def _work(self) -> None:
        held: float = math.inf  # steps for which the newest z was followed; infinite: choose one
        place: Obs | None = None  # where to ask
        try:
            while True:
                with self._news:
                    while not (self._queue or self._closing):
                        self._busy = False
                        self._news.notify_all()
                        self._news.wait()
                    if not self._queue:
                        return
                    self._busy = True
                    steps = list(self._queue)
                    self._queue.clear()
                    self._news.notify_all()
                for step in steps:  # all of them before a search: they are cheap
                    if self._abandoned:
                        return
                    changes = self._agent.changes
                    if not self._learned(step):
                        continue
                    new = step.next_obs is None or step.done or self._agent.changes != changes
                    held = math.inf if new else held + (step.z is self.z)
                    newest = step.obs if step.next_obs is None else step.next_obs
                    place = None if step.done else newest
                if place is not None and held >= self._hold and not self._closing:
                    self.z, held = self._agent.ask(place), 0
        except BaseException as error:  # the control loop raises it
            self._error = error
        finally:
            with self._news:
                self._busy = False
                self._queue.clear()
                self._news.notify_all()
            if self._abandoned:
                atexit.unregister(self._end)

    def _learned(self, step: _Step) -> bool:
        """Whether the step was learned; a doubtful reward may be refused."""
        if step.next_obs is None:
            return True
        self._agent.follow(step.obs, step.z, step.action)
        try:
            self._agent.tell(step.next_obs, step.reward, step.done, cost=step.cost)
        except ValueError as error:
            if not step.doubtful:
                raise
            self.refusal = error
            return False
        return True

    # Parts

    def _end(self) -> None:
        if os.getpid() == self._process:
            self.abandon()
            self._thread.join()

    @property
    def _idle(self) -> bool:
        return not self._queue and not self._busy

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            raise RuntimeError(
                "this AsyncTransfer was made before a fork, which copies no threads: make one in this process"
            )
