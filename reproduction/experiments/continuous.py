"""Beyond the paper: online transfer in a continuous world, with a learned model of vectors."""

from collections.abc import Mapping, Sequence

import numpy as np

from reproduction.experiment import Experiment, Runs, Scale
from reproduction.report.model import Claim, Curve, CurveFigure, CurvePanel, Section
from reproduction.stored_results import (
    LABEL_COUNTS,
    POINT_MAZE_FILE,
    StoredCell,
    TaskMeasures,
    stored_cells,
    stored_measures,
)
from reproduction.summaries import below, ratio, through, verdict
from zscout.lab.arenas.arena import Tasks
from zscout.lab.arenas.point import PointArena
from zscout.lab.compare.comparison import Entrant, Outcome, Row, comparison
from zscout.lab.compare.tables import TextTable
from zscout.lab.runs.spec import Spec
from zscout.worlds.points.tasks import KINDS

TASKS, STEPS = 12, 140  # two episodes
MARGIN = 0.1  # of the oracle's return
METHODS = ("usf-ucb", "thompson", "greedy")
SHOWN = ("usf-ucb", "opti", "thompson")  # the order of the stored methods in the figure
REWARDS = {"linear": "rewards φ·z_r", "named": "goals, regions, directions, avoid, velocities"}


def _entrants(scale: Scale, rewards: str) -> list[Entrant]:
    tasks = Tasks(scale.runs(TASKS), 1, "report", scale.seed)
    return [Entrant.of(PointArena(rewards=rewards), name, {}, tasks, noise=0.0, steps=STEPS) for name in METHODS]


def _runs(scale: Scale) -> dict[str, list[Spec]]:
    return {kind: [spec for entrant in _entrants(scale, kind) for spec in entrant.specs] for kind in REWARDS}


def _fresh(scale: Scale, runs: Runs) -> tuple[CurveFigure, Claim]:
    """Two episodes of three methods, run for this report."""
    fresh = {
        rewards: comparison([Outcome.of(one, runs.store) for one in _entrants(scale, rewards)]) for rewards in REWARDS
    }
    figure = CurveFigure(
        name="point-maze",
        caption=(
            f"Point maze: return of an episode ÷ the oracle's from the same starts ({scale.runs(TASKS)} tasks, one run "
            "each, no noise, default settings). An episode is 70 steps. The oracle follows z_r (left), or the z fitted "
            "to 50,000 labels (right)."
        ),
        rows={"": [_by_episode(fresh[rewards], "episode", title) for rewards, title in REWARDS.items()]},
        alt="One line for each method: it rises toward the oracle from the first to the second episode.",
    )
    ours = next(row for row in fresh["linear"] if row.method == "usf-ucb").episodes
    claim = Claim(
        "19a",
        "With a learned model of a continuous world, USF-UCB reaches the oracle's return in the second episode.",
        "ours",
        f"Linear rewards, {scale.runs(TASKS)} tasks: return ÷ the oracle's {ours[0]:.2f} in the first episode, "
        f"{ours[1]:.2f} in the second.",
        verdict(scale, below(1 - MARGIN, ours[1]), below(0.75, ours[1])),
        f"holds if the second episode is significantly above {1 - MARGIN:.1f} of the oracle's (non-inferiority); "
        "in part if significantly above .75",
        kind="ours",
    )
    return figure, claim


def _by_episode(rows: Sequence[Row], x_label: str, title: str) -> CurvePanel:
    """Return ÷ the oracle's of each episode, a line for each method."""
    return _panel([through(row.method, range(1, 1 + len(row.episodes)), row.episodes) for row in rows], x_label, title)


def _panel(curves: Sequence[Curve], x_label: str, title: str, logarithmic_x: bool = False) -> CurvePanel:
    levels = {"oracle": 1.0}
    return CurvePanel("return ÷ oracle's", curves, False, x_label, title, levels, logarithmic_x)


def labels_figure(tasks: Sequence[TaskMeasures], cells: Mapping[str, StoredCell]) -> CurveFigure:
    """Return ÷ the oracle's: offline by the number of labels, online by episode; ``cells`` by the title of a panel."""
    oracle = np.array([task.oracle for task in tasks])
    offline = [ratio(np.array([task.labels[n] for task in tasks]), oracle) for n in LABEL_COUNTS]
    curve = through("infer_task, offline", LABEL_COUNTS, offline)
    panels = [_panel([curve], "labels", f"offline, {len(tasks)} tasks", logarithmic_x=True)]
    for title, cell in cells.items():
        order = [row for method in SHOWN for row in cell.rows if row.method == method and not row.settings]
        panels.append(_by_episode(order, "episode (70 labels each)", title))
    runs = max(row.runs for cell in cells.values() for row in cell.rows)
    return CurveFigure(
        name="point-maze-labels",
        caption=(
            "Point maze, named rewards. Left: return of the z fitted to labelled observations ÷ that of the oracle, "
            "the z fitted to 50,000. Right: return of each online episode ÷ the oracle's from the same starts, "
            f"{runs} runs of other tasks with default or published settings. Bands: 95 %."
        ),
        rows={"": panels},
        alt="Offline, the return rises until about 500 labels. Online, it rises from episode to episode.",
    )


def _stored_figure(measured: Mapping[str, Sequence[TaskMeasures]]) -> CurveFigure:
    found = {cell.name: cell for cell in stored_cells(POINT_MAZE_FILE)}
    cells = {f"online, σ = {noise}": found[f"point-maze-{noise}"] for noise in ("0", "0.3")}
    return labels_figure(measured[PointArena.model], cells)


def _tell(scale: Scale, runs: Runs) -> Section:
    text = [
        "The paper's worlds are grids. Here the state is the position and velocity of a point mass between walls, an "
        "action is a force, and the model is a forward-backward network trained on random forces and its own rollouts.",
        "The table has what the model holds, whatever the method. Its zero-shot z gets less than a planner; a search "
        "over z by true returns shows how much of that is the choice of z, and how much the policies lack.",
    ]
    measured = stored_measures()
    tables = [
        TextTable(
            "point-maze-model",
            f"Return ÷ the planner's, {len(next(iter(measured.values())))} tasks, {len(measured)} trained models "
            "(mean, and each). Stored; made by `python -m benchmarks.point_measures --model NAME --out "
            "FILE`.",
            ["tasks", "R² in φ", "random z", "50 labels", "500", "5,000", "50,000 (oracle)", "best z found"],
            [_measured_row(kind, measured) for kind in (*KINDS, "all")],
        )
    ]
    command = (
        f"zscout compare --arena point-maze-linear --noise 0 --steps {STEPS} --tasks {TASKS} --seeds 1 "
        f"--methods {','.join(METHODS)} --settings default"
    )
    labels = _stored_figure(measured)
    figure, claim = _fresh(scale, runs)
    return Section("point-maze", "A continuous world", text, [figure, labels], tables, [claim], command=command)


def _measured_row(kind: str, measured: Mapping[str, Sequence[TaskMeasures]]) -> list[str]:
    models = [[task for task in tasks if kind in ("all", task.kind)] for tasks in measured.values()]
    labels = [[[task.labels[n] for task in tasks] for tasks in models] for n in (50, 500, 5_000, 50_000)]
    columns = [
        [[task.random_z for task in tasks] for tasks in models],
        *labels,
        [[task.ceiling for task in tasks] for tasks in models],
    ]
    planned = [[task.planner for task in tasks] for tasks in models]
    expressed = np.mean([task.expressed for tasks in models for task in tasks])
    return [kind, f"{expressed:.2f}", *[_shares(column, planned) for column in columns]]


def _shares(found: Sequence[Sequence[float]], planned: Sequence[Sequence[float]]) -> str:
    """Mean return ÷ the planner's: over all models, and for each."""
    each = [ratio(np.array(own), np.array(plan)).value for own, plan in zip(found, planned, strict=True)]
    return f"{np.mean(each):.2f} ({', '.join(f'{share:.2f}' for share in each)})"


CONTINUOUS = Experiment(_tell, _runs)
