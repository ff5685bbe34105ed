"""How much there is to do at least: FLOP of the networks, bytes of the tables."""

import torch
from jaxtyping import Int
from scipy.sparse.csgraph import shortest_path
from torch import Tensor

from zscout.bfm.usfa import USFAConfig
from zscout.features.graph import adjacency
from zscout.types import BehaviorModel, FiniteWorld

NUMBER = 8  # bytes


def psi_flops(config: USFAConfig, actions: int = 1) -> float:
    """Of ψ(s,a;z) by all heads, for one pair of s and z; the part of the first layer on s is shared by many z."""
    return config.heads * _layers(config, actions * config.dim)


def actor_flops(config: USFAConfig) -> float:
    """Of the policy, for one pair."""
    return _layers(config, config.n_actions) if config.actor else 0.0


def _layers(config: USFAConfig, outputs: int) -> float:
    h = config.hidden
    return 2.0 * (config.dim * h + (config.layers - 1) * h * h + h * outputs)


def bytes_of_distinct_rows(model: BehaviorModel, n: int, seed: int, states: Int[Tensor, " R"]) -> int:
    """Of ψ at the states of all runs for n random z, equal rows once: what a bank has to read to score them."""
    everywhere = torch.arange(int(states.max()) + 1, device=states.device)
    psi = model.psi(everywhere, model.sample_z(n, seed)).double()
    scale = 1e-6 * psi.abs().max()
    rows = torch.tensor([len(torch.unique((here / scale).round(), dim=0)) for here in psi])
    return int(rows[states.cpu().unique()].sum()) * model.dim * NUMBER


def diameter(world: FiniteWorld) -> int:
    """The most steps between two states: sweeps that a value needs to be known everywhere."""
    return int(shortest_path(adjacency(world), unweighted=True).max())
