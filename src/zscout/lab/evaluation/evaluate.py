"""Chooses how the runs of an arena are evaluated."""

from collections.abc import Sequence

from zscout.lab.arenas.arena import Arena, Batch, Evaluation
from zscout.lab.arenas.grid import GridArena
from zscout.lab.arenas.patches import DECOY, DECOY_REWARD, PatchArena
from zscout.lab.arenas.simulation import trace_of
from zscout.lab.evaluation.exact_evaluation import evaluate_exactly
from zscout.lab.evaluation.monte_carlo import evaluate_returns
from zscout.loop.rollout import Step
from zscout.transfer.agent import OnlineTransfer


def evaluate(arena: Arena, batch: Batch, agent: OnlineTransfer, steps: Sequence[Step]) -> Evaluation:
    """Numbers of the agent's runs: exact regret in a finite world that is not too large, else Monte-Carlo returns.

    In an arena with decoys, ``decoyed`` is 1 if the best z leads to the decoy and stays there.
    """
    if not isinstance(arena, GridArena) or not arena.exact_with(arena.ground.world.n_states):
        return evaluate_returns(arena, batch, agent, steps)
    trace = trace_of(agent, arena.vectors(batch.tasks), steps)
    if not isinstance(arena, PatchArena):
        table = arena.ground.rewards(trace.task, batch.seeds, batch.outside, batch.offset) if batch.outside else None
        return evaluate_exactly(trace, arena.ground, table)
    numbers, columns = evaluate_exactly(trace, arena.ground, arena.tables(batch.tasks) + batch.offset, own_gap=True)
    if arena.rewards != DECOY:
        return numbers, columns
    return {**numbers, "decoyed": (arena.final_reward(trace.final_z, batch) == DECOY_REWARD).double()}, columns
