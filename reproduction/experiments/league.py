"""Ranking of all methods: a fresh comparison of some, stored comparisons of all."""

from reproduction.experiment import FEATURES, TITLES, Experiment, Runs, Scale
from reproduction.report.model import Curve, CurveFigure, CurvePanel, Interval, IntervalFigure, Section
from reproduction.stored_results import LEAGUE_FILE, stored_cells
from reproduction.variants import ALTERNATIVES
from zscout.lab.arenas.arena import Tasks
from zscout.lab.arenas.grid import GridArena
from zscout.lab.compare.comparison import Entrant, Outcome, comparison, ranking_table
from zscout.lab.compare.tuning import frontier, settings_named, stored_records
from zscout.lab.runs.spec import Spec

TASKS = 20
OURS = ("usf-ucb", "usf-ucb-norm", "usf-ucb-paper")  # with their defaults
DRAWN = (*OURS, "opti", "thompson")  # whose frontiers are near each other
NAMES = (  # in the stored table only: with the exact model OpTI solves 128 z a step, 200 steps are too few for rollouts
    *OURS,
    *("usf-ucb-short", "log-det", "thompson", "greedy", "random-z", "mbie", "explore-then-commit"),
    *("oracle", "random", "exhaustive"),
)


def entrants(scale: Scale, features: str) -> list[Entrant]:
    """The exact model on the 9×9 grid: our methods with their defaults, others tuned on separate tasks."""
    arena = GridArena(features=features)
    tuned = settings_named("auto", arena)
    tasks, steps = Tasks(scale.runs(TASKS), 1, "report", scale.seed), scale.steps(200)
    found = []
    for name in NAMES:
        settings = {} if name in OURS else tuned.get(name, {})
        method = ALTERNATIVES[name](dim=arena.bfm.dim, **settings) if name in ALTERNATIVES else name
        if name != "mbie" or features == "clusters":
            found.append(Entrant.of(arena, method, settings, tasks, name, steps=steps))
    return found


def _runs(scale: Scale) -> dict[str, list[Spec]]:
    return {name: [spec for entrant in entrants(scale, name) for spec in entrant.specs] for name in FEATURES}


def _tell(scale: Scale, runs: Runs) -> Section:
    fresh = {name: comparison([Outcome.of(one, runs.store) for one in entrants(scale, name)]) for name in FEATURES}
    order = [row.method for row in fresh["clusters"]]
    figure = IntervalFigure(
        name="league",
        caption=(
            f"Lost steps with the exact model on the 9×9 grid, run for this report ({scale.runs(TASKS)} tasks, "
            f"{scale.steps(200)} steps, 95 % intervals; fewer is better). Ours (marked) with their defaults, others "
            "tuned on separate tasks if recorded. The stored tables below have more methods and 100 tasks."
        ),
        x_label="lost steps",
        panels={
            TITLES[name]: [
                Interval(method, row.lost.value, row.lost.low, row.lost.high, method in OURS)
                for method in order
                for row in rows
                if row.method == method
            ]
            for name, rows in fresh.items()
        },
        alt="Lost steps of each method as a dot with its interval, one panel for each feature set.",
    )
    captions = {name: f"{written} features, exact model, run for this report." for name, written in FEATURES.items()}
    tables = [ranking_table(f"league-anew-{name}", captions[name], rows) for name, rows in fresh.items()]
    for cell in stored_cells(LEAGUE_FILE):
        caption = f"{cell.title}. Stored; made by `{cell.command}`."
        tables.append(ranking_table(f"league-{cell.name}", caption, cell.rows))
    text = [
        "All methods get the same tasks, seeds and noise; regret is exact; settings were chosen on other tasks of the "
        "same arena. A rank of 2–4 means that the data do not separate the method from its neighbours.",
        "A setting that loses few steps may not settle. The tables have two choices for each method: **fewest** lost "
        "steps, and fewest among the settings that are **settling**: the share of settled runs is not significantly "
        "below 95 %. The frontier shows all settings that no other beats in both.",
        "The tables of 100 tasks are stored results of one league, on tasks that no choice has seen.",
    ]
    command = "zscout compare --features clusters --methods usf-ucb,opti --tasks 100 --seeds 3"
    return Section("league", "All methods", text, [figure, _frontiers()], tables, command=command)


def _frontiers() -> CurveFigure:
    rows: dict[str, list[CurvePanel]] = {}
    for key, record in stored_records().items():
        world, features, model = key.split("/")
        fronts = {method: frontier(record["tried"].get(method, [])) for method in DRAWN}
        curves = [
            Curve(method, [row["lost"] for row in best], [row["settled"] / row["runs"] for row in best])
            for method, best in fronts.items()
            if best
        ]
        rows.setdefault(world, []).append(
            CurvePanel("share of runs that settle", curves, False, "lost steps", f"{features}, {model}", {"95 %": 0.95})
        )
    caption = (
        "Tuning, setting by setting: lost steps and the share of runs that settle (250 runs each, stored). A line "
        "joins the settings of a method that no other of its settings beats in both; left and high is better."
    )
    alt = "For each arena and method a rising line: settings that lose more steps settle more often."
    return CurveFigure("frontier", caption, rows, alt)


LEAGUE = Experiment(_tell, _runs)
