"""A Z_t that depends on the state can beat the policy of z_r: how often, and by how much."""

import numpy as np
import torch

from zscout.lab.arena import Arena
from zscout.lab.paper.experiment import FEATURES, Experiment, Runs, Scale, mean, no_specs, verdict
from zscout.lab.statistics import Estimate
from zscout.lab.story import Claim, Section

TASKS, OTHERS = 60, 100


def _tell(scale: Scale, runs: Runs) -> Section:
    found = {(n, m): _gains(scale, n, m) for n in FEATURES for m in ("network", "exact")}
    claim = Claim(
        "16a",
        "Picking z by state can surpass the model's own policy π(·,z_r).",
        "Appendix A.2",
        "Value of switching to the z that is best from each state (π(·,z_r) and 100 others), minus that of π(·,z_r) "
        "kept, in shares of optimal: "
        + "; ".join(
            f"{FEATURES[n]}, {m}: {gain:.4f}, {share:.0%} of tasks gain" for (n, m), (gain, share) in found.items()
        )
        + ".",
        verdict(
            all(found[n, "network"][0].low > 1e-4 for n in FEATURES),
            any(found[n, "network"][0].low > 0 for n in FEATURES),
        ),
        "holds if with the networks the gain is surely above .0001 of optimal; an exact model leaves nothing to gain",
    )
    text = [
        "The regret of the paper compares with π(·,z_r). A model that errs, errs elsewhere for each z, so going "
        "from one to another can beat it, and regret against it can be negative. With the exact model π(·,z_r) is "
        "optimal and there is nothing to win, which is why our tables count lost steps against v*."
    ]
    return Section("switching", "Changing z can beat π(·,z_r)", text, claims=[claim], command="zscout reproduce")


def _gains(scale: Scale, features: str, model: str) -> tuple[Estimate, float]:
    """Of tasks: the gain of switching, normalised, and the share of tasks that gain."""
    ground = Arena(features=features, model=model).ground
    exact, yardstick = ground.exact, ground.yardstick
    rng = torch.Generator().manual_seed(scale.seed + 16)
    tasks, others = exact.sample_z(scale.runs(TASKS), rng), exact.sample_z(OTHERS, rng)
    fixed = torch.cat([tasks, others])
    policy = yardstick.policy(fixed)  # [n S] actions
    psi = exact.evaluate(policy)  # [n S d]
    gains = []
    for i, task in enumerate(tasks):
        allowed = torch.cat([torch.tensor([i]), torch.arange(len(tasks), len(fixed))])
        chosen = allowed[(psi[allowed] @ task).argmax(0)]  # for each state, the z of greatest value
        switching = exact.evaluate(policy[chosen, torch.arange(exact.world.n_states)]) @ task
        kept, best = psi[i] @ task, exact.value(task)
        random = exact.evaluate(exact.random_policy) @ task
        gains.append(float((switching - kept).mean() / (best - random).mean()))
    return mean(np.array(gains)), float(np.mean(np.array(gains) > 1e-6))


SWITCHING = Experiment(no_specs, _tell)
