"""Which search over z reaches what, beside what it costs."""

from zscout.lab.arena import Arena
from zscout.lab.paper.experiment import Experiment, Runs, Scale, no_specs
from zscout.lab.searches import compare_searches
from zscout.lab.story import Section, TextTable

PROBLEMS = {"network": 10, "exact": 3}  # 10,000 fresh z take the exact model a second


def _tell(scale: Scale, runs: Runs) -> Section:
    rows = [
        row
        for model, problems in list(PROBLEMS.items())[: 1 if scale.quick else 2]
        for features in ("clusters", "laplacian")
        for row in compare_searches(Arena(features=features, model=model), scale.runs(problems), scale.seed)
    ]
    reached = [[row.model, row.search, f"{row.share:.3f}", f"{row.true_share:.3f}"] for row in rows]
    cost = [[row.model, row.search, f"{row.milliseconds:.2f}"] for row in rows]
    tables = [
        TextTable(
            "searches",
            "Share of the best known ‖ψ‖ in V⁻¹, pure exploration, a few problems each; zscout bench takes 30.",
            ["model", "search", "by the model's ψ", "by the true ψ"],
            reached,
        ),
        TextTable(
            "search-times", "Milliseconds for one recommendation (median).", ["model", "search", "ms"], cost, timed=True
        ),
    ]
    text = [
        "By a network's own ψ the best of 10,000 random z is best; by the true ψ of the policies chosen it is not: "
        "the more candidates, the more over-rated the winner. With an exact ψ a bank of 1,000 z, tabulated once, is "
        "as good as 10,000 fresh ones."
    ]
    return Section("searches", "Searching for z", text, tables=tables, command="zscout bench")


SEARCHES = Experiment(no_specs, _tell)
