"""Behaviours tried out in the simulator: the one to keep, for the page's ghost, and two clips for a person."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Generator, Tensor

from zscout.base.randomness import Streams
from zscout.base.types import Obs
from zscout.lab.arenas.vector import VectorArena
from zscout.live.places.body import LiveBody
from zscout.transfer.agent import OnlineTransfer
from zscout.transfer.belief.feedback import most_telling
from zscout.watch.progress import Certificates, Progress

ACTIONS, STARTING = 60, 20  # of a rehearsal; those at its start say more about the state than about the behaviour
LABELS_APART = 100  # labels from one rehearsal to the next
OF_AN_ANSWER = 25  # labels that an answer about two clips counts for
OF_A_CLIP = 50  # actions
PLAUSIBLE, RANDOM = 3, 4  # behaviours for tasks that fit the answers so far, and of any task


class Rehearsals:
    """The last rehearsals of one agent, by turns from where the body is and from the start of another episode.

    Each is spread over many steps, so that none of them is late.
    """

    def __init__(self, arena: VectorArena, agent: OnlineTransfer) -> None:
        self._arena, self._agent = arena, agent
        self._certificates = Certificates(agent)
        self._since = self._begun = 0  # labels at the last one, and how many there were
        self._running: Iterator[Float[Tensor, "1 k"]] | None = None
        self._entered: list[Float[Tensor, " k"]] = []  # by the best z
        self.kept: Float[Tensor, "n k"] | None = None  # the same of the last rehearsal, without its start

    @property
    def progress(self) -> Progress:
        """What the agent knows about how good it is."""
        return self._certificates.progress

    def go_on(self, labels: int, state: Float[Tensor, " k"], obs: Obs, actions: int = 1) -> None:
        """Take actions of a rehearsal, if one is due or running; the agent is at the observation."""
        if self._running is None and labels - self._since >= LABELS_APART:
            self._since, self._begun = labels, self._begun + 1
            elsewhere = self._arena.starts(Streams(torch.tensor([labels])))[0]
            begin = state if self._begun % 2 else elsewhere
            z = self._agent.best_z[None].double().cpu()
            self._running, self._entered = rehearsed(self._arena, begin, z, ACTIONS), []
        for _ in range(actions if self._running else 0):
            assert self._running is not None
            entered = next(self._running, None)
            if entered is not None:
                self._entered.append(entered[0])
                continue
            self._running, self.kept = None, torch.stack(self._entered[STARTING:])
            self._certificates.add(obs)
            break

    def start_anew(self) -> None:
        """Be sure of nothing until there are as many certificates as at first."""
        self._certificates.start_anew()


def rehearsed(
    arena: VectorArena, state: Float[Tensor, " k"], z: Float[Tensor, "m d"], actions: int
) -> Iterator[Float[Tensor, "m k"]]:
    """The states that π(·,z) enters from one state, for each z, one action after the other."""
    return arena.followed(state.expand(len(z), -1).clone(), z, actions)


@dataclass(frozen=True, eq=False)
class Clip:
    """A behaviour for a while: what the agent sees of it, and what a person sees."""

    observations: Float[Tensor, "n o"]
    ends: Any  # of the capsules at each step, as plain numbers


def telling_clips(world: LiveBody, agent: OnlineTransfer, state: Float[Tensor, " k"], seed: int) -> tuple[Clip, Clip]:
    """From one state, the two of several behaviours whose comparison teaches most."""
    rng, model = Generator().manual_seed(seed), agent.bfm
    plausible = agent.z_for(agent.preferences.sample(PLAUSIBLE, rng))
    z = torch.cat([part.double().cpu() for part in (agent.best_z[None], plausible, model.sample_z(RANDOM, rng))])
    states = torch.stack([*rehearsed(world.arena, state, z, OF_A_CLIP)], 1)
    seen, pictures = world.arena.observe(states), world.poses(states)
    i, j = most_telling(agent, list(seen))
    return Clip(seen[i], pictures[i]), Clip(seen[j], pictures[j])
