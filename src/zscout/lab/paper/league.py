"""Ranking of all methods: some run anew, all from stored comparisons."""

from zscout.lab.arena import Tasks
from zscout.lab.comparison import Entrant, Outcome, Row, comparison, ranking_cells
from zscout.lab.grid_arena import GridArena
from zscout.lab.paper.experiment import FEATURES, TITLES, Experiment, Runs, Scale
from zscout.lab.report_model import Curve, CurveFigure, CurvePanel, Interval, IntervalFigure, Section, TextTable
from zscout.lab.spec import Spec
from zscout.lab.stored_results import StoredCell, stored_league
from zscout.lab.tuning import frontier, settings_named, stored_records
from zscout.transfer.methods import METHODS

TASKS = 20
OURS = ("usf-ucb", "usf-ucb-norm", "usf-ucb-paper")  # with their defaults
DRAWN = ("usf-ucb", "usf-ucb-norm", "usf-ucb-paper", "opti", "thompson")  # whose frontiers are near each other
SLOW = ("opti", "opti-shipped", "optimism")  # with the exact model 64 to 128 solves a step: in the stored table only
WHOLE = ("unroll", "lola")  # whole rollouts: 200 steps are too few for them


def entrants(scale: Scale, features: str) -> list[Entrant]:
    """The exact model on the 9×9 grid: ours with their defaults, the others as tuned on other tasks."""
    arena = GridArena(features=features)
    tuned = settings_named("auto", arena)
    tasks, steps = Tasks(scale.runs(TASKS), 1, "report", scale.seed), scale.steps(200)
    names = [name for name in METHODS if name not in (*SLOW, *WHOLE) and (name != "mbie" or features == "clusters")]
    return [Entrant.of(arena, name, {} if name in OURS else tuned.get(name, {}), tasks, steps=steps) for name in names]


def _specs(scale: Scale) -> list[Spec]:
    return [spec for name in FEATURES for entrant in entrants(scale, name) for spec in entrant.specs]


def _tell(scale: Scale, runs: Runs) -> Section:
    fresh = {
        name: comparison([Outcome.of(entrant, runs.store) for entrant in entrants(scale, name)]) for name in FEATURES
    }
    order = [row.method for row in fresh["clusters"]]
    figure = IntervalFigure(
        name="league",
        caption=(
            f"Lost steps with the exact model on the 9×9 grid, run anew ({scale.runs(TASKS)} tasks, "
            f"{scale.steps(200)} steps, 95 % intervals; fewer is better). Ours (marked) with their defaults, others "
            "tuned on other tasks where there is a record. The stored tables below have more methods and 100 tasks."
        ),
        x_label="lost steps",
        panels={
            TITLES[name]: [_interval(row) for method in order for row in rows if row.method == method]
            for name, rows in fresh.items()
        },
        alt="Lost steps of each method as a dot with its interval, one panel for each feature set.",
    )
    tables = [
        TextTable(f"league-anew-{name}", f"{FEATURES[name]} features, exact model, run anew.", *ranking_cells(rows))
        for name, rows in fresh.items()
    ]
    tables += [_stored_table(cell) for cell in stored_league()]
    text = [
        "Every method under one harness: the same tasks, seeds and noise, exact regret, 16 settings of each method "
        "tried on 250 other tasks in the same arena. A rank of 2–4 means that these data cannot tell it from its "
        "neighbours.",
        "A setting that loses few steps may not settle. The tables have two choices for each method: **fewest** lost "
        "steps, and fewest among the settings that are **settling**, not surely in fewer than 95 % of runs. The "
        "frontier shows all that are not beaten in both.",
        "The tables of 100 tasks are stored results. Each says the command that makes it.",
    ]
    command = "zscout compare --features clusters --methods usf-ucb,opti --tasks 100 --seeds 3"
    return Section("league", "All methods", text, [figure, _frontiers()], tables, command=command)


def _frontiers() -> CurveFigure:
    rows: dict[str, list[CurvePanel]] = {}
    for key, record in stored_records().items():
        world, features, model = key.split("/")
        curves = []
        for method in DRAWN:
            best = frontier(record["tried"].get(method, []))
            if best:
                share = [row["settled"] / row["runs"] for row in best]
                curves.append(Curve(method, [row["lost"] for row in best], share))
        panel = CurvePanel(
            "share of runs that settle",
            curves,
            x_label="lost steps",
            title=f"{features}, {model}",
            levels={"95 %": 0.95},
        )
        rows.setdefault(world, []).append(panel)
    return CurveFigure(
        name="frontier",
        caption=(
            "Tuning, setting by setting: lost steps and the share of runs that settle (250 runs each, stored). A line "
            "joins the settings of a method that no other of its settings beats in both; left and high is better."
        ),
        rows=rows,
        alt="For each arena and method a rising line: settings that lose more steps settle more often.",
    )


def _interval(row: Row) -> Interval:
    return Interval(row.method, row.lost.value, row.lost.low, row.lost.high, row.method in OURS)


def _stored_table(cell: StoredCell) -> TextTable:
    caption = f"{cell.title}. Stored; made by `{cell.command}`, the others with `--settings fewest` or `default`."
    return TextTable(f"league-{cell.name}", caption, *ranking_cells(cell.rows))


LEAGUE = Experiment(_specs, _tell)
