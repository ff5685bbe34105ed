"""Two short clips of a body, of which a person says which is better."""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Generator, Tensor

from zscout.live.body_world import MILLIMETRES, LiveBody
from zscout.live.rounding import rounded
from zscout.transfer.agent import OnlineTransfer
from zscout.transfer.preferences import most_telling

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
    plausible = model.project_z(agent.preferences.sample(PLAUSIBLE, rng))
    z = torch.cat([part.double().cpu() for part in (agent.best_z[None], plausible, model.sample_z(RANDOM, rng))])
    clips = _followed(world, state, z)
    i, j = most_telling(agent, [clip.observations for clip in clips])
    return clips[i], clips[j]


def _followed(world: LiveBody, state: Float[Tensor, " k"], z: Float[Tensor, "m d"]) -> list[Clip]:
    """What each z does from this state."""
    arena, states = world.arena, state.expand(len(z), -1).clone()
    seen, ends = [], []
    for _ in range(ACTIONS):
        action = torch.as_tensor(arena.bfm.act(arena.observe(states), z)).float()
        states = arena.advance(states, action)
        seen.append(arena.observe(states))
        ends.append(arena.world.segments(states)[0].flatten(1))
    pictures = rounded(torch.stack(ends, 1), MILLIMETRES)
    return [Clip(observations, shown) for observations, shown in zip(torch.stack(seen, 1), pictures, strict=True)]
