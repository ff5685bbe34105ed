"""The table of docs/atlas.md: python -m benchmarks.atlas_table FILE …, of ``benchmarks.atlas`` or lists of them.

Of the same body and kinds of tasks, the last one counts: a later file has a newer model. ``--rivals``: rivals beside
the default. A cell has the returns ÷ the oracle's in episodes 1 to 3, summed over all tasks of the body, and the
default's return ÷ the rival's over these episodes with an interval over tasks, widened for the number of rivals
(Bonferroni).
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
import tyro
from torch import Tensor

EPISODES = (1, 2, 3, 5)
HEAD = ["tasks × runs", "episode 1", *map(str, EPISODES[1:]), "worst task, 5"]
DRAWS = 2_000  # of tasks, for the interval
FIRST, RIVAL_DRAWS, LEVEL = 3, 10_000, 0.95  # of the rivals
FAMILIES = (  # first word, our regression, atlas
    ("opti-shipped", False, False),
    ("opti", False, False),
    ("opti", True, False),
    ("opti", False, True),
    ("opti", True, True),
    ("thompson, scale .01", False, False),
    ("thompson", False, False),
    ("thompson", True, False),
    ("thompson", False, True),
    ("thompson", True, True),
    ("greedy", True, True),
)
WORDS = {
    "opti-shipped": "OpTI, its authors' code",
    "opti": "OpTI, tuned",
    "thompson, scale .01": "Thompson, σ .01",
    "thompson": "Thompson, tuned",
    "greedy": "greedy",
}


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


def _share(mean: Tensor, oracle: Tensor) -> str:
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


def rivals_table(results: list[dict[str, Any]]) -> str:
    """Markdown: a row for each rival that played, a column for each body and noise."""
    columns = [(result, noisy) for result in results for noisy in (False, True)]
    head = ["", *(result["body"] + (", noise .3" if noisy else "") for result, noisy in columns)]
    rows = [["`usf-ucb`, atlas", *(_shares(result, _returns(result, "usf-ucb", noisy)) for result, noisy in columns)]]
    for start, regression, atlas in FAMILIES:
        title = WORDS[start] + ", our regression" * regression + ", atlas" * atlas
        names = [_named(result, start, regression, atlas, noisy) for result, noisy in columns]
        if not any(names):
            continue
        cells = [_cell(result, name, noisy) for name, (result, noisy) in zip(names, columns, strict=True)]
        rows.append([title, *cells])
    lines = ["| " + " | ".join(line) + " |" for line in [head, *rows]]
    return "\n".join([lines[0], "|---" * len(head) + "|", *lines[1:]])


def with_same_atlas(result: dict[str, Any]) -> str:
    """The default's return ÷ that of tuned OpTI with the same atlas, without noise."""
    return _ratio(result, _named(result, "opti", regression=False, atlas=True, noisy=False), noisy=False)


def _cell(result: dict[str, Any], name: str, noisy: bool) -> str:
    return f"{_shares(result, _returns(result, name, noisy))}; {_ratio(result, name, noisy)}" if name else "–"


def _named(result: dict[str, Any], start: str, regression: bool, atlas: bool, noisy: bool) -> str:
    """The entrant of a family; empty if it did not play."""
    names: list[str] = list(result["returns"])
    for name in names:
        plain = name.removesuffix(", noise .3")
        same = plain == start if start in ("opti-shipped", "thompson, scale .01") else plain.startswith(f"{start}, ")
        other = start == "thompson" and plain == "thompson, scale .01"
        traits = "our regression" in name, "atlas" in name, name.endswith("noise .3")
        if same and not other and traits == (regression, atlas, noisy):
            return plain
    return ""


def _returns(result: dict[str, Any], name: str, noisy: bool) -> Tensor:
    """The mean returns of an entrant, [episodes tasks]."""
    return torch.tensor(result["returns"][name + ", noise .3" * noisy], dtype=torch.float64)[:FIRST].mean(1)


def _shares(result: dict[str, Any], returns: Tensor) -> str:
    return " ".join(_short(float(share)) for share in returns.sum(1) / sum(result["oracle"]))


def _ratio(result: dict[str, Any], name: str, noisy: bool) -> str:
    """The default's return ÷ the rival's, summed over episodes and tasks."""
    own, rival = (_returns(result, one, noisy).sum(0) for one in ("usf-ucb", name))
    pick = torch.randint(len(own), (RIVAL_DRAWS, len(own)), generator=torch.Generator().manual_seed(0))
    tail = (1 - LEVEL) / 2 / len(FAMILIES)
    low, high = torch.quantile(own[pick].sum(1) / rival[pick].sum(1), torch.tensor([tail, 1 - tail]).double()).tolist()
    return f"{_short(float(own.sum() / rival.sum()))} ({_short(low)}–{_short(high)})"


def _short(number: float) -> str:
    return f"{number:.2f}".removeprefix("0") if number < 1 else f"{number:.2f}"


def main(files: tyro.conf.Positional[tuple[Path, ...]], rivals: bool = False) -> None:
    """Print a table of stored returns, or of the rivals in them."""
    print((rivals_table if rivals else table)(stored(files)))


if __name__ == "__main__":
    tyro.cli(main)
