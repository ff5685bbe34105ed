"""Model cards: architecture, training, and quality measured against the exact model."""

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zscout.models.fb.model import FBConfig
    from zscout.models.usfa.model import USFAConfig

LICENSE = re.compile(r"[a-z0-9][a-z0-9.+-]*")


def usfa_card(config: "USFAConfig", about: dict[str, Any]) -> str:
    """Markdown with the front matter that model hubs read."""
    text = (
        f"Universal successor features ψ(s,a;z) for {config.n_states} states, {config.n_actions} actions and "
        f"d = {config.dim} features, γ = {config.gamma:g}: {config.heads} network{'s' if config.heads > 1 else ''} of "
        f"{config.layers} hidden layers of {config.hidden}"
        + (", and an actor of the same shape." if config.actor else "; the policy is greedy in ψ·z.")
    )
    lines = _opening("A USFA", text, about)
    if verdict := about.get("verdict"):
        lines += [
            "",
            "Measured against the exact model on held-out z:",
            "",
            "| | |",
            "|---|---|",
            f"| normalised value (0 random walk, 1 optimal), mean over {verdict['tasks']} z | {verdict['value']:.4f} |",
            f"| its 5th percentile over z | {verdict['value_p5']:.4f} |",
            f"| relative error of ψ for its own policy | {verdict['psi_error']:.4f} |",
        ]
        if "moment_error" in verdict:
            lines.append(f"| the same of M at γ = {config.moment_gamma:g} | {verdict['moment_error']:.3f} |")
    return _closed(lines, about)


def fb_card(config: "FBConfig", about: dict[str, Any]) -> str:
    """The same for a forward-backward model."""
    text = (
        "A forward-backward representation (Touati and Ollivier 2021): F(s,a,z), B(s) and an actor π(s,z) for "
        f"{len(config.observation_low)} observed numbers, {config.actions} continuous actions and d = {config.dim} "
        f"features, γ = {config.gamma:g}: {config.heads} F networks of {config.layers} hidden layers of "
        f"{config.hidden}. φ and ψ are centred and whitened with the moments in the file."
    )
    lines = _opening("An FB model", text, about)
    verdict = about.get("verdict", {})
    if "returns" in verdict:
        lines += [
            "",
            f"Zero-shot returns of {verdict['horizon']:,} control steps, mean of {verdict['episodes']} episodes, with "
            "z from labelled observations, and the R² of the reward in φ:",
            "",
            "| task | return | R² |",
            "|---|---|---|",
            *[f"| {task} | {r:.0f} | {verdict['expressed'][task]:.2f} |" for task, r in verdict["returns"].items()],
        ]
    elif "kinds" in verdict:
        lines += [
            "",
            f"Zero-shot return ÷ the planner's over {verdict['tasks']} tasks, from uniform starts, with z from "
            "labelled observations:",
            "",
            "| tasks | ÷ planner |",
            "|---|---|",
            *[f"| {kind} | {value:.3f} |" for kind, value in verdict["kinds"].items()],
            f"| all | {verdict['value']:.3f} |",
            "",
            f"Relative error of ψ for its own policies, by rollouts: {verdict['psi_error']:.2f}.",
        ]
    if data := verdict.get("data"):
        lines += [
            "",
            f"Errors on {data['transitions']:,} transitions of trajectories that training did not see, and on training "
            "data; they say nothing of its returns:",
            "",
            "| | held out | training |",
            "|---|---|---|",
            f"| relative Bellman error of ψ (1: ψ = 0) | {data['held_out_bellman']:.3f} | {data['bellman']:.3f} |",
            f"| ‖Cov(φ) − I‖ ÷ √d | {data['held_out_orthonormality']:.3f} | {data['orthonormality']:.3f} |",
        ]
    return _closed(lines, about)


def _opening(kind: str, text: str, about: dict[str, Any]) -> list[str]:
    name, license = about.get("name", ""), about.get("license")
    if license is not None and not (isinstance(license, str) and LICENSE.fullmatch(license)):
        raise ValueError(f"license must be the Hub's name of one, such as mit or cc-by-4.0, got {license!r}")
    return [
        "---",
        "library_name: zscout",
        *([] if license is None else [f"license: {license}"]),
        "pipeline_tag: reinforcement-learning",
        "tags: [reinforcement-learning, successor-features, behavioral-foundation-model]",
        "---",
        "",
        f"# {name or kind}",
        "",
        text,
        "",
        "```python",
        "import zscout",
        "",
        f'model = zscout.load("hf://OWNER/{name or "NAME"}")  # or the path of this folder',
        "```",
    ]


def _closed(lines: list[str], about: dict[str, Any]) -> str:
    made = {"": "Made with", "moment_": "M was added with", "atlas_": "Its atlas was made with"}
    for part, words in made.items():
        if command := about.get(f"{part}command"):
            lines += ["", words, "", "```bash", str(command), "```"]
    keys = ("world", "repeat", "features", "recipe", "seed", "data", "updates", "version")
    facts = {key: about[key] for key in keys if key in about}
    lines += ["", *[f"- {key}: {value}" for key, value in facts.items()]]
    return "\n".join(lines).rstrip() + "\n"
