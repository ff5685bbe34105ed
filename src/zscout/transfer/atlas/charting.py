"""Chart behaviours: follow each from a few starts, and keep what it visits."""

import hashlib
import math
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, TypeAlias, runtime_checkable

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode, VectorEnv
from jaxtyping import Float
from torch import Generator, Tensor

from zscout.base.edge import as_size, as_vectors
from zscout.base.smooth_rewards import random_rewards
from zscout.base.types import PolicySet, Vectors
from zscout.transfer.atlas.atlas import KEPT_OBSERVATIONS, Atlas, assembled, features_of
from zscout.transfer.atlas.behaviours import Behaviours, names_of
from zscout.transfer.atlas.features import Map, RichFeatures, maps_of
from zscout.transfer.atlas.resuming import PARTIAL as PARTIAL
from zscout.transfer.atlas.resuming import REPLAYED, check_finished, chunks_so_far, save_chunks
from zscout.transfer.constants import ATLAS_RIDGES, SETTLED
from zscout.transfer.offline import least_squares

KEPT_EVERY = 5  # steps from one kept observation to the next: neighbours are much alike
CHUNK, CHUNK_OF_ENV = 128, 8  # behaviours that are followed together, and saved: in a batched world, in an environment
PILOT = 8_192  # observations of the first chunk, which scale the features
LABELLED = 16  # observations of each behaviour, over which the random rewards of later ones are fitted
PARENTS, MOVES = 8, (0.1, 0.2, 0.4)  # a child is moved by a share of ‖z‖, or towards another of the best 8


@runtime_checkable
class BatchWorld(Protocol):
    """A world that steps many states at once, such as ``zscout.worlds.body("walker")``."""

    def random_states(self, n: int, rng: Generator) -> Float[Tensor, "n k"]:
        """Starts of episodes."""

    def advance(self, state: Float[Tensor, "n k"], action: Float[Tensor, "n a"]) -> tuple[Tensor, Tensor]:
        """The next states, and which of them terminated."""


World: TypeAlias = "BatchWorld | gymnasium.Env[Any, Any] | VectorEnv[Any, Any, Any]"
Follow: TypeAlias = Callable[[Tensor, int], Iterator[Tensor]]  # z [n d], seed → observations entered, [n o] each


def chart(
    bfm: PolicySet,
    env: World,
    *,
    behaviours: int = 2048,
    starts: int = 6,
    steps: int = 300,
    seed: int = 0,
    device: torch.device | str | None = None,
    z: Vectors | None = None,
    features: Map | None = None,
    folder: str | Path | None = None,
    overwrite: bool = False,
    progress: bool = True,
) -> Atlas:
    """Follow N behaviours of a model from a few starts each, and keep what they visit.

    ``env``: a Gymnasium environment, a vector one, or a world of zscout, which steps thousands at once. z are your own.
    Or the first half are of ``sample_z`` and of random smooth rewards (if the model declares goal features), the second
    half children of those that are best for random rewards. Of ``Behaviours`` all are charted. With ``folder`` the
    atlas is saved there, and a chart that was stopped goes on if the model and the world are the same. ``overwrite``
    discards what is there.
    """
    if folder is not None:
        check_finished(folder, overwrite)
    run = Charting(bfm, env, behaviours, starts, steps, seed, device, z, features, folder, overwrite)
    with _bar() if progress else nullcontext() as bar:
        task = None if bar is None else bar.add_task("charting", total=run.total)
        for done in run:
            if bar is not None:
                bar.update(task, completed=done)
    return run.atlas()


@dataclass(eq=False)
class Charting:
    """A chart in the making: iterate over it, it yields the steps taken so far; then ``atlas()``."""

    bfm: PolicySet
    env: World
    behaviours: int = 2048
    starts: int = 6
    steps: int = 300
    seed: int = 0
    device: torch.device | str | None = None
    given: Vectors | None = None  # z
    features: Map | None = None
    folder: str | Path | None = None
    overwrite: bool = False
    parts: dict[str, list[Tensor]] = field(default_factory=dict)  # of the chunks so far

    def __post_init__(self) -> None:
        self._follower()
        if isinstance(self.bfm, Behaviours):
            self.bfm.take_spaces(self.env)
            self.given = self.bfm.sorted_z() if self.given is None else self.given
        if not isinstance(self.bfm, PolicySet):
            raise ValueError(f"{type(self.bfm).__name__} cannot be followed: expected a model, or zscout.Behaviours")
        as_size(self.starts, "starts", 1)
        as_size(self.steps, "steps", 2 * KEPT_EVERY)
        as_size(self.seed, "seed", 0, 2**62)
        if self.given is not None:
            self.given = as_vectors(self.given, self.bfm.dim)
            if self.given.ndim != 2 or not len(self.given):
                raise ValueError(f"z has shape {tuple(self.given.shape)}, expected [n {self.bfm.dim}]")
            self.behaviours = len(self.given)
        as_size(self.behaviours, "behaviours", 1, 10**6)
        space = self.bfm.observation_space
        if not isinstance(space, Box) or len(space.shape) != 1:
            raise ValueError(
                f"an atlas needs observations that are vectors, got {space}: wrap the environment in "
                "gymnasium.wrappers.FlattenObservation"
            )
        if self.device is not None and torch.device(self.device).type != self._place.type:
            raise ValueError(f"the model is on {self._place}: move it to {self.device} first")
        if self.folder is not None and Path(self.folder).is_file():
            raise ValueError(f"{self.folder} is a file, expected a folder")
        if self.folder is not None:
            self.parts = chunks_so_far(self, Path(self.folder, PARTIAL))

    @property
    def total(self) -> int:
        """Steps of all behaviours together."""
        return self.behaviours * self.starts * self.steps

    def __iter__(self) -> Iterator[int]:
        """Follow the behaviours that are missing; a finished chunk is saved if there is a folder."""
        with torch.no_grad():
            while (first := self.chunk * len(self.parts.get("means", ()))) < self.behaviours:
                z = self._z(first, min(first + self.chunk, self.behaviours))
                yield from self._chunk(z, first)
                if self.folder is not None:
                    save_chunks(self, Path(self.folder, PARTIAL))

    def atlas(self) -> Atlas:
        """The atlas of what was followed."""
        means = torch.cat(self.parts["means"])  # [N starts D]
        z, sample = torch.cat(self.parts["z"]), torch.cat(self.parts["sample"])
        rng = Generator().manual_seed(self.seed)
        sample = sample[torch.randperm(len(sample), generator=rng)[:KEPT_OBSERVATIONS]]
        row = torch.arange(len(z)).repeat_interleave(self.starts)
        curve = torch.stack(self.parts["curve"]).mean(0)
        found = assembled(z, row, means.flatten(0, 1).double(), sample, curve, self._map, KEPT_EVERY).to(self._place)
        found = replace(found, names=names_of(self.bfm))
        if self.folder is not None:
            found.save(self.folder)
            Path(self.folder, PARTIAL).unlink(missing_ok=True)
        return found

    # Parts

    def _z(self, first: int, last: int) -> Float[Tensor, "n d"]:
        """Rows first … last − 1: those given; or of ``sample_z`` and random rewards, then children of the best."""
        if self.given is not None:
            return torch.as_tensor(self.given)[first:last].float().cpu()
        n, rng = last - first, Generator().manual_seed(_number(self.seed, first, -2))
        if not first:
            return self.bfm.sample_z(n, rng).float().cpu()
        visited = self._on_model(torch.cat(self.parts["sample"]))
        goal_features, phi = maps_of(self.bfm)
        goals = (visited if goal_features is None else goal_features(visited)).double().cpu()
        rewards = random_rewards((goals - goals.mean(0)) / goals.std(0).clamp(min=1e-6), n, rng)
        rewards = (rewards - rewards.mean(0))[:, torch.randperm(n, generator=rng)]
        if first >= self.behaviours // 2:
            return self._children(visited, rewards, rng)
        half = 0 if goal_features is None or phi is None else n // 2
        drawn = self.bfm.sample_z(n - half, rng).float().cpu()
        if not half or phi is None:
            return drawn
        fitted = least_squares(phi(visited).double().cpu(), rewards[:, :half])  # the model's own z for each reward
        return torch.cat([drawn, self.bfm.project_z(self._on_model(fitted.mT.float())).float().cpu()])

    def _children(
        self, visited: Float[Tensor, "m o"], rewards: Float[Tensor, "m n"], rng: Generator
    ) -> Float[Tensor, "n d"]:
        """For each reward a child of the best behaviour so far: moved at random, or towards another good one."""
        z, means = torch.cat(self.parts["z"]), torch.cat(self.parts["means"])
        f = torch.cat([features_of(self._map, some, self._place).cpu() for some in visited.split(8192)])
        centre = f.mean(0)
        moments = (f - centre).mT @ (f - centre) + ATLAS_RIDGES[0] * torch.eye(f.shape[1], dtype=f.dtype)
        weights = torch.linalg.solve(moments, (f - centre).mT @ rewards)
        worth = means.double() @ weights  # [N starts n]
        worth = worth.mean(1) - (worth.std(1) / (2 * math.sqrt(self.starts)) if self.starts > 1 else 0.0)
        best = worth.topk(min(PARENTS, len(z)), 0).indices  # [parents n]
        parent, n = z[best[0]], rewards.shape[1]
        other = z[best.gather(0, torch.randint(len(best), (1, n), generator=rng))[0]]
        size = torch.tensor(MOVES)[torch.randint(len(MOVES), (n, 1), generator=rng)]
        apart = torch.randn(parent.shape, generator=rng) * parent.square().mean(1, keepdim=True).sqrt()
        moves = torch.where(
            torch.rand(n, 1, generator=rng) < 0.5, size * apart, torch.rand(n, 1, generator=rng) * other
        )
        return self.bfm.project_z(self._on_model(parent + moves)).float().cpu()

    def _chunk(self, z: Float[Tensor, "n d"], first: int) -> Iterator[int]:
        """Follow each z from every start; add what was visited to ``parts``."""
        seen, early = list[Tensor](), list[Tensor]()
        for begin in range(0, len(z) * self.starts, self.together(len(z))):
            kept, opening = list[Tensor](), list[Tensor]()
            for t, obs in enumerate(self.entered(z, first, begin)):
                if t < REPLAYED:
                    opening.append(obs)
                if t % KEPT_EVERY == KEPT_EVERY - 1:
                    kept.append(obs)
                yield first * self.starts * self.steps + begin * self.steps + (t + 1) * len(obs)
            seen.append(torch.stack(kept, 1))
            early.append(torch.stack(opening, 1))
        visited = torch.cat(seen).unflatten(0, (len(z), self.starts)).float()  # [n starts t o]
        rng = Generator().manual_seed(_number(self.seed, first, -1))
        if not first:
            everything = visited.flatten(0, 2)
            self.parts["pilot"] = [everything[torch.randperm(len(everything), generator=rng)[:PILOT]]]
        f = torch.cat([features_of(self._map, some, self._place).cpu() for some in visited.split(8)])
        late = round(SETTLED * f.shape[2])
        means = f[:, :, late:].mean(2)
        some = visited[:, :, late:].flatten(1, 2)
        pick = torch.randint(some.shape[1], (len(z), LABELLED), generator=rng)
        added = {
            "z": z,
            "means": means.float(),
            "curve": (f - means[:, :, None]).square().sum(-1).mean((0, 1)).float(),
            "sample": some.gather(1, pick[..., None].expand(-1, -1, some.shape[-1])).flatten(0, 1),
            "opening": torch.cat(early)[:: self.starts],  # from the first start of each
        }
        for name, part in added.items():
            self.parts.setdefault(name, []).append(part)

    @property
    def chunk(self) -> int:
        """How many behaviours are saved together."""
        return CHUNK if self._follower()[0] is None else CHUNK_OF_ENV

    def together(self, behaviours: int) -> int:
        """How many starts are followed together, in a chunk of so many behaviours."""
        return self._follower()[0] or behaviours * self.starts

    def entered(self, z: Float[Tensor, "n d"], first: int, begin: int) -> Iterator[Float[Tensor, "m o"]]:
        """What is entered at each step from the starts of a chunk from ``begin`` on, as many as go together."""
        group = z.repeat_interleave(self.starts, 0)[begin:][: self.together(len(z))]
        padded = torch.cat([group, group[:1].expand(self.together(len(z)) - len(group), -1)])
        for obs in self._follower()[1](padded, _number(self.seed, first, begin)):
            yield obs[: len(group)]

    @cached_property
    def _map(self) -> Map:
        if self.features is not None:
            return self.features
        return RichFeatures.of(self.bfm, self._on_model(self.parts["pilot"][0]), self.seed)

    @cached_property
    def _place(self) -> torch.device:
        return self.bfm.sample_z(1, 0).device

    def _on_model(self, rows: Tensor) -> Tensor:
        return rows.to(self._place)

    def _follower(self) -> tuple[int | None, Follow]:
        """How many z can be followed at once (None: any number), and how."""
        env = self.env
        if isinstance(env, VectorEnv):
            if env.metadata.get("autoreset_mode") is AutoresetMode.DISABLED:
                raise ValueError("this vector environment does not reset itself: create it with an autoreset mode")
            return env.num_envs, self._in_env
        if isinstance(env, BatchWorld):
            return None, self._in_batch
        if isinstance(env, gymnasium.Env):
            return 1, self._in_env
        raise ValueError(
            f"cannot chart in {type(env).__name__}: expected a Gymnasium environment, a vector one, or a world with "
            "random_states and advance"
        )

    def _in_batch(self, z: Tensor, seed: int) -> Iterator[Tensor]:
        world: Any = self.env
        observe = getattr(world, "observe", lambda state: state)
        starts = Generator().manual_seed(seed)
        state = world.random_states(len(z), starts)
        rng, own = Generator().manual_seed(seed), self._on_model(z)
        for _ in range(self.steps):
            obs = self._on_model(observe(state).float())
            state, ended = world.advance(state, torch.as_tensor(self.bfm.act(obs, own, rng)).to(state.device))
            yield observe(state).float().cpu()
            if ended.any():
                state = torch.where(ended[:, None], world.random_states(len(z), starts).to(state), state)

    def _in_env(self, z: Tensor, seed: int) -> Iterator[Tensor]:
        env: Any = self.env
        single = not isinstance(env, VectorEnv)  # a single environment does not reset itself
        obs, _ = env.reset(seed=seed)
        rng, own = Generator().manual_seed(seed), self._on_model(z[0] if single else z)
        for _ in range(self.steps):
            obs, _, terminated, truncated, _ = env.step(self.bfm.act(obs, own, rng))
            yield torch.tensor(np.asarray(obs), dtype=torch.float32).reshape(len(z), -1)  # copied
            if single and (terminated or truncated):
                obs, _ = env.reset()

    @property
    def resumed(self) -> bool:
        """Whether some chunks are done."""
        return bool(self.parts)


def _number(*parts: int) -> int:
    """A seed from several numbers."""
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:4], "big")


def _bar() -> Any:
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    return Progress(
        TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn(), transient=True
    )
