"""The table of docs/atlas.md from stored returns: python -m benchmarks.atlas_table results/2026-11-atlas-2.json."""

import json
import sys
from pathlib import Path
from typing import Any

import torch

HEAD = ["", "tasks", "runs", "episode 1", "2", "3", "5", "worst task, 5"]
DRAWS = 2_000  # of tasks, for the interval


def rows(results: list[dict[str, Any]]) -> list[list[str]]:
    """One row for each body, kind of tasks and entrant: returns ÷ the oracle's, with an interval over tasks."""
    found = []
    for result in results:
        for held_out in (False, True):
            chosen = torch.tensor([(kind == "held-out") == held_out for kind in result["kinds"]])
            oracle = torch.tensor(result["oracle"])[chosen]
            kind = "held-out" if held_out else "suite"
            for name, returns in result["returns"].items():
                each = torch.tensor(returns, dtype=torch.float64)[..., chosen]  # [episodes seeds tasks]
                shares = [_share(episode.mean(0), oracle) for episode in each]
                last = [shares[k] if k < len(shares) else "–" for k in (0, 1, 2, 4)]
                worst = f"{float((each[4].mean(0) / oracle).min()):.2f}" if len(each) > 4 else "–"
                title = f"{result['body']}, {kind}: {name}"
                found.append([title, str(len(oracle)), str(each.shape[1]), *last, worst.replace("0.", ".", 1)])
    return found


def _share(mean: torch.Tensor, oracle: torch.Tensor) -> str:
    pick = torch.randint(len(oracle), (DRAWS, len(oracle)), generator=torch.Generator().manual_seed(0))
    low, high = torch.quantile(mean[pick].sum(1) / oracle[pick].sum(1), torch.tensor([0.025, 0.975]).double()).tolist()
    text = f"{float(mean.sum() / oracle.sum()):.2f} ({low:.2f}–{high:.2f})"
    return text.replace("0.", ".")


def table(results: list[dict[str, Any]]) -> str:
    """The rows as Markdown."""
    lines = [HEAD, ["---"] * len(HEAD), *rows(results)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


if __name__ == "__main__":
    print(table(json.loads(Path(sys.argv[1]).read_text())))
