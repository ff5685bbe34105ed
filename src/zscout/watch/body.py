"""A run of a body as frames, beside the oracle's run from the same starts."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from zscout.lab.arenas.arena import Batch
from zscout.lab.arenas.body import HELD_OUT, SUITE, BodyArena
from zscout.lab.arenas.simulation import followed
from zscout.lab.runs.spec import Spec
from zscout.transfer.agent import OnlineTransfer
from zscout.transfer.atlas.atlas import Atlas
from zscout.watch.progress import Certificates, Progress
from zscout.watch.viewer import REPORTED_TASKS, beside_oracle, checked_run, share, vector_run
from zscout.worlds.bodies.env import side_view
from zscout.worlds.bodies.physics import body
from zscout.worlds.bodies.tasks import body_tasks

COMPARED = 2_000  # saved observations on which the estimate is compared with goal features
CERTIFIED_EVERY = 50  # steps
PIXELS = 16  # a metre, of the picture for a terminal
SAME_COSINE = 0.99  # behaviours whose z have this cosine are shown as the same


@dataclass(frozen=True, eq=False)
class BodyScene:
    """The constant part of a run."""

    spec: Spec
    about: str  # the task in words
    radii: np.ndarray  # of the capsules
    correlations: dict[str, float]  # correlation of the true reward with each goal feature
    seconds: float  # of one action


@dataclass(frozen=True, eq=False)
class BodyFrame:
    """One step and the estimate after it."""

    step: int  # t + 1, the number of rewards so far
    reward: float  # R_{t+1}
    ends: np.ndarray  # of the capsules in S_{t+1}: [s 2 2]
    beside: np.ndarray  # the same of the oracle's body
    picture: np.ndarray  # S_{t+1} for a terminal: [h w 3]
    trying: bool  # whether it follows another z than the best one
    progress: Progress  # how good it knows to be
    correlations: dict[str, float]  # correlation of the expected reward φ·ẑ with each goal feature
    level: float  # return of the episode so far
    reference: float  # the oracle's
    line: str  # the numbers in words
    numbers: dict[str, Any]  # the step as JSON

    @property
    def doing(self) -> str:
        """What it does in words, with the agent as subject."""
        what = "it tries another behaviour" if self.trying else "it does what seems best"
        left = "" if self.progress.left is None else f"; at most {self.progress.left:.0%} could still be gained"
        return f"is {self.progress.phase}: {what}{left.replace('%', ' %')}"


def default_steps(name: str, model: str) -> int:
    """Actions in two episodes."""
    return 2 * BodyArena(model, body=name).decisions


def run_named(name: str, model: str, method: str, task: str, *, noise: float, seed: int, steps: int) -> Spec:
    """The checked spec of a run.

    ``task`` is the name of a task, the number of a task of compare, or z_r as numbers with commas between. With a name
    or a number and a ``seed`` below 1000, this is the run of ``compare --arena NAME`` with that task and seed.
    """
    kinds = {found.name: HELD_OUT if found.kind == HELD_OUT else SUITE for found in body_tasks(body(name, threads=1))}
    if task in kinds:
        arena = BodyArena(model, kinds[task], body=name)
        number = REPORTED_TASKS.draw(arena).index(task)
        return checked_run(arena, method, task, number, noise=noise, seed=seed, steps=steps)
    words = f"a name ({', '.join(kinds)}), its number,"
    return vector_run(BodyArena(model, body=name), method, task, words, noise=noise, seed=seed, steps=steps)


def watch_run(spec: Spec) -> tuple[BodyScene, Iterator[BodyFrame]]:
    """The scene, and a frame for each action."""
    arena = spec.arena
    assert isinstance(arena, BodyArena)
    obs = arena.observations(COMPARED, 0)
    goals = arena.world.goal_features(obs).double()
    correlations = Correlations(goals, obs, arena.bfm.phi(obs).double().cpu())

    def named(found: list[float]) -> dict[str, float]:
        return {name: round(value, 4) for name, value in zip(arena.world.goal_names, found, strict=True)}

    n = len(obs)
    env = arena.environment(Batch([spec.task] * n, [0] * n, offset=spec.offset))
    scene = BodyScene(
        spec,
        about=f"{arena.body}: {spec.task if isinstance(spec.task, str) else 'φ·z_r'}",
        radii=arena.world.segments(arena.world.rest)[1].numpy(),
        correlations=named(correlations.of(env.true_reward(obs).double().cpu())),
        seconds=arena.world.seconds,
    )

    def believed(agent: OnlineTransfer) -> dict[str, float]:
        return named(correlations.of_linear(agent.z_hat[0].cpu(), agent.atlas))

    return scene, islice(_frames(arena, spec, believed), spec.steps)


def _frames(
    arena: BodyArena, spec: Spec, believed: Callable[[OnlineTransfer], dict[str, float]]
) -> Iterator[BodyFrame]:
    agent = OnlineTransfer(arena.bfm, spec.build(arena.vectors([spec.task])), seed=[spec.seed], runs=1)
    certificates = Certificates(agent)
    for both in beside_oracle(arena, spec, agent):
        step, own, best = both.step, both.own, both.best
        assert step.belief is not None
        z, kept = followed(step), step.belief.best_z
        trying = step.belief.exploring or bool(torch.cosine_similarity(z, kept).item() < SAME_COSINE)
        if (step.t + 1) % CERTIFIED_EVERY == 0:
            certificates.add(step.next_obs)
        ends, radii = arena.world.segments(both.state)
        correlations = believed(agent)
        numbers = {
            "step": step.t + 1,
            "episode": step.episode + 1,
            "state": both.state[0].tolist(),
            "action": torch.as_tensor(step.action)[0].tolist(),
            "trying": trying,
            "reward": float(step.reward),
            "return": own,  # of this episode so far, without noise
            "oracle": best,  # the oracle's in the same steps
            "correlations": correlations,
            "left": certificates.progress.left,  # the share that could still be gained, at most; None: unknown
            "z": z[0].tolist(),  # Z_t; for an explorer's step, the best z
            "z_hat": agent.z_hat[0].tolist(),
        }
        yield BodyFrame(
            step=step.t + 1,
            reward=float(step.reward),
            ends=ends[0].numpy(),
            beside=ends[1].numpy(),
            picture=side_view(ends[0].numpy(), radii.numpy(), PIXELS),
            trying=trying,
            progress=certificates.progress,
            correlations=correlations,
            level=own,
            reference=best,
            line=f"episode {step.episode + 1}  return {share(own, 1)}, the oracle's {share(best, 1)}",
            numbers=numbers,
        )


class Correlations:
    """Correlations of rewards with goal features, over the same observations; 0 if the reward is constant."""

    def __init__(self, goals: Float[Tensor, "n g"], obs: Float[Tensor, "n o"], phi: Float[Tensor, "n d"]) -> None:
        self._standard, self._obs = (goals - goals.mean(0)) / goals.std(0, correction=0), obs
        self._moments = {False: self._moments_of(phi)}  # of φ; True: of the atlas's features

    def of(self, reward: Float[Tensor, " n"]) -> list[float]:
        """Of a reward of the observations."""
        apart = reward - reward.mean()
        spread = float(apart.square().mean().sqrt())
        found: list[float] = ((self._standard * apart[:, None]).mean(0) / spread).tolist()
        return [0.0] * len(found) if spread < 1e-9 else found

    def of_linear(self, z: Float[Tensor, " d"], atlas: Atlas | None = None) -> list[float]:
        """Of the reward φ·z + c, from moments of φ, or of the features of an atlas."""
        if atlas is not None and True not in self._moments:
            self._moments[True] = self._moments_of(atlas.features(self._obs).cpu())
        with_goals, spread = self._moments[atlas is not None]
        variance = float(z @ spread @ z)
        found: list[float] = (with_goals @ z / max(variance, 1e-300) ** 0.5).tolist()
        return [0.0] * len(found) if variance < 1e-18 else found

    def _moments_of(self, features: Float[Tensor, "n d"]) -> tuple[Float[Tensor, "g d"], Float[Tensor, "d d"]]:
        """Covariances of features with goal features, and with each other."""
        apart = features - features.mean(0)
        return self._standard.T @ apart / len(apart), apart.T @ apart / len(apart)
