"""Online transfer: estimates on hand-picked tasks, errors and rewards on random tasks."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch

from reproduction.experiment import (
    FEATURES,
    TITLES,
    Experiment,
    Runs,
    Scale,
    features_of,
    map_panel,
    posteriors,
    transfers,
    visited,
)
from reproduction.report.model import Claim, CurveFigure, CurvePanel, PanelFigure, Section, Strip
from reproduction.summaries import all_met, banded, below, both, mean, median, verdict, verdict_over
from zscout.lab.arenas.arena import GOOD_VALUE
from zscout.lab.arenas.grid import GridArena, finite
from zscout.lab.compare.tables import TextTable
from zscout.lab.runs.spec import Spec
from zscout.transfer.offline import fit_task

TASKS = 100
PAPERS, OURS = "usf-ucb-paper", "usf-ucb"
HAND_PICKED: tuple[tuple[str, str, tuple[float, ...]], ...] = (  # labels say where the reward is high
    ("clusters", "the last corner", (0, 0, 0, 0, 0, 0, 0, 0, 1)),
    ("clusters", "the middle, not the edges", (-1, 0, -1, 0, 2, 0, -1, 0, -1)),
    ("laplacian", "one side", (0, 1, 0, 0, 0, 0, 0, 0, 0)),
    ("laplacian", "a corner and its opposite", (0, 0.5, -0.5, 0, 1, 0, 0, 0, 0)),
)


# 4: hand-picked tasks
def _hand_picked(scale: Scale) -> dict[tuple[str, str], list[Spec]]:
    """One run by feature set and label."""
    specs = {}
    for name, label, z in HAND_PICKED:
        arena = GridArena(features=name, model="network")
        task = arena.ground.exact.project_z(torch.tensor(z, dtype=torch.float64)).tolist()
        specs[name, label] = [Spec(arena, PAPERS, tuple(task), seed=5 + scale.seed, steps=150)]
    return specs


def _tell_hand_picked(scale: Scale, runs: Runs) -> Section:
    sections: dict[str, list[Strip]] = {title: [] for title in TITLES.values()}
    final, errors = [], []
    for (name, label), (spec,) in _hand_picked(scale).items():
        record, arena, features = runs[spec], spec.arena, features_of(spec.arena)
        _, z_hat = posteriors(record, features)
        truth = map_panel("φ·z_r", arena, features @ np.array(spec.task))
        shown = [map_panel(f"t = {t}", arena, features @ z_hat[t], visited(record, t)) for t in range(5, 61, 5)]
        sections[TITLES[name]].append(Strip(label.replace(", ", ",\n"), "reward", [truth, *shown]))
        final.append(record.numbers["final"])
        errors.append(record.steps["error"][[0, -1]])
    first, last = np.array(errors).T
    claim = Claim(
        "4a",
        "On hand-picked tasks the estimate improves and the path ends in the states of highest reward.",
        "4.3, figure of online transfer",
        f"{len(final)} tasks, 150 steps: ‖ẑ − z_r‖ from {first.min():.2f}–{first.max():.2f} after one reward to "
        f"{last.min():.2f}–{last.max():.2f}; reward of the last 20 steps {min(final):.2f}–{max(final):.2f} "
        "(1 is the best state's).",
        verdict(scale, bool((last < first).all()) and min(final) > GOOD_VALUE, max(final) > GOOD_VALUE),
        "holds if all estimates improve and all runs end above .95 of the best state's reward",
    )
    caption = (
        "Online transfer with the shipped networks at the paper's settings, noise σ = .3. First panel: the "
        "hidden reward φ·z_r. Then, every 5 steps, the estimate φ·ẑ_t and the path so far. The estimate "
        "approaches the hidden reward, and the path ends where that is highest."
    )
    alt = "Rows of 9×9 maps: the estimate's background comes to match the hidden reward on the left."
    figure = PanelFigure("transfer", caption, sections, alt)
    text = [
        "Now the method has to find a reward. Each step gives one noisy number. ẑ is the ridge regression on all of "
        "them. The bonus fades by the paper's schedule: β = 1 until t = 50, then down to 0 at 150."
    ]
    command = "zscout transfer --method usf-ucb-paper --features clusters --task 0,0,0,0,0,0,0,0,3 --steps 150"
    return Section("transfer", "Finding a hidden reward", text, [figure], claims=[claim], command=command)


# 5: errors and rewards on random tasks
def random_tasks(scale: Scale, features: str, model: str, method: str) -> list[Spec]:
    """Runs that several sections use."""
    return transfers(scale, GridArena(features=features, model=model), method, TASKS)


def _on_random_tasks(scale: Scale) -> dict[tuple[str, str, str], list[Spec]]:
    """Runs by feature set, model and method."""
    kinds = [(name, model, method) for name in FEATURES for model in ("network", "exact") for method in (PAPERS, OURS)]
    return {kind: random_tasks(scale, *kind) for kind in kinds}


def settling_times(value: np.ndarray) -> np.ndarray:
    """Rewards until the estimate's policy has .95 of the optimal value and keeps it; ∞: never. Of runs [R T]."""
    bad = value < GOOD_VALUE
    last_bad = np.where(bad.any(1), value.shape[1] - bad[:, ::-1].argmax(1), 0)
    return np.where(last_bad < value.shape[1], last_bad + 1.0, np.inf)


def _offline(specs: Sequence[Spec]) -> tuple[np.ndarray, np.ndarray]:
    """Value and error of the fit to 81 labelled states with the same noise, for each task."""
    ground = finite(specs[0].arena).ground
    found = []
    for spec in specs:
        rng = torch.Generator().manual_seed(spec.seed % 2**31)
        task = torch.tensor(spec.task, dtype=torch.float64)
        labels = ground.exact.features.cpu() @ task + spec.noise * torch.randn(81, dtype=torch.float64, generator=rng)
        fit = fit_task(ground.model, torch.arange(ground.world.n_states), labels, intercept=False)
        value = float(ground.yardstick.value(fit.z.double()[None], task[None]))
        found.append((value, float((fit.z_hat.double() - task).norm())))
    values, errors = np.array(found).T
    return values, errors


def _tell_errors(scale: Scale, runs: Runs) -> Section:
    found, count = _on_random_tasks(scale), scale.runs(TASKS)
    value, error = ({kind: runs.steps(specs, c) for kind, specs in found.items()} for c in ("value", "error"))
    final = {kind: mean(runs.numbers(specs, "final")) for kind, specs in found.items()}
    times = {kind: settling_times(values) for kind, values in value.items()}
    offline = {name: _offline(found[name, "network", PAPERS]) for name in FEATURES}
    rows = []
    for (name, model, method), settled in times.items():
        cells = [_in_steps(settled), f"{np.isfinite(settled).mean():.0%}"]
        cells += [f"{mean(error[name, model, method][:, -1]):.2f}", f"{final[name, model, method]:.3f}"]
        rows.append([FEATURES[name], model, method, *cells])
        if (model, method) == ("exact", OURS):
            values, errors = offline[name]
            cells = ["81", f"{(values >= GOOD_VALUE).mean():.0%}", f"{mean(errors):.2f}", ""]
            rows.append([FEATURES[name], "network", "81 labelled states, offline", *cells])
    head = ["features", "model", "method", "rewards until settled (median)", "settled", "‖ẑ−z_r‖", "final reward"]
    caption = (
        "Rewards until the estimate's policy has .95 of the optimal value and keeps it (networks: checked every 5 "
        "rewards); 95 % intervals."
    )
    tables = [TextTable("settling", caption, head, rows)]
    caption = (
        f"The paper's figure of errors and rewards (its 10 random tasks dashed, {count} solid; networks, σ = .3, "
        "95 % bands). The right column is not in the paper: the value of the estimate's policy (0: random walk, "
        "1: optimal). It is high long before the estimate is close or the bonus has faded."
    )
    alt = "Errors fall, rewards rise to their maximum, and the value of the estimate's policy is near 1 earlier."
    panels = {title: _panels(runs, name, found) for name, title in TITLES.items()}
    figure = CurveFigure("errors-and-rewards", caption, panels, alt)
    text = [
        "How many rewards does it take? The value of π(·,ẑ_t) is exact here. The reward curve lags behind it, because "
        "the bonus keeps the agent exploring long after it could have settled."
    ]
    papers = {name: median(times[name, "network", PAPERS]) for name in FEATURES}
    in_time = all_met(False if np.isinf(e.value) else below(e, 151) for e in papers.values())  # medians are whole
    last = {name: mean(error[name, "network", PAPERS][:, -1]) for name in FEATURES}
    rewards = {name: final[name, "network", PAPERS] for name in FEATURES}
    in_steps, ours_in_steps = (
        both({name: _in_steps(times[name, "network", method]) for name in FEATURES}, "") for method in (PAPERS, OURS)
    )
    offline_value, offline_error = ({name: mean(offline[name][i]) for name in FEATURES} for i in (0, 1))
    claims = [
        Claim(
            "5a",
            "The estimate comes very close to z_r in spite of the noise.",
            "4.3, figure of errors and rewards",
            f"‖ẑ − z_r‖ after {scale.steps(200)} rewards, {count} tasks, ‖z_r‖ = 3: {both(last, '.2f')}; "
            f"81 labelled states: {both(offline_error, '.2f')}.",
            verdict_over(scale, (below(e, 1) for e in last.values())),
            "holds if the error is significantly below a third of ‖z_r‖, with both feature sets",
        ),
        Claim(
            "5b",
            "The path ends at the greatest reward.",
            "4.3, figure of errors and rewards",
            f"Reward of the last 20 steps (0: the mean state's, 1: the best state's): {both(rewards, '.3f')}.",
            verdict_over(scale, (below(GOOD_VALUE, e) for e in rewards.values())),
            "holds if it is significantly above .95, with both feature sets",
        ),
        Claim(
            "5c",
            "The policy is optimal after 100 to 150 rewards.",
            "4.3",
            f"Rewards until π(·,ẑ) has .95 of the optimal value and keeps it, median: {in_steps} at the paper's "
            f"settings; {ours_in_steps} for our default.",
            verdict(scale, all_met([in_time, *(below(99, e) for e in papers.values())]), in_time),
            "holds if the interval of the median is in 100 to 150 with both feature sets; in part if it ends by 150: "
            "then the statement is right as an upper bound only; a median of never refutes it",
        ),
        Claim(
            "5d",
            "Compared with labelling all 81 states, learning online is not prohibitively expensive.",
            "4.3",
            f"81 labelled states give a policy with {both(offline_value, '.3f')} of the optimal value. Online .95 "
            f"takes {in_steps} rewards, with ours {ours_in_steps}.",
            verdict_over(scale, (below(e, 163) for e in papers.values())),
            "holds if the median is significantly at most twice 81",
        ),
    ]
    command = "zscout compare --model network --methods usf-ucb-paper,usf-ucb --tasks 100 --seeds 1"
    return Section("errors-and-rewards", "How many rewards it takes", text, [figure], tables, claims, command)


def _panels(runs: Runs, name: str, found: Mapping[tuple[str, str, str], Sequence[Spec]]) -> list[CurvePanel]:
    """Error, reward and value over steps: the paper's number of tasks dashed, all of ours solid."""
    ten = found[name, "network", PAPERS][:10]
    features = features_of(ten[0].arena)
    best = mean(np.array([max(features @ np.array(spec.task)) for spec in ten]))
    shown = {f"{PAPERS}, 10 tasks": ten, **{method: found[name, "network", method] for method in (PAPERS, OURS)}}
    rewards = {
        label: np.stack([features[runs[spec].steps["entered"]] @ np.array(spec.task) for spec in specs])
        for label, specs in shown.items()
    }
    errors, values = ({label: runs.steps(specs, c) for label, specs in shown.items()} for c in ("error", "value"))
    panels: tuple[tuple[str, dict[str, np.ndarray], dict[str, float]], ...] = (
        ("‖ẑ − z_r‖", errors, {}),
        ("reward, without its noise", rewards, {"max r, 10 tasks": best.value}),
        ("value of π(·,ẑ)", values, {".95": GOOD_VALUE}),
    )
    return [
        CurvePanel(label, [banded(who, rows, who not in (PAPERS, OURS)) for who, rows in shown.items()], levels=levels)
        for label, shown, levels in panels
    ]


def _in_steps(times: np.ndarray) -> str:
    return f"{median(times):.0f}".replace("inf", "never")


STRIPS = Experiment(_tell_hand_picked, _hand_picked)
ERRORS = Experiment(_tell_errors, _on_random_tasks)
