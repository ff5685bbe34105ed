"""Pure exploration: paths without a reward, and how fast log det V⁻¹ and the eigenvalues of V⁻¹ fall."""

from collections.abc import Sequence

import numpy as np

from zscout.lab.grid_arena import GridArena, finite
from zscout.lab.paper.experiment import (
    FEATURES,
    TITLES,
    VARIANTS,
    Experiment,
    Runs,
    Scale,
    banded,
    explorations,
    features_of,
    mean,
    median,
    posteriors,
    verdict,
    walked,
)
from zscout.lab.report_model import Claim, CurveFigure, CurvePanel, Panel, PanelFigure, Section, Strip
from zscout.lab.spec import Spec
from zscout.lab.statistics import Bootstrap, Estimate
from zscout.lab.store import Record

SEEDS, STEPS = 40, 200
LOOKS = (25, 50, 100, 200)
MARGIN = 0.5  # of log det V⁻¹: what is still unknown is 6 % wider in each of nine directions
EXPLORE = f"{VARIANTS}:explore"
OURS, EXACT, NEAR = "USF-UCB, network", "USF-UCB, exact", "USF-UCB, exact, bonus at γ = .8"
EXHAUSTIVE, RANDOM, COUNTS = "exhaustive", "random", "z = 1/N"


def explorers(scale: Scale, features: str) -> dict[str, list[Spec]]:
    """By the name that figures use."""
    exact, network = GridArena(features=features), GridArena(features=features, model="network")

    def runs(arena: GridArena, method: str, **settings: object) -> list[Spec]:
        return explorations(scale, arena, method, SEEDS, STEPS, **settings)

    found = {
        OURS: runs(network, EXPLORE),
        EXACT: runs(exact, EXPLORE),
        NEAR: runs(exact, EXPLORE, gamma=0.8),
        EXHAUSTIVE: runs(exact, "exhaustive", ridge=1.0),
        RANDOM: runs(exact, "random", ridge=1.0),
    }
    if features == "clusters":
        found[COUNTS] = runs(exact, f"{VARIANTS}:inverse_counts")
    return found


def _specs(scale: Scale) -> list[Spec]:
    return [spec for name in FEATURES for specs in explorers(scale, name).values() for spec in specs]


# 2 and 6: paths


def _tell_paths(scale: Scale, runs: Runs) -> Section:
    sections, claims, seen = {}, [], {}
    last = min(99, scale.steps(STEPS))
    for name, title in TITLES.items():
        specs = explorers(scale, name)[OURS]
        arena = finite(specs[0].arena)
        times = [t for t in (1, 11, 22, 33, 44, 55, 66, 77, 88, 99) if t <= last]
        panels = [_exploring_panel(runs[specs[0]], arena, t) for t in times]
        sections[title] = [Strip("φ·Z_t and\nthe path", "reward", panels)]
        seen[name] = np.array([_visited(runs[spec], last, features_of(arena)) for spec in specs])  # [R 3]
    walker = explorers(scale, "clusters")[EXHAUSTIVE]
    walk = [
        _path_panel(runs[walker[0]], finite(walker[0].arena), t) for t in sorted({20, 40, 60, 80, last}) if t <= last
    ]
    sections["The exhaustive explorer"] = [Strip("the path", "feature", walk)]
    regions = mean(seen["clusters"][:, 0] / 9)
    states = {name: mean(rows[:, 1] / 81) for name, rows in seen.items()}
    fresh = {name: mean(rows[:, 2]) for name, rows in seen.items()}
    claims.append(
        Claim(
            "2a",
            "Without a reward the method explores its features well, and does not go to every state.",
            "4.2, figure of exploration",
            f"After {last} steps: {regions:.0%} of the nine regions; {states['clusters']:.0%} (clusters) and "
            f"{states['laplacian']:.0%} (Laplacian) of the 81 states.",
            verdict(regions.low > 0.95 and max(s.high for s in states.values()) < 1, regions.low > 0.8),
            "holds if over 95 % of regions and, surely, not all states are visited",
        )
    )
    claims.append(
        Claim(
            "2b",
            "What it goes for, φ·Z_t, rewards places where it has not been.",
            "4.2, caption of the figure of exploration",
            f"Share of steps on which unvisited states are worth more under Z_t than visited ones: "
            f"{fresh['clusters']:.0%} (clusters), {fresh['laplacian']:.0%} (Laplacian).",
            verdict(min(e.low for e in fresh.values()) > 0.5, max(e.high for e in fresh.values()) > 0.5),
            "holds if that is so on surely more than half of the steps, with both feature sets",
        )
    )
    covered = np.array([_steps_to_cover(runs[spec]) for spec in walker], dtype=float)
    finished = np.isfinite(covered)
    needs = f"{median(covered[finished]):.0f} steps (median of those that did)" if finished.any() else "more steps"
    claims.append(
        Claim(
            "6a",
            "The exhaustive explorer, which goes to the least-visited neighbour, reaches all states.",
            "Appendix C.3, figure of the exhaustive explorer",
            f"{finished.mean():.0%} of {len(walker)} runs have been everywhere after {scale.steps(STEPS)} steps; "
            f"it takes {needs}; 80 would be the least.",
            verdict(bool(finished.all()), bool(finished.mean() > 0.5)),
            "holds if all runs reach all states",
        )
    )
    figure = PanelFigure(
        name="exploration",
        caption=(
            "Pure exploration with the shipped networks, ẑ = 0: behind the path the reward φ·Z_t that the method asks "
            f"the model to go for at that step. Last panel: t = {last}. It wants what it has not seen. Below: the "
            "explorer that walks to the least-visited neighbour, with all states of the world in view."
        ),
        sections=sections,
        alt="Rows of 9×9 maps: a growing path, the background bright where the path has not been yet.",
    )
    text = [
        "With ẑ = 0 only the bonus is left: which z leads through the least-known features? The path wanders from "
        "region to region; corners of a region that was entered are of no interest, since they look the same to φ."
    ]
    return Section(
        "exploration", "Exploring without a reward", text, [figure], claims=claims, command="zscout reproduce"
    )


def _exploring_panel(record: Record, arena: GridArena, t: int) -> Panel:
    ground = arena.ground
    reward = features_of(arena) @ record.steps["z"][t - 1]
    cells = ground.world.cells[walked(record, t)].numpy()
    return Panel(f"t = {t}", ground.world.to_map(reward[None])[0], cells)


def _path_panel(record: Record, arena: GridArena, t: int) -> Panel:
    world = arena.ground.world
    visits = np.zeros(world.n_states)
    np.add.at(visits, walked(record, t).numpy(), 1.0)
    return Panel(f"t = {t}", world.to_map(visits[None])[0], world.cells[walked(record, t)].numpy())


def _visited(record: Record, last: int, features: np.ndarray) -> tuple[float, float, float]:
    """Regions and states visited, and the share of steps on which Z_t likes the unvisited better."""
    entered, z = record.steps["entered"][:last], record.steps["z"][:last]
    seen, better = np.zeros(len(features), dtype=bool), []
    seen[record.steps["state"][0]] = True
    for state, wanted in zip(entered, z, strict=True):
        worth = features @ wanted
        if not seen.all():
            better.append(worth[~seen].mean() > worth[seen].mean())
        seen[state] = True
    regions = float((features[seen] != 0).any(0).sum())
    return regions, float(seen.sum()), float(np.mean(better))


def _steps_to_cover(record: Record) -> float:
    states = np.concatenate([record.steps["state"][:1], record.steps["entered"]])
    _, first = np.unique(states, return_index=True)
    return float(first.max()) if len(first) == 81 else np.inf


# 3: log det


def _tell_log_det(scale: Scale, runs: Runs) -> Section:
    rows, claims = {}, []
    looks = [t for t in LOOKS if t <= scale.steps(STEPS)]
    gaps: dict[str, dict[str, list[Estimate]]] = {"log_det": {}, "log_det_states": {}}
    beats: dict[str, list[Estimate]] = {OURS: [], EXHAUSTIVE: []}
    for name, title in TITLES.items():
        found = explorers(scale, name)
        shown = {label: specs for label, specs in found.items() if label != COUNTS}
        rows[title] = [
            CurvePanel(label, [banded(who, runs.steps(specs, column)) for who, specs in shown.items()])
            for column, label in (("log_det", "log det V⁻¹, features"), ("log_det_states", "log det V⁻¹, state counts"))
        ]
        for column, answers in gaps.items():
            ours, theirs = (runs.steps(found[who], column) for who in (OURS, EXHAUSTIVE))
            bootstrap = Bootstrap(len(ours), 1)
            answers[name] = [bootstrap.difference(ours[:, t - 1 : t], theirs[:, t - 1 : t]) for t in looks]
        for who, found_gaps in beats.items():
            mine, walk = (runs.steps(found[each], "log_det")[:, looks[-1] - 1 : looks[-1]] for each in (who, RANDOM))
            found_gaps.append(Bootstrap(len(mine), 1).difference(mine, walk))
    in_features = [gap for answers in gaps["log_det"].values() for gap in answers]
    in_states = [gap for answers in gaps["log_det_states"].values() for gap in answers]
    claims += [
        Claim(
            "3a",
            "In its own features the method learns as fast as or faster than the exhaustive explorer.",
            "4.2, figure of determinants",
            _gaps(gaps["log_det"], looks),
            verdict(
                all(g.high < MARGIN for g in in_features),
                any(g.high < 0 for g in in_features),
                any(g.low > MARGIN for g in in_features),
            ),
            f"holds if at every look it is surely less than {MARGIN} behind (the margin of non-inferiority); in part "
            "if it is surely faster at some",
        ),
        Claim(
            "3b",
            "In state counts it does not: each explorer is best in its own terms.",
            "4.2, figure of determinants",
            _gaps(gaps["log_det_states"], looks),
            verdict(all(g.low > 0 for g in in_states), any(g.low > 0 for g in in_states)),
            "holds if at every look it is surely behind in state counts",
        ),
        Claim(
            "3c",
            "A random walk is slower than both.",
            "4.2, figure of determinants",
            f"log det V⁻¹ − that of the random walk at t = {looks[-1]}: "
            + "; ".join(f"{who} {a:.1f} (clusters), {b:.1f} (Laplacian)" for who, (a, b) in beats.items())
            + ".",
            verdict(
                all(gap.high < 0 for found in beats.values() for gap in found),
                any(gap.high < 0 for found in beats.values() for gap in found),
            ),
            "holds if both are surely lower, with both feature sets",
        ),
    ]
    figure = CurveFigure(
        name="log-det",
        caption=(
            f"How fast uncertainty shrinks ({scale.runs(SEEDS)} seeds, 95 % bands, λ = 1; lower is better). Left: in "
            "the method's own features. Right: were every state a feature. A nearer horizon in the bonus (γ = .8, "
            "ours) changes little with clusters and much with the Laplacian."
        ),
        rows=rows,
        alt="Falling curves of log det, in features on the left, in state counts on the right, one for each explorer.",
    )
    text = [
        "The determinant of V⁻¹ is the volume of what is still possible. The exhaustive explorer sees every state's "
        "neighbours and visits them all; the method sees only what its features tell it."
    ]
    return Section("log-det", "How fast uncertainty shrinks", text, [figure], claims=claims, command="zscout reproduce")


def _gaps(answers: dict[str, list[Estimate]], looks: Sequence[int]) -> str:
    parts = [
        f"{FEATURES[name]}: " + ", ".join(f"{gap:.1f} at t = {t}" for gap, t in zip(found, looks, strict=True))
        for name, found in answers.items()
    ]
    return f"log det V⁻¹ of ours − of the exhaustive explorer. {'; '.join(parts)}."


# 13: eigenvalues


def _tell_eigenvalues(scale: Scale, runs: Runs) -> Section:
    rows, worst, largest = {}, 0.0, {}
    for name, title in TITLES.items():
        panels, found = [], explorers(scale, name)
        for who in (OURS, EXHAUSTIVE, RANDOM):
            features = features_of(found[who][0].arena)
            values = []
            for spec in found[who]:
                V, _ = posteriors(runs[spec], features)
                values.append(1 / np.linalg.eigvalsh(V)[:, ::-1])  # of V⁻¹, the least first
                if name == "clusters":
                    counts = 1 / (1 + (features[runs[spec].steps["entered"]]).cumsum(0))
                    worst = max(worst, float(np.abs(np.sort(counts, 1) - values[-1][1:]).max()))
            stack = np.stack(values)[:, 1:]  # [R T d]
            curves = [banded(label, stack[:, :, i]) for label, i in (("largest", 8), ("middle", 4), ("least", 0))]
            panels.append(CurvePanel("eigenvalue of V⁻¹", curves, logarithmic=True, title=who))
            largest[name, who] = mean(stack[:, -1, 8])
        rows[title] = panels
    counting = explorers(scale, "clusters")[COUNTS]
    ours = explorers(scale, "clusters")[EXACT]
    looks = [t for t in LOOKS if t <= scale.steps(STEPS)]
    gaps = [
        Bootstrap(len(ours), 1).difference(*(runs.steps(s, "log_det")[:, t - 1 : t] for s in (counting, ours)))
        for t in looks
    ]
    falls = all(largest[name, OURS].high < 0.5 for name in FEATURES)  # it began at 1/λ = 1
    beats = all(largest[name, OURS].high < largest[name, RANDOM].low for name in FEATURES)
    claims = [
        Claim(
            "13a",
            "Exploring shrinks all eigenvalues of V⁻¹, the largest too.",
            "3.3",
            "Largest eigenvalue at the end (1 at the start): "
            + "; ".join(f"{FEATURES[n]} {largest[n, OURS]:.3f}, random walk {largest[n, RANDOM]:.3f}" for n in FEATURES)
            + ".",
            verdict(falls and beats, falls),
            "holds if it surely falls below half and below the random walk's, with both feature sets",
        ),
        Claim(
            "13b",
            "For regions V⁻¹ is diagonal and its eigenvalues are the inverse counts of visits.",
            "3.3",
            f"Largest difference between eigenvalues and 1/(λ + N) over all runs and steps: {worst:.1e}.",
            verdict(worst < 1e-12, worst < 1e-6),
            "holds if they agree to rounding",
            kind="check",
        ),
        Claim(
            "13c",
            "With regions, z_i = 1/N_i is a way to explore.",
            "Appendix C.1",
            "log det V⁻¹ of z = 1/N − of USF-UCB, both with the exact model: "
            + ", ".join(f"{gap:.1f} at t = {t}" for gap, t in zip(gaps, looks, strict=True))
            + ".",
            verdict(
                all(g.high < MARGIN for g in gaps),
                any(g.high < MARGIN for g in gaps),
                any(g.low > MARGIN for g in gaps),
            ),
            f"holds if at every look it is surely less than {MARGIN} behind USF-UCB (the margin of non-inferiority)",
        ),
    ]
    figure = CurveFigure(
        name="eigenvalues",
        caption=(
            "Largest, middle and least eigenvalue of V⁻¹ (95 % bands). A determinant can fall while one direction "
            "stays unknown; under USF-UCB the largest falls with the others, under a random walk it lags."
        ),
        rows=rows,
        alt="Three falling curves a panel on a logarithmic axis; under the random walk the largest stays high longest.",
    )
    text = ["A small volume can still be long in one direction, so the eigenvalues are looked at one by one."]
    return Section(
        "eigenvalues", "Every direction, not only the volume", text, [figure], claims=claims, command="zscout reproduce"
    )


PATHS = Experiment(_specs, _tell_paths)
LOG_DET = Experiment(_specs, _tell_log_det)
EIGENVALUES = Experiment(_specs, _tell_eigenvalues)
