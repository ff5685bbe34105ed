"""zscout compare --suite: the default against tuned rivals in a fixed list of arenas, and one score."""

from dataclasses import fields
from typing import TYPE_CHECKING

from rich.console import Console

from zscout.cli.parts.options import CompareOptions, usage_errors
from zscout.cli.parts.output import UsageError, say, writable
from zscout.cli.parts.progress import outcomes_with_bar

if TYPE_CHECKING:
    from zscout.lab.compare.comparison import Entrant
    from zscout.lab.compare.suite import Place

APPLY = ("suite", "out", "jobs", "runner", "address", "seed", "quick", "json", "csv", "markdown")


def compare_suite(command: CompareOptions, console: Console) -> None:
    """Run what is not stored yet, print one row for each arena and the score."""
    from zscout.lab.compare.suite import Score, cells_to_json
    from zscout.report.tables import terminal_table, to_csv

    with usage_errors():
        writable(command.json, command.csv, command.markdown)
        _check_options(command)
        workers = command.executor()
        entrants = _entrants(command, console)
    everyone = [one for of_place in entrants.values() for one in of_place]
    with workers as executor:
        outcomes = outcomes_with_bar(everyone, command.out, executor, console)
    cells = [place.cell(outcomes[one] for one in of_place) for place, of_place in entrants.items()]
    with usage_errors():
        score = Score.of(cells)
    console.print(terminal_table(score.table))
    untuned = [where.name for where in score.standings if not where.tuned]
    if untuned:
        say(console, f"No stored settings, so rivals run as published: {', '.join(untuned)}")
    content = {"score": score.to_json(), "cells": cells_to_json(cells)}
    command.write(console, [score.table], content, to_csv(score.table))


def _check_options(command: CompareOptions) -> None:
    """Raise if an option has no effect: the suite decides arenas, methods, steps and tasks."""
    for field in fields(command):
        if field.name not in APPLY and getattr(command, field.name) != field.default:
            raise UsageError(f"--{field.name.replace('_', '-')} does not apply to --suite, whose arenas are fixed")


def _entrants(command: CompareOptions, console: Console) -> "dict[Place, list[Entrant]]":
    """Those that can run, by arena; an arena that needs an extra that is not installed is left out."""
    from zscout.lab.compare.suite import PLACES

    found: dict[Place, list[Entrant]] = {}
    for place in PLACES:
        try:
            entrants = place.entrants(command.quick, command.seed)
            entrants[0].check()
        except ModuleNotFoundError as error:
            say(console, f"left out: {place.name} ({error})")
            continue
        found[place] = entrants
    return found
