"""A Z_t that depends on the state can beat the policy of z_r: how often, and by how much."""

import numpy as np
import torch

from zscout.lab.arena import Arena
from zscout.lab.paper.experiment import FEATURES, Experiment, Runs, Scale, no_specs, verdict
from zscout.lab.statistics import Bootstrap
from zscout.lab.story import Claim, Section

TASKS, OTHERS = 60, 100
WON_BACK = 0.1


def _tell(scale: Scale, runs: Runs) -> Section:
    found = {(n, m): _gains(scale, n, m) for n in FEATURES for m in ("network", "exact")}
    back = {n: Bootstrap(scale.runs(TASKS), 1).ratio(*(x[:, None] for x in found[n, "network"])) for n in FEATURES}
    nothing = all(abs(found[n, "exact"][0]).max() < 1e-9 for n in FEATURES)
    claim = Claim(
        "16a",
        "Picking z by state can surpass the model's own policy π(·,z_r).",
        "Appendix A.2",
        "Value of switching to the z that is best from each state (π(·,z_r) and 100 others), minus that of π(·,z_r) "
        "kept, in shares of optimal: "
        + "; ".join(f"{FEATURES[n]}, {m}: {gains.mean():.4f}" for (n, m), (gains, _) in found.items())
        + ". Of what π(·,z_r) of the networks lacks to optimal, switching wins back "
        + ", ".join(f"{back[n]:.0%} ({FEATURES[n]})" for n in FEATURES)
        + ".",
        verdict(
            all(e.low > WON_BACK for e in back.values()) and nothing,
            any(e.low > WON_BACK for e in back.values()) and nothing,
            all(e.high < WON_BACK for e in back.values()) or not nothing,
        ),
        f"holds if with the networks switching surely wins back more than {WON_BACK:.0%} of what π(·,z_r) lacks, and "
        "with the exact model, where it lacks nothing, gains nothing",
    )
    text = [
        "The regret of the paper compares with π(·,z_r). A model that errs, errs elsewhere for each z, so going "
        "from one to another can beat it, and regret against it can be negative. With the exact model π(·,z_r) is "
        "optimal and there is nothing to win, which is why our tables count lost steps against v*."
    ]
    return Section("switching", "Changing z can beat π(·,z_r)", text, claims=[claim], command="zscout reproduce")


def _gains(scale: Scale, features: str, model: str) -> tuple[np.ndarray, np.ndarray]:
    """Of each task: the gain of switching, and what π(·,z_r) lacks to optimal, both in shares of optimal."""
    ground = Arena(features=features, model=model).ground
    exact, yardstick = ground.exact, ground.yardstick
    rng = torch.Generator().manual_seed(scale.seed + 16)
    tasks, others = exact.sample_z(scale.runs(TASKS), rng), exact.sample_z(OTHERS, rng)
    fixed = torch.cat([tasks, others])
    policy = yardstick.policy(fixed)  # [n S] actions
    psi = exact.evaluate(policy)  # [n S d]
    gains, lacks = [], []
    for i, task in enumerate(tasks):
        allowed = torch.cat([torch.tensor([i]), torch.arange(len(tasks), len(fixed))])
        chosen = allowed[(psi[allowed] @ task).argmax(0)]  # for each state, the z of greatest value
        switching = exact.evaluate(policy[chosen, torch.arange(exact.world.n_states)]) @ task
        kept, best = psi[i] @ task, exact.value(task)
        random = exact.evaluate(exact.random_policy) @ task
        gains.append(float((switching - kept).mean() / (best - random).mean()))
        lacks.append(float((best - kept).mean() / (best - random).mean()))
    return np.array(gains), np.array(lacks)


SWITCHING = Experiment(no_specs, _tell)
