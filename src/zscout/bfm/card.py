"""Model cards: architecture, training, and quality measured against the exact model."""

from typing import Any

from zscout.bfm.usfa import USFAConfig


def model_card(config: USFAConfig, about: dict[str, Any]) -> str:
    """Markdown with the front matter that model hubs read."""
    lines = [
        "---",
        "library_name: zscout",
        "license: mit",
        "tags: [reinforcement-learning, successor-features, behavioral-foundation-model]",
        "---",
        "",
        f"# {about.get('name', 'A USFA')}",
        "",
        f"Universal successor features ψ(s,a;z) for {config.n_states} states, {config.n_actions} actions and "
        f"d = {config.dim} features, γ = {config.gamma:g}: {config.heads} network{'s' if config.heads > 1 else ''} of "
        f"{config.layers} hidden layers of {config.hidden}"
        + (", and an actor of the same shape." if config.actor else "; the policy is greedy in ψ·z."),
        "",
        "```python",
        "import zscout",
        "",
        f'model = zscout.load("{about.get("name", "")}")  # or the path of this folder',
        "```",
    ]
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
    if command := about.get("command"):
        lines += ["", "Made with", "", "```bash", str(command), "```"]
    facts = {key: about[key] for key in ("world", "features", "recipe", "seed", "data", "version") if key in about}
    lines += ["", *[f"- {key}: {value}" for key, value in facts.items()]]
    return "\n".join(lines).rstrip() + "\n"
