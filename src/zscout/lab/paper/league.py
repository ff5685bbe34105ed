"""All methods beside each other: a part run anew, the whole from stored comparisons."""

from zscout.lab.arena import Arena, Tasks
from zscout.lab.compare import Entrant, Outcome, Row, comparison, ranking_cells
from zscout.lab.curves import Interval, IntervalFigure
from zscout.lab.paper.experiment import FEATURES, TITLES, Experiment, Runs, Scale
from zscout.lab.spec import Spec
from zscout.lab.stored import StoredCell, stored_league
from zscout.lab.story import Section, TextTable
from zscout.lab.tuning import settings_named
from zscout.transfer.methods import METHODS

TASKS = 20
OURS = ("usf-ucb", "usf-ucb-norm", "usf-ucb-paper")  # shown as they come, too
SLOW = ("opti", "opti-shipped", "optimism")  # with the exact model 64 to 128 solves a step: in the stored table only
WHOLE = ("unroll", "lola")  # whole rollouts: 200 steps are too few for them


def entrants(scale: Scale, features: str) -> list[Entrant]:
    """The exact model on the 9×9 grid: ours as they come, the others as tuned on other tasks."""
    arena = Arena(features=features)
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
            f"{scale.steps(200)} steps, 95 % intervals; fewer is better). Ours (marked) as they come, the others as "
            "tuned on other tasks. The stored table below has all methods, worlds and models on 100 tasks."
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
        "Every method under one harness: the same tasks, seeds and noise, exact regret, for each method twelve "
        "settings tried on 50 other tasks, with the exact model of the 9×9 grid; networks and the other worlds have "
        "the same settings. A rank of 2–4 means that these data cannot tell it from its neighbours.",
        "The tables of 100 tasks are stored results: they take an hour on sixteen cores. Each says the command that "
        "makes it.",
    ]
    command = "zscout compare --features clusters --methods all --settings tuned --tasks 100 --seeds 3"
    return Section("league", "All methods", text, [figure], tables, command=command)


def _interval(row: Row) -> Interval:
    return Interval(row.method, row.lost.value, row.lost.low, row.lost.high, row.method in OURS)


def _stored_table(cell: StoredCell) -> TextTable:
    caption = f"{cell.title}. Stored; made by `{cell.command}`, rows without settings by `--settings default`."
    return TextTable(f"league-{cell.name}", caption, *ranking_cells(cell.rows))


LEAGUE = Experiment(_specs, _tell)
