"""Every figure and claim of the paper: specs that are run, and the story that their records tell."""

from collections.abc import Iterator

import zscout
from zscout.lab.paper.bounding import LEMMA, OPTIMISM, POTENTIAL
from zscout.lab.paper.climbing import GRADIENT
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
from zscout.lab.story import Section, Story

EXPERIMENTS: tuple[Experiment, ...] = (
    FRAMEWORK,
    FEATURES_AND_POLICIES,
    TRAINING,
    PATHS,
    LOG_DET,
    EIGENVALUES,
    STRIPS,
    ERRORS,
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


FIRST_LOOK = (
    "**A first look only**: a tenth of the runs, cut at 60 steps. Intervals are wide, and where data cannot tell, "
    "or a claim is of later steps, the verdict reads as if it failed. `zscout reproduce` without `--quick` runs the "
    "whole."
)


def specs(scale: Scale) -> list[Spec]:
    """All runs that the story needs, each once."""
    return list(dict.fromkeys(spec for experiment in EXPERIMENTS for spec in experiment.specs(scale)))


def sections(scale: Scale, runs: Runs) -> Iterator[Section]:
    """One after the other, when their runs are there."""
    for experiment in EXPERIMENTS:
        yield experiment.tell(scale, runs)


def story(scale: Scale, told: list[Section]) -> Story:
    """The whole report."""
    claims = [claim for section in told for claim in section.claims]
    counts = {
        word: sum(claim.verdict == word for claim in claims) for word in ("holds", "holds in part", "does not hold")
    }
    summary = [
        "A Behavioral Foundation Model is a frozen policy π(a|s,z): one task vector z, one behaviour. When the "
        "reward can only be seen by trying, somebody has to say which z to try next. The paper's answer is USF-UCB: "
        "estimate the task from the rewards seen, and add a bonus for policies that lead where little is known.",
        f"Here the paper is run again from the ground up and asked {len(claims)} questions, with exact values where "
        f"it had none: {counts['holds']} claims hold, {counts['holds in part']} hold in part, "
        f"{counts['does not hold']} do not. Beside each section stands a command that runs it again, or its core.",
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
    )


__all__ = ["EXPERIMENTS", "FIGURES", "Runs", "Scale", "sections", "specs", "story", "training_figure"]
