"""Every figure and claim of the paper: specs that are run, and the story that their records tell."""

from collections.abc import Iterator
from dataclasses import replace
from typing import get_args

import zscout
from zscout.lab.paper.bounding import LEMMA, OPTIMISM, POTENTIAL
from zscout.lab.paper.climbing import GRADIENT
from zscout.lab.paper.end_to_end import END_TO_END
from zscout.lab.paper.experiment import Experiment, Runs, Scale
from zscout.lab.paper.exploring import EIGENVALUES, LOG_DET, PATHS
from zscout.lab.paper.features import FEATURES_AND_POLICIES, FIGURES
from zscout.lab.paper.framework import FRAMEWORK
from zscout.lab.paper.league import LEAGUE
from zscout.lab.paper.looking_ahead import HORIZON
from zscout.lab.paper.misfit import OUTSIDE_FEATURES, WRONG_PSI
from zscout.lab.paper.searching import SEARCHES
from zscout.lab.paper.switching import SWITCHING
from zscout.lab.paper.training import TRAINING, training_figure
from zscout.lab.paper.transferring import ERRORS, STRIPS
from zscout.lab.paper.words import DEVIATIONS, SLIPS
from zscout.lab.spec import Spec, code_digest
from zscout.lab.story import Claim, Section, Story, Verdict

EXPERIMENTS: tuple[Experiment, ...] = (
    FRAMEWORK,
    FEATURES_AND_POLICIES,
    TRAINING,
    PATHS,
    LOG_DET,
    EIGENVALUES,
    STRIPS,
    ERRORS,
    END_TO_END,
    LEMMA,
    POTENTIAL,
    HORIZON,
    OPTIMISM,
    GRADIENT,
    SEARCHES,
    OUTSIDE_FEATURES,
    WRONG_PSI,
    SWITCHING,
    LEAGUE,
)
"""In the order of the paper, and what lies beyond it last."""


TOO_FEW: Verdict = "too few runs to tell"
FIRST_LOOK = (
    "**A first look only**: a tenth of the runs, cut at 60 steps. What they cannot show is **too few runs to tell**; "
    "`zscout reproduce` without `--quick` decides it."
)


def specs(scale: Scale) -> list[Spec]:
    """All runs that the story needs, each once."""
    return list(dict.fromkeys(spec for experiment in EXPERIMENTS for spec in experiment.specs(scale)))


def sections(scale: Scale, runs: Runs) -> Iterator[Section]:
    """One after the other, when their runs are there."""
    for experiment in EXPERIMENTS:
        section = experiment.tell(scale, runs)
        yield replace(section, claims=[_as_a_first_look(claim) for claim in section.claims]) if scale.quick else section


def _as_a_first_look(claim: Claim) -> Claim:
    """A tenth of the runs can show that a rule is met; that it is not met they cannot."""
    return claim if claim.verdict == "holds" or claim.stored else replace(claim, verdict=TOO_FEW)


def story(scale: Scale, told: list[Section]) -> Story:
    """The whole report."""
    claims = [claim for section in told for claim in section.claims if claim.kind == "claim"]
    others = [claim for section in told for claim in section.claims if claim.kind != "claim"]
    counts = {word: sum(claim.verdict == word for claim in claims) for word in get_args(Verdict)}
    few = f", {counts[TOO_FEW]} need more runs" if counts[TOO_FEW] else ""
    summary = [
        "A Behavioral Foundation Model is a frozen policy π(a|s,z): one task vector z, one behaviour. USF-UCB finds "
        "the z for a reward that can only be seen by trying: it estimates the task from the rewards so far and adds a "
        "bonus for policies that lead where little is known.",
        f"Of {len(claims)} claims of the paper {counts['holds']} hold, {counts['holds in part']} hold in part and "
        f"{counts['does not hold']} do not{few}. {len(others)} checks and additions of ours are counted apart.",
    ]
    if scale.quick:
        summary.insert(0, FIRST_LOOK)
    about = {"version": zscout.__version__, "seed": str(scale.seed), "code": code_digest()[:12]}
    return Story(
        "Exploration and online transfer with Behavioral Foundation Models, reproduced",
        summary,
        told,
        DEVIATIONS,
        SLIPS,
        about,
        opening=("transfer", "league"),
    )


__all__ = ["EXPERIMENTS", "FIGURES", "Runs", "Scale", "sections", "specs", "story", "training_figure"]
