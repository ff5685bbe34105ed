"""What README and docs say in tables, from the code and stored results.

    python -m benchmarks.pages

writes docs/methods.md anew, and what is between marks in README.md, docs/bodies.md and docs/transfer.md.
"""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.atlas_table import rows as atlas_rows
from benchmarks.certificate_table import in_words
from zscout.lab.compare.comparison import Outcome, Row, comparison
from zscout.lab.compare.statistics import Estimate
from zscout.lab.compare.stored_results import StoredCell, stored_league, stored_point_maze
from zscout.transfer.methods import METHODS

ROOT = Path(__file__).parents[1]
README, METHOD_PAGE, BODIES = ROOT / "README.md", ROOT / "docs" / "methods.md", ROOT / "docs" / "bodies.md"
TRANSFER = ROOT / "docs" / "transfer.md"
ATLAS, RERUNS, CERTIFICATES = (
    ROOT / "results" / f"2026-11-{name}.json" for name in ("atlas-4", "reruns", "certificates")
)
BEGIN, END = "<!-- results: python -m benchmarks.pages -->", "<!-- end of results -->"
MARKED = re.compile(f"{re.escape(BEGIN)}\n.*?{re.escape(END)}", re.DOTALL)


class About(NamedTuple):
    """What a reader must know of a method besides its first sentence and its settings."""

    formula: str
    when: str


SETTINGS = {
    "ridge": "λ, weight of z_r = 0",
    "kappa": "κ, factor of the radius",
    "gamma": "g, discount of the bonus",
    "prior": "the model's, or ridge: λI",
    "burst": "radius factor in bursts; 1: none",
    "hold": "steps a z is kept",
    "beta": "β, size of the bonus, squared",
    "draws": "rollouts for each step of μ",
    "usf-ucb-paper draws": "fresh z a step (the paper: 10,000); 0: our search",
    "intercept": "fit a constant",
    "scale": "c, factor of bonus or spread",
    "weight": "w, value of log det",
    "radius": "ρ, constant",
    "n": "candidates at each step",
    "power": "p, how fast the bonus fades",
    "arms": "number of different z",
    "horizon": "steps of a rollout",
    "exploration": "c, the factor of UCB1's bonus",
    "std": "spread of z around μ",
    "rate": "Adam's learning rate",
    "steps": "n, steps of exploration",
    "look_ahead": "(states, actions) → next states",
}

METHOD_WORDS = {
    "usf-ucb": About(
        "argmax ψ·ẑ + √β_t·H√((1 − g) tr(V⁻¹M_g)), H = 1/(1 − γ), √β_t = κ√λ·ŝ. ŝ estimates the size of z_r's unseen "
        "entries from the seen ones. Without M the bonus is H(1 − g)‖ψ_g‖_{V⁻¹}, without ψ_g eq. 5's. With an "
        "[atlas](atlas.md#the-default) it is eq. 5 with another radius.",
        "Always, unless you know more: it needs neither σ, nor ‖z_r‖, nor a schedule.",
    ),
    "usf-ucb-norm": About(
        "`usf-ucb` with s_t² = (‖z_r‖² − ‖ẑ‖²)/(d − d_eff + .3), clipped to [.3‖z_r‖/√d, ‖z_r‖/√d], in place of ŝ².",
        "When you know ‖z_r‖ in a grid world. Not in the point maze: named rewards have another norm.",
    ),
    "usf-ucb-paper": About(
        "argmax ψ·ẑ + √β_t‖ψ‖_{V⁻¹} (eq. 5), β_t = β until step 50, then linear to 0 at step 150.",
        "To reproduce the paper, or when you can tune β to the size of the rewards.",
    ),
    "usf-ucb-short": About(
        "argmax ψ·ẑ + c·√β_t‖ψ_g‖_{V⁻¹}, √β_t as in `usf-ucb`.",
        "To separate the effect of the horizon. The model needs `psi_at` at g.",
    ),
    "log-det": About(
        "argmax ψ·ẑ + w·√β_t·log(det(V + M_g)/det V); without M, log(1 + ‖ψ‖²_{V⁻¹}).",
        "When rewards pay in a few patches: it explores more than `usf-ucb`.",
    ),
    "opti": About(
        "argmax over n points of the ellipsoid of radius 2ρ of min over heads (ψ·ẑ + ρ‖ψ‖_{V⁻¹}). The published "
        "sampler uses R⁻ᵀ where V = RᵀR needs R⁻¹; this one is corrected. Forgetting and the gate on rewards are "
        "left out.",
        "As the main baseline (Rupf et al., ICLR 2026). Tune ρ: as published it is for other units.",
    ),
    "opti-shipped": About(
        "`opti` with candidates ẑ + 2ρR⁻ᵀu, as in the published code.",
        "To compare with published code. With one-hot features it equals `opti`.",
    ),
    "optimism": About(
        "n points of the surface ‖z − ẑ‖_V = √β_t. With an exact ψ, eq. 8 and eq. 5 have the same maximum.",
        "To compare eq. 8 with eq. 5: few points come near the maximum.",
    ),
    "thompson": About(
        "z ~ N(ẑ, c²σ̂²V⁻¹), projected to Z. No ψ and no search.",
        "As a baseline, or when ψ is not available.",
    ),
    "greedy": About("", "To see what exploration is worth."),
    "random-z": About("", "To explore without rewards."),
    "mbie": About(
        "z_i = ẑ_i + √β/(N_i + λ)^p. Needs one-hot features, no ψ and no search.",
        "As a baseline with clusters.",
    ),
    "unroll": About(
        "Score of a z: mean return + c·s·√(2 log n/n_i), s the spread of returns.",
        "When T is in the thousands and the world resets to a common start.",
    ),
    "lola": About(
        "N(μ, std²I) over z; one Adam step on μ after `draws` rollouts. μ starts at random; as "
        "published it starts at a z from labels.",
        "As a baseline (Sikchi et al., 2025) when T is in the thousands and the world resets.",
    ),
    "explore-then-commit": About(
        "Actions without a z for t < n, then Z_t = ẑ.",
        "As a baseline. n must be chosen before anything is known.",
    ),
    "oracle": About("", "To see what remains when nothing is unknown. `task` is z_r."),
    "random": About("", "As the unit of lost steps: about one a step."),
    "exhaustive": About(
        "",
        "As a reference for exploration: it knows the transitions.",
    ),
}


def method_page() -> str:
    """docs/methods.md."""
    sections = [_section(name) for name in METHODS]
    pairs = zip(_with_networks("usf-ucb-paper"), _with_networks("usf-ucb"), strict=True)
    after = _AFTER_TABLE.format(*(number for pair in pairs for number in pair))
    return "\n\n".join([_HEAD, league_table(stored_league()), after, *sections]) + "\n"


_HEAD = """# Methods

<!-- Written by python -m benchmarks.pages -->

`METHODS[name](dim=…, **settings)` is a `Method`; `OnlineTransfer(bfm, name)` runs it with its defaults. Terms:
[glossary](glossary.md). To make another: [swap one piece](swap-one-piece.md).

- *Estimate.* V = λI + Σφφᵀ and ẑ = V⁻¹Σφr over the states entered (eq. 3). The z to keep is ẑ projected to Z.
- *Intercept.* `usf-ucb`, `usf-ucb-norm`, `usf-ucb-short` and `log-det` fit r ≈ φ·z + c with c free. The others run as
  published, without an intercept.
- *Candidates.* The default search takes the best of ẑ, the last z and others. In a small world with an exact ψ or a
  `psi_table` the others are a fixed table of random z; else three fixed-point rounds from eight fresh z.
- *Tuning*: [rule](transfer.md#how-methods-are-compared).

Lost steps (95 %) and settled runs on the 9×9 grid with the exact model: 100 tasks × 3 seeds, σ = .3, 200 steps. The
command is `zscout compare --features clusters --methods NAME` (`laplacian`; rows *published*: `--settings default`):"""

_AFTER_TABLE = """\
- The default is level with tuned `opti` and the tuned paper schedule. `usf-ucb-norm` loses fewer steps than tuned
  `opti` on both feature sets, and than the tuned paper schedule on the Laplacian.
- With networks (`--model network`) the tuned paper schedule loses fewer steps than the default on clusters, {} and {}.
  On the Laplacian they are level, {} and {}.
- In the maze no method both settles and loses little. As published, `opti` is far behind on these grids.
- Methods that are not in the table lose 71 steps or more, except the oracle.

All arenas and settings, findings, and every deviation from a source: [log](../results/2026-11-methods.md)."""


def _section(name: str) -> str:
    words = METHOD_WORDS[name]
    lines = [
        [f"`{setting}`", str(default), SETTINGS.get(f"{name} {setting}", SETTINGS[setting])]
        for setting, default in METHODS[name].settings.items()
    ]
    settings = table(["setting", "default", "is"], lines) if lines else "No settings."
    first = METHODS[name].about.splitlines()[0].replace("``", "`").replace("  ", " ")
    where = "--features clusters " if name == "mbie" else ""
    command = f"`zscout compare {where}--methods {name}`"
    when = f"**Use it** {words.when[0].lower()}{words.when[1:]} {command}"
    return "\n\n".join(filter(None, [f"## `{name}`", first, words.formula, when, settings]))


def league_table(league: Sequence[StoredCell]) -> str:
    """With the exact model: methods as ``zscout compare`` runs them, two also as published."""
    cells = [_named(league, f"open-grid, {features}, exact model") for features in ("clusters", "laplacian")]
    chosen = [(name, choice) for name in METHODS if name not in SLOW for choice in _choices(name)]
    lines = [
        [
            f"`{name}`, {'tuned' if choice == 'settling' else choice.split(',')[0]}",
            *(_lost(cell, name, choice) for cell in cells),
        ]
        for name, choice in chosen
    ]
    return table(["lost steps, settled", "clusters", "Laplacian"], lines)


# Those that lose about a step in each step, and those that know the task.
SLOW = ("random-z", "unroll", "lola", "explore-then-commit", "oracle", "random", "exhaustive")


def _choices(name: str) -> list[str]:
    if name in ("usf-ucb", "usf-ucb-norm"):
        return ["default"]
    return ["settling", "published, untuned"] if name in ("usf-ucb-paper", "opti") else ["settling"]


def _named(cells: Sequence[StoredCell], title: str) -> StoredCell:
    (cell,) = (cell for cell in cells if cell.title.startswith(title))
    return cell


def _row(cell: StoredCell, name: str, choice: str) -> Row | None:
    found = (row for row in cell.rows if row.method == name and choice in row.note.split(" and "))
    return next(found, None)


def _lost(cell: StoredCell, name: str, choice: str) -> str:
    row = _row(cell, name, choice)
    if row is None:
        return "–"
    lost = Estimate(*(round(number, 1) + 0.0 for number in (row.lost.value, row.lost.low, row.lost.high)))
    return f"{lost:.1f}, {row.settled.value:.0%}"


def readme_table() -> str:
    """README's results: the default and its strongest rival, each row with its command."""
    exact = [_named(stored_league(), f"open-grid, {features}, exact model") for features in ("clusters", "laplacian")]
    ours, schedule = (
        " / ".join(_lost(cell, *who).rpartition(", ")[0] for cell in exact)
        for who in (("usf-ucb", "default"), ("usf-ucb-paper", "settling"))
    )
    networks, papers = (" / ".join(_with_networks(method)) for method in ("usf-ucb", "usf-ucb-paper"))
    maze, opti = zip(*(_in_point_maze(noise) for noise in ("0", "0.3")), strict=True)
    found = [line for line in atlas_rows(json.loads(ATLAS.read_text())) if ", suite" in line[0]]
    bodies = " / ".join(line[4] for line in found if "noise" not in line[0])  # episode 5
    grid, arena = "zscout compare --methods usf-ucb,usf-ucb-paper --features", "zscout compare --arena point-maze"
    atlas = "python -m benchmarks.atlas --body-name walker --out FILE"
    fresh = f"{arena} --steps 350 --seeds 1 --seed 17 --settings default --methods usf-ucb,opti"
    lines = [
        ["9×9 grid, exact model", ours, f"paper's schedule, tuned: {schedule}", f"`{grid} clusters`"],
        ["9×9 grid, networks", networks, f"paper's schedule, tuned: {papers}", f"`{grid} clusters --model network`"],
        ["point maze", maze[0], f"OpTI, as published: {opti[0]}", f"`{fresh} --noise 0`"],
        ["point maze, noise .3", maze[1], f"OpTI, as published: {opti[1]}; tuned: {tuned_opti()}", f"`{fresh}`"],
        [
            "walker / cheetah / quadruped",
            bodies,
            "OpTI, tuned, with the same atlas: level, on the cheetah with noise ahead",
            f"`{atlas}`",
        ],
    ]
    return table(["", "`usf-ucb`, default", "strongest rival", "command"], lines)


def rerun(name: str) -> dict[str, Row]:
    """The rows, by method, of a comparison in results/2026-11-reruns.json."""
    (found,) = (one for one in json.loads(RERUNS.read_text())["comparisons"] if one["name"] == name)
    return {row.method: row for row in comparison([Outcome.from_json(outcome) for outcome in found["outcomes"]])}


def tuned_opti() -> str:
    """Lost steps of tuned OpTI in the point maze with noise."""
    return f"{rerun('point-maze')['opti'].lost:.0f}"


def _with_networks(method: str) -> list[str]:
    """Lost steps with networks on the 9×9 grid: clusters, Laplacian."""
    return [f"{rerun(features)[method].lost:.1f}" for features in ("clusters", "laplacian")]


def _in_point_maze(noise: str) -> tuple[str, str]:
    cell = _named(stored_point_maze(), f"point-maze, pointmaze-fb, σ = {noise},")
    default, opti = (_row(cell, *who) for who in (("usf-ucb", "default"), ("opti", "published, untuned")))
    assert default is not None
    assert opti is not None
    return f"{default.lost:.0f}", f"{opti.lost:.0f}"


def body_table() -> str:
    """What the models of bodies hold: means over all tasks, of the stored measurements."""
    lines = []
    for name in ("walker", "cheetah", "quadruped"):
        tasks = json.loads((ROOT / "results" / f"2026-11-measures-{name}.json").read_text())["tasks"]
        columns = [
            [task["random_z"] for task in tasks],
            *([task["labels"][n] for task in tasks] for n in ("50", "150", "500")),
            [task["oracle"] for task in tasks],
            [task["ceiling"] for task in tasks],
        ]
        lines.append([f"`{name}-fb`", str(len(tasks)), *(f"{sum(column) / len(column):.0f}" for column in columns)])
    return table(["", "tasks", "random z", "50 labels", "150", "500", "oracle", "best z found"], lines)


def table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    head_line, *others = ("| " + " | ".join(line) + " |" for line in [head, *lines])
    return "\n".join([head_line, "|---" * len(head) + "|", *others])


def marked_tables() -> dict[Path, str]:
    """What must stand between the marks of a page."""
    certificates = in_words(json.loads(CERTIFICATES.read_text()))
    return {README: readme_table(), BODIES: body_table(), TRANSFER: certificates}


if __name__ == "__main__":
    METHOD_PAGE.write_text(method_page())
    for page, found in marked_tables().items():
        before, _, after = MARKED.sub("\0", page.read_text()).partition("\0")
        page.write_text(f"{before}{BEGIN}\n{found}\n{END}{after}")
