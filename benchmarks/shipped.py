"""Recommendations a second with the shipped FB models and the default, and whole steps of bodies, one thread.

``python -m benchmarks.shipped`` takes processor time, the best of several rounds: a busy machine slows it less.
"""

import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec

import gymnasium
import torch
from torch import Generator

from benchmarks.lower_bounds import flops_of
from benchmarks.measurement import Row, Setting, interleaved, one_thread
from zscout.models.files.pretrained import load, observations_of
from zscout.transfer.agent import OnlineTransfer
from zscout.worlds import point_maze

NAMES = ("pointmaze-fb", "walker-fb", "cheetah-fb", "quadruped-fb")
PLACES = 997
NOISE = 0.3
SIDE = 1024  # rows of the square matrices whose product gives the core's FLOP per second
BEFORE, ROUNDS, EACH = 40, 12, 25  # steps before the first round, rounds, steps of a round


def steps(setting: Setting) -> dict[str, Callable[[], None]]:
    """One ask and tell of the default with each shipped model; models of bodies need the extra mujoco."""
    names = NAMES if find_spec("mujoco") else NAMES[:1]
    return {name: partial(_step, *_agent(name, setting)) for name in names}


def shipped(setting: Setting) -> Iterator[Row]:
    """Rows by the clock, as in the other groups."""
    for name, timing in interleaved(steps(setting), setting.of(60, 10), device=setting.device).items():
        yield Row.of(timing, group="live", what="ask and tell, usf-ucb", where=name, unit="step")


def _agent(name: str, setting: Setting) -> tuple[OnlineTransfer, object, list[float]]:
    """An agent, observations one by one as Gymnasium environments give them, and the rewards of a random task there."""
    model, rng = load(name, setting.device), Generator().manual_seed(setting.seed)
    seen = point_maze().random_states(PLACES, rng) if name == NAMES[0] else observations_of(name)[:PLACES]
    exact = model.phi(seen).double().cpu() @ model.sample_z(1, setting.task_seed)[0].double().cpu()
    noise = torch.randn(len(seen), generator=rng, dtype=torch.float64)
    return OnlineTransfer(model, seed=setting.seed), seen.numpy(), (exact + NOISE * noise).tolist()


def _step(agent: OnlineTransfer, places: object, rewards: list[float]) -> None:
    here, there = agent.t % len(rewards), (agent.t + 1) % len(rewards)
    agent.ask(places[here])  # type: ignore[index]
    agent.tell(places[there], rewards[there])  # type: ignore[index]


def body_step(name: str, setting: Setting) -> Callable[[], None]:
    """A whole step of a body: a recommendation, the policy, the physics, and what the agent learns from the reward."""
    model = load(name, setting.device)
    world, repeat = name.removesuffix("-fb").capitalize(), int(model.about["repeat"])
    env = gymnasium.make(f"zscout/{world}-v0", reward="walk", horizon=None, repeat=repeat)
    agent, (obs, _) = OnlineTransfer(model, seed=setting.seed), env.reset(seed=setting.seed)

    def step() -> None:
        nonlocal obs
        obs, reward, *_ = env.step(agent.act(obs))
        agent.tell(obs, reward)

    return step


def processor_seconds(work: Callable[[], object], each: int = EACH) -> float:
    """Processor seconds of one call, the best of several rounds."""
    rounds = []
    for _ in range(ROUNDS):
        began = time.process_time()
        for _ in range(each):
            work()
        rounds.append((time.process_time() - began) / each)
    return min(rounds)


def main() -> None:
    """Print a line for each model; in inference mode, as on the live page."""
    setting = Setting()
    made = steps(setting)  # outside: weights that are loaded in inference mode are converted at each step
    whole = {name: body_step(name, setting) for name in made if name != NAMES[0]}
    with one_thread(), torch.inference_mode():
        square = torch.ones(SIDE, SIDE)
        rate = 2 * SIDE**3 / processor_seconds(lambda: square @ square, 1)
        for name, step in made.items():
            for _ in range(BEFORE):
                step()
            best, least = processor_seconds(step), flops_of(step) / rate
            told = f"{1 / best:.0f} recommendations/s, {best * 1e3:.2f} ms; products alone {least * 1e3:.2f} ms"
            if name in whole:
                told += f"; {1 / processor_seconds(whole[name]):.0f} whole steps/s"
            print(f"{name}: {told}")


if __name__ == "__main__":
    main()
