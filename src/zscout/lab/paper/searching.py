"""Which search over z reaches what, beside what it costs; and how fast everything is."""

from zscout.lab.arena import Arena
from zscout.lab.bench.groups import chosen
from zscout.lab.bench.measurement import Line
from zscout.lab.bench.pictures import speed_figure
from zscout.lab.bench.setting import Setting
from zscout.lab.bench.telling import speed_table
from zscout.lab.paper.experiment import FEATURES, Experiment, Runs, Scale, no_specs
from zscout.lab.searches import compare_searches
from zscout.lab.story import Section, TextTable

PROBLEMS = {"network": 10, "exact": 3}  # 10,000 fresh z take the exact model a while
SPEED = ("live", "many", "end-to-end", "solving")


def _tell(scale: Scale, runs: Runs) -> Section:
    rows = [
        row
        for model, problems in list(PROBLEMS.items())[: 1 if scale.quick else 2]
        for features in FEATURES
        for row in compare_searches(Arena(features=features, model=model), scale.runs(problems), scale.seed)
    ]
    reached = [[row.model, row.search, f"{row.share:.3f}", f"{row.true_share:.3f}"] for row in rows]
    cost = [[row.model, row.search, f"{row.milliseconds:.2f}"] for row in rows]
    tables = [
        TextTable(
            "searches",
            "Share of the best known ‖ψ‖ in V⁻¹, pure exploration, a few problems each.",
            ["model", "search", "by the model's ψ", "by the true ψ"],
            reached,
        ),
        TextTable(
            "search-times", "Milliseconds for one recommendation (median).", ["model", "search", "ms"], cost, timed=True
        ),
    ]
    text = [
        "How good is a search, and by whose account? A learned ψ over-rates some z, and the best of very many is "
        "the most over-rated: the left column is what the model believes, the right one what the policies chosen "
        "are worth. With an exact ψ the two are the same, and a bank of 1,000 z, tabulated once, serves all steps.",
        "Speed is told beside a plain reference in the same run, and only what is worth as much by the model's own ψ "
        "counts. Here problems are small; zscout bench also has tables of 10,000 z, with which a network's "
        "recommendations reach as much as those of 10,000 fresh ones.",
    ]
    lines = [] if scale.quick else _speed(scale)
    if lines:
        tables.append(speed_table(lines))
    figure = speed_figure(lines)
    figures = () if figure is None else (figure,)
    return Section("searches", "Searching for z, and speed", text, figures, tables, command="zscout bench")


def _speed(scale: Scale) -> list[Line]:
    """Small problems and few repeats; the command beside the section takes its time."""
    setting = Setting(scale.seed, quick=True)
    return [line for group in chosen(SPEED).values() for line in group.lines(setting)]


SEARCHES = Experiment(no_specs, _tell)
