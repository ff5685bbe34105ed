"""Two short clips of a body, of which a person says which is better."""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Generator, Tensor

from zscout.live.places.body import MILLIMETRES, LiveBody
from zscout.live.places.explanation import rounded
from zscout.live.session.rehearsal import rehearsed
from zscout.transfer.agent import OnlineTransfer
from zscout.transfer.belief.feedback import most_telling

ACTIONS = 50  # of a clip
PLAUSIBLE, RANDOM = 3, 4  # behaviours for tasks that fit the answers so far, and of any task


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
    arena, states = world.arena, torch.stack([*rehearsed(world.arena, state, z, ACTIONS)], 1)
    seen, pictures = arena.observe(states), rounded(arena.world.segments(states)[0].flatten(2), MILLIMETRES)
    i, j = most_telling(agent, list(seen))
    return Clip(seen[i], pictures[i]), Clip(seen[j], pictures[j])
