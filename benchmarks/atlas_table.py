"""The table of docs/atlas.md: python -m benchmarks.atlas_table FILE …, of ``benchmarks.atlas`` or lists of them.

Of the same body and kinds of tasks, the last one counts: a later file has a newer model.
"""

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

EPISODES = (1, 2, 3, 5)
HEAD = ["tasks × runs", "episode 1", *map(str, EPISODES[1:]), "worst task, 5"]
DRAWS = 2_000  # of tasks, for the interval


def rows(results: list[dict[str, Any]]) -> list[list[str]]:
    """One row for each body, kind of tasks and entrant: returns ÷ the oracle's, with an interval over tasks."""
    found = []
    for result in results:
        kinds = [kind if kind in ("held-out", "random") else "suite" for kind in result["kinds"]]
        for kind in dict.fromkeys(kinds):
            chosen = torch.tensor([own == kind for own in kinds])
            oracle = torch.tensor(result["oracle"])[chosen]
            for name, returns in result["returns"].items():
                each = torch.tensor(returns, dtype=torch.float64)[..., chosen]  # [episodes seeds tasks]
                shares = [_share(episode.mean(0), oracle) for episode in each]
                last = [shares[k - 1] if k <= len(shares) else "–" for k in EPISODES]
                worst = "–"  # of random rewards the oracle may earn nothing
                if len(each) >= 5 and kind != "random":
                    worst = f"{float((each[4].mean(0) / oracle).min()):.2f}"
                title = f"{result['body']}, {kind}, {len(oracle)}×{each.shape[1]}{name.removeprefix('usf-ucb')}"
                found.append([title, *last, worst.replace("0.", ".", 1)])
    return found


def _share(mean: torch.Tensor, oracle: torch.Tensor) -> str:
    pick = torch.randint(len(oracle), (DRAWS, len(oracle)), generator=torch.Generator().manual_seed(0))
    low, high = torch.quantile(mean[pick].sum(1) / oracle[pick].sum(1), torch.tensor([0.025, 0.975]).double()).tolist()
    text = f"{float(mean.sum() / oracle.sum()):.2f} ({low:.2f}–{high:.2f})"
    return text.replace("0.", ".")


def table(results: list[dict[str, Any]]) -> str:
    """The rows as Markdown."""
    head, *others = ("| " + " | ".join(line) + " |" for line in [HEAD, *rows(results)])
    return "\n".join([head, "|---" * len(HEAD) + "|", *others])


def stored(paths: Iterable[Path]) -> list[dict[str, Any]]:
    """What these files hold."""
    read = [json.loads(path.read_text()) for path in paths]
    every = [result for found in read for result in (found if isinstance(found, list) else [found])]
    return list({(result["body"], *result["kinds"]): result for result in every}.values())


if __name__ == "__main__":
    print(table(stored(map(Path, sys.argv[1:]))))
