"""Compare with the record, or make parts of it anew: ``python -m tests.golden --help``."""

import argparse
import json
import sys
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import numpy as np
import torch

from .cases import CASES, Case, arena_of
from .play import Played, size
from .record import FLIP, MOST_OPEN, NUDGE, TOLERANCES, compare, entries, known, make, opened, save

ABOUT = """Compare the agents' decisions with the record, exit code 1 if they differ.

  python -m tests.golden                          all of it
  python -m tests.golden 'walker-*/opti*'         some cases
  python -m tests.golden 'maze-*' --make          make these anew, say what changed
  python -m tests.golden 'maze-*/opti' --another  make it anew with another feed: too many answers were open
  python -m tests.golden '*/opti-s*' --drop       delete these from the record
  python -m tests.golden --numbers here.npz       write the numbers, too
  python -m tests.golden --machines a.npz b.npz   store the tolerances that two kinds of processor need
"""


def remake(cases: list[Case], another: bool = False) -> int:
    """Make the cases anew, with another feed if wanted; say what the record had otherwise."""
    for number, case in enumerate(cases, 1):
        differs, before = compare(case).differs, known(case) or {}
        entry = entries(case.arena)[str(case)] = make(case, int(before.get("seed", 0)) + another)
        if entry["seed"] == before.get("seed"):  # what another machine answered otherwise stays open
            entry |= {name: x | entry.get(name, False) for name, x in before.items() if name.startswith("open.")}
        print(f"{case}: {', '.join(differs[:3]) or 'as before'}; open {opened(entry):.1%}", flush=True)
        if number == len(cases) or cases[number].arena != case.arena:
            save(case.arena)
    return 0


def drop(patterns: list[str]) -> int:
    """Delete entries, also those of methods that are gone."""
    for arena in {path.stem for path in TOLERANCES.parent.glob("*.npz")}:
        found = entries(arena)
        for name in [name for name in found if any(fnmatch(name, one) for one in patterns)]:
            print(f"{name}: dropped")
            del found[name]
        save(arena)
    return 0


def held(cases: list[Case], numbers: Path | None) -> int:
    """Compare; write the numbers."""
    played: dict[Case, Played] = {}
    for case in cases:
        played[case] = compare(case)
        for line in played[case].differs[:3]:
            print(f"{case}: {line}", flush=True)
    if numbers is not None:
        arrays: dict[str, Any] = {f"{c}:{name}": x for c, one in played.items() for name, x in one.rows.items()}
        np.savez_compressed(numbers, **arrays)
    wrong = sum(bool(one.differs) for one in played.values())
    print(f"{len(played) - wrong} of {len(played)} cases are as recorded")
    return 1 if wrong else 0


def machines(one: Path, other: Path) -> int:
    """Store ten times the largest difference of networks; what jumps is a near tie, and open from now on."""
    largest: dict[str, float] = dict.fromkeys(NUDGE, 0.0)
    with np.load(one) as ours, np.load(other) as theirs:
        for case in CASES:
            entry, kind, jumps = known(case) or {}, arena_of(case.arena).kind, 0
            for key in [key for key in ours if key.startswith(f"{case}:") and key in theirs]:
                name = key.rpartition(":")[2]
                apart = np.abs(np.nan_to_num(ours[key] - theirs[key])).max(-1) / max(size(ours[key]), 1e-300)
                mask = entry.get(f"open.{name}", np.zeros(apart.shape, dtype=bool))
                jumped = (apart > FLIP * NUDGE[kind]) & ~mask
                largest[kind] = max(largest[kind], float(apart[~mask & ~jumped].max(initial=0)))
                if jumped.any():
                    entry[f"open.{name}"], jumps = mask | jumped, jumps + int(jumped.sum())
            if jumps:
                print(f"{case}: {jumps} near ties; open {opened(entry):.1%}, at most {MOST_OPEN:.0%} may be")
                save(case.arena)
    found = {kind: 1e-9 if kind == "exact" else float(f"{10 * value:.1g}") for kind, value in largest.items()}
    TOLERANCES.write_text(json.dumps(found | {"from": "ten times the largest difference of two machines"}) + "\n")
    print(f"largest differences: {largest}; tolerances: {found}")
    return 0


def main() -> int:
    """Run the command."""
    torch.set_num_threads(1)
    parser = argparse.ArgumentParser(description=ABOUT, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", default=["*"], help="patterns of names; default: all")
    for flag in ("--make", "--another", "--drop"):
        parser.add_argument(flag, action="store_true")
    parser.add_argument("--numbers", type=Path, metavar="FILE")
    parser.add_argument("--machines", type=Path, nargs=2, metavar="FILE")
    args = parser.parse_args()
    cases = [case for case in CASES if any(fnmatch(str(case), one) for one in args.cases)]
    if args.machines:
        return machines(*args.machines)
    if args.drop:
        return drop(args.cases)
    if not cases:
        parser.error(f"no case is named {' or '.join(args.cases)}, such as {CASES[0]}")
    return remake(cases, args.another) if args.make or args.another else held(cases, args.numbers)


if __name__ == "__main__":
    sys.exit(main())
