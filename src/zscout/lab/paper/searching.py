"""Which search over z reaches what, and what it costs."""

from zscout.lab.arena import Arena
from zscout.lab.paper.experiment import FEATURES, Experiment, Runs, Scale, no_specs
from zscout.lab.searches import compare_searches
from zscout.lab.story import Section, TextTable

PROBLEMS = {"network": 10, "exact": 3}  # 10,000 fresh z take the exact model a while


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
        "These problems are small. `docs/speed.md` has the speed of each search beside a plain reference, on problems "
        "of real runs, measured by `zscout bench` from a checkout.",
    ]
    return Section("searches", "Searching for z", text, (), tables, command="zscout reproduce")


SEARCHES = Experiment(no_specs, _tell)
