"""Pure exploration: paths without a reward, and how fast log det V⁻¹ and the eigenvalues of V⁻¹ fall."""

from collections.abc import Mapping, Sequence

import numpy as np

from reproduction.experiment import (
    FEATURES,
    TITLES,
    Experiment,
    Runs,
    Scale,
    explorations,
    features_of,
    map_panel,
    posteriors,
    visited,
)
from reproduction.report.model import Claim, CurveFigure, CurvePanel, PanelFigure, Section, Strip
from reproduction.summaries import all_met, any_met, banded, below, both, each, mean, median, verdict, verdict_over
from reproduction.variants import exhaustive, explore, inverse_counts
from zscout.lab.arenas.grid import GridArena
from zscout.lab.compare.statistics import Estimate
from zscout.lab.runs.spec import Spec
from zscout.lab.runs.store import Record

SEEDS, STEPS = 40, 200
TIMES = (25, 50, 100, 200)  # steps at which explorers are compared
MARGIN = 0.5  # of log det V⁻¹: what is still unknown is 6 % wider in each of nine directions
OURS, EXACT, NEAR = "USF-UCB, network", "USF-UCB, exact", "USF-UCB, exact, bonus at γ = .8"
EXHAUSTIVE, RANDOM, COUNTS = "exhaustive", "random", "z = 1/N"
SHOWN = (OURS, EXACT, NEAR, EXHAUSTIVE, RANDOM)  # in the figure of log det


def explorers(scale: Scale) -> dict[tuple[str, str], list[Spec]]:
    """Runs by feature set and by the label in figures."""
    runs = {}
    for name in FEATURES:
        exact, network = GridArena(features=name), GridArena(features=name, model="network")
        for label, arena, method, settings in (
            (OURS, network, explore(), {}),
            (EXACT, exact, explore(), {}),
            (NEAR, exact, explore(gamma=0.8), {}),
            (EXHAUSTIVE, exact, exhaustive(ridge=1.0), {}),
            (RANDOM, exact, "random", {"ridge": 1.0}),
            (COUNTS, exact, inverse_counts(), {}),
        ):
            if label != COUNTS or name == "clusters":
                runs[name, label] = explorations(scale, arena, method, SEEDS, STEPS, **settings)
    return runs


# 2: paths
def _tell_paths(scale: Scale, runs: Runs) -> Section:
    found, last = explorers(scale), min(99, scale.steps(STEPS))
    sections, seen = {}, {}
    for name, title in TITLES.items():
        specs = found[name, OURS]
        arena, features, first = specs[0].arena, features_of(specs[0].arena), runs[specs[0]]
        panels = [
            map_panel(f"t = {t}", arena, features @ first.steps["z"][t - 1], visited(first, t))
            for t in (1, *range(11, last + 1, 11))
        ]
        sections[title] = [Strip("φ·Z_t and\nthe path", "reward", panels)]
        seen[name] = np.array([_coverage(runs[spec], last, features) for spec in specs])  # [R 3]
    walkers = found["clusters", EXHAUSTIVE]
    paths = {t: visited(runs[walkers[0]], t) for t in sorted({20, 40, 60, 80, last}) if t <= last}
    counts = [map_panel(f"t = {t}", walkers[0].arena, np.bincount(p, minlength=81), p) for t, p in paths.items()]
    sections["The exhaustive explorer"] = [Strip("the path", "feature", counts)]
    regions = mean(seen["clusters"][:, 0] / 9)
    states = {name: mean(rows[:, 1] / 81) for name, rows in seen.items()}
    fresh = {name: mean(rows[:, 2]) for name, rows in seen.items()}
    covered = np.array([_steps_to_cover(runs[spec]) for spec in walkers])
    finished = np.isfinite(covered)
    unfinished = False if scale.steps(STEPS) == STEPS else None  # more steps may finish them
    needs = f"{median(covered[finished]):.0f} steps (median of those that did)" if finished.any() else "more steps"
    claims = [
        Claim(
            "2a",
            "Without a reward the method explores its features well, but does not visit every state.",
            "4.2, figure of exploration",
            f"After {last} steps: {regions:.0%} of the nine regions; {both(states, '.0%', ' and ')} of the 81 states.",
            verdict(
                scale,
                all_met([below(0.95, regions), *(below(share, 1) for share in states.values())]),
                below(0.8, regions),
            ),
            "holds if significantly more than 95 % of regions and significantly fewer than all states are visited",
        ),
        Claim(
            "2b",
            "The reward it pursues, φ·Z_t, is high where it has not been.",
            "4.2, caption of the figure of exploration",
            f"Steps on which unvisited states have a higher mean φ·Z_t than visited ones: {both(fresh, '.0%')}.",
            verdict_over(scale, (below(0.5, e) for e in fresh.values())),
            "holds if this is significantly more than half of the steps, with both feature sets",
        ),
        Claim(
            "2c",
            "The exhaustive explorer, which goes to the least-visited neighbour, reaches all states.",
            "Appendix C.3, figure of the exhaustive explorer",
            f"{finished.mean():.0%} of {len(walkers)} runs visit every state within {scale.steps(STEPS)} steps; "
            f"this takes {needs}; 80 is the minimum.",
            verdict(scale, True if finished.all() else unfinished, bool(finished.mean() > 0.5)),
            "holds if all runs reach all states",
        ),
    ]
    caption = (
        "Pure exploration with the shipped networks, ẑ = 0. Background: the reward φ·Z_t that the method asks the "
        f"model to pursue at that step; line: the path so far. Last panel: t = {last}. The method prefers what it "
        "has not seen. Below: the explorer that walks to the least-visited neighbour and observes all states."
    )
    alt = "Rows of 9×9 maps: a growing path, the background bright where the path has not been yet."
    figure = PanelFigure("exploration", caption, sections, alt)
    text = [
        "With ẑ = 0 only the bonus is left: which z leads through the least-known features? The path goes from region "
        "to region. The method does not visit every corner of a region, because φ is the same in all of them."
    ]
    title = "Exploring without a reward"
    return Section("exploration", title, text, [figure], claims=claims, command="python -m reproduction")


def _coverage(record: Record, last: int, features: np.ndarray) -> tuple[float, float, float]:
    """Regions and states visited, and the share of steps on which φ·Z_t is higher over unvisited states."""
    seen, better = np.zeros(len(features), dtype=bool), []
    seen[record.steps["state"][0]] = True
    for state, z in zip(record.steps["entered"][:last], record.steps["z"][:last], strict=True):
        reward = features @ z
        if not seen.all():
            better.append(reward[~seen].mean() > reward[seen].mean())
        seen[state] = True
    return float((features[seen] != 0).any(0).sum()), float(seen.sum()), float(np.mean(better))


def _steps_to_cover(record: Record) -> float:
    _, first = np.unique(visited(record), return_index=True)
    return float(first.max()) if len(first) == 81 else np.inf


# 3: log det
def _tell_log_det(scale: Scale, runs: Runs) -> Section:
    found, times = explorers(scale), [t for t in TIMES if t <= scale.steps(STEPS)]

    def gaps(name: str, who: str, other: str, column: str = "log_det") -> list[Estimate]:
        difference = runs.steps(found[name, who], column) - runs.steps(found[name, other], column)
        return [mean(difference[:, t - 1]) for t in times]

    rows = {
        title: [
            CurvePanel(label, [banded(who, runs.steps(found[name, who], column)) for who in SHOWN])
            for column, label in (("log_det", "log det V⁻¹, features"), ("log_det_states", "log det V⁻¹, state counts"))
        ]
        for name, title in TITLES.items()
    }
    in_features = {name: gaps(name, OURS, EXHAUSTIVE) for name in FEATURES}
    in_states = {name: gaps(name, OURS, EXHAUSTIVE, "log_det_states") for name in FEATURES}
    by_features = [gap for answers in in_features.values() for gap in answers]
    not_behind, ahead = (
        all_met(below(gap, MARGIN) for gap in by_features),
        any_met(below(gap, 0) for gap in by_features),
    )
    behind = [below(0, gap) for answers in in_states.values() for gap in answers]
    to_random = {who: {name: gaps(name, who, RANDOM)[-1] for name in FEATURES} for who in (OURS, EXHAUSTIVE)}
    claims = [
        Claim(
            "3a",
            "In its own features the method learns as fast as the exhaustive explorer, or faster.",
            "4.2, figure of determinants",
            _gaps_in_words(in_features, times),
            verdict(scale, not_behind, ahead),
            f"holds if it is significantly less than {MARGIN} behind at every time (non-inferiority); in part if it is "
            "significantly faster at some time",
        ),
        Claim(
            "3b",
            "In state counts it is slower: each explorer is best by its own measure.",
            "4.2, figure of determinants",
            _gaps_in_words(in_states, times),
            verdict(scale, all_met([not_behind, *behind]), all_met([ahead, any_met(behind)])),
            "holds if 3a holds and it is significantly behind in state counts at every time; in part if 3a holds in "
            "part and it is behind at some time; a poor explorer is behind in both",
        ),
        Claim(
            "3c",
            "A random walk is slower than both.",
            "4.2, figure of determinants",
            f"log det V⁻¹ − that of the random walk at t = {times[-1]}: "
            + "; ".join(f"{who} {both(found_gaps, '.1f')}" for who, found_gaps in to_random.items())
            + ".",
            verdict_over(scale, (below(gap, 0) for found_gaps in to_random.values() for gap in found_gaps.values())),
            "holds if both are significantly lower, with both feature sets",
        ),
    ]
    caption = (
        f"How fast uncertainty falls ({scale.runs(SEEDS)} seeds, 95 % bands, λ = 1; lower is better). Left: in the "
        "method's own features. Right: with one feature for each state. A shorter horizon in the bonus (γ = .8, "
        "ours) changes little with clusters and much with the Laplacian."
    )
    alt = "Falling curves of log det, in features on the left, in state counts on the right, one for each explorer."
    figure = CurveFigure("log-det", caption, rows, alt)
    text = [
        "The determinant of V⁻¹ measures the volume of the tasks that are still possible. The exhaustive explorer "
        "observes the neighbours of every state and visits them all; the method observes only its features."
    ]
    return Section(
        "log-det", "How fast uncertainty falls", text, [figure], claims=claims, command="python -m reproduction"
    )


def _gaps_in_words(gaps: Mapping[str, Sequence[Estimate]], times: Sequence[int]) -> str:
    parts = [f"{FEATURES[name]}: {_at_times(found, times)}" for name, found in gaps.items()]
    return f"log det V⁻¹ of ours − of the exhaustive explorer. {'; '.join(parts)}."


def _at_times(gaps: Sequence[Estimate], times: Sequence[int]) -> str:
    return ", ".join(f"{gap:.1f} at t = {t}" for gap, t in zip(gaps, times, strict=True))


# 13: eigenvalues
def _tell_eigenvalues(scale: Scale, runs: Runs) -> Section:
    found, worst, largest = explorers(scale), 0.0, {}
    rows: dict[str, list[CurvePanel]] = {title: [] for title in TITLES.values()}
    for name, title in TITLES.items():
        for who in (OURS, EXHAUSTIVE, RANDOM):
            features, values = features_of(found[name, who][0].arena), []
            for spec in found[name, who]:
                V, _ = posteriors(runs[spec], features)
                values.append(1 / np.linalg.eigvalsh(V)[1:, ::-1])  # of V⁻¹, the least first
                if name == "clusters":
                    counts = 1 / (1 + features[runs[spec].steps["entered"]].cumsum(0))
                    worst = max(worst, float(np.abs(np.sort(counts, 1) - values[-1]).max()))
            stack = np.stack(values)  # [R T d]
            curves = [banded(label, stack[:, :, i]) for label, i in (("largest", 8), ("middle", 4), ("least", 0))]
            rows[title].append(CurvePanel("eigenvalue of V⁻¹", curves, logarithmic=True, title=who))
            largest[name, who] = mean(stack[:, -1, 8])
    pairs = {name: (largest[name, OURS], largest[name, RANDOM]) for name in FEATURES}
    times = [t for t in TIMES if t <= scale.steps(STEPS)]
    by_counts, *others = (runs.steps(found["clusters", who], "log_det") for who in (COUNTS, EXACT, RANDOM))
    to_ours, to_random = ([mean(by_counts[:, t - 1] - other[:, t - 1]) for t in times] for other in others)
    explores = all_met(below(gap, 0) for gap in to_random)
    falls = all_met(below(ours, 0.5) for ours, _ in pairs.values())  # from 1/λ = 1
    claims = [
        Claim(
            "13a",
            "Exploration lowers all eigenvalues of V⁻¹, the largest too.",
            "3.3",
            f"Largest eigenvalue at the end (1 at the start): {each('{:.3f}, random walk {:.3f}', pairs)}.",
            verdict(scale, all_met([falls, *(below(ours, random) for ours, random in pairs.values())]), falls),
            "holds if it is significantly below half and below the random walk's, with both feature sets",
        ),
        Claim(
            "13b",
            "For regions V⁻¹ is diagonal and its eigenvalues are the inverse counts of visits.",
            "3.3",
            f"Largest difference between eigenvalues and 1/(λ + N) over all runs and steps: {worst:.1e}.",
            verdict(scale, worst < 1e-12, worst < 1e-6),
            "holds if they agree to rounding",
            kind="check",
        ),
        Claim(
            "13c",
            "With regions, z_i = 1/N_i is a way to explore.",
            "Appendix C.1",
            f"log det V⁻¹ of z = 1/N − of USF-UCB, both with the exact model: {_at_times(to_ours, times)}; − of the "
            f"random walk: {_at_times(to_random, times)}.",
            verdict(scale, all_met([explores, *(below(gap, MARGIN) for gap in to_ours)]), explores),
            "holds if at every time it is significantly ahead of the random walk, and significantly less than "
            f"{MARGIN} behind USF-UCB (non-inferiority); in part if it is ahead of the random walk",
        ),
    ]
    caption = (
        "Largest, middle and least eigenvalue of V⁻¹ (95 % bands). The determinant can fall while one direction "
        "stays unknown. With USF-UCB the largest falls with the others; with a random walk it lags."
    )
    alt = "Three falling curves a panel on a logarithmic axis; under the random walk the largest stays high longest."
    figure = CurveFigure("eigenvalues", caption, rows, alt)
    text = ["A small volume can still be long in one direction, so this section shows the eigenvalues one by one."]
    title = "Every direction, not only the volume"
    return Section("eigenvalues", title, text, [figure], claims=claims, command="python -m reproduction")


PATHS, LOG_DET, EIGENVALUES = (Experiment(tell, explorers) for tell in (_tell_paths, _tell_log_det, _tell_eigenvalues))
