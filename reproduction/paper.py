"""Every figure and claim of the paper: the specs that are run, and the report made from their records."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

import zscout
from reproduction.experiment import QUICK_RUNS, QUICK_STEPS, Experiment, Runs, Scale
from reproduction.experiments.bonus_horizon import HORIZON
from reproduction.experiments.continuous import CONTINUOUS
from reproduction.experiments.feature_maps import FEATURES_AND_POLICIES
from reproduction.experiments.league import LEAGUE
from reproduction.experiments.model_errors import OUTSIDE_FEATURES, SWITCHING, WRONG_PSI
from reproduction.experiments.network_training import END_TO_END, TRAINING
from reproduction.experiments.online_transfer import ERRORS, STRIPS
from reproduction.experiments.pure_exploration import EIGENVALUES, LOG_DET, PATHS
from reproduction.experiments.regret_bounds import LEMMA, OPTIMISM, POTENTIAL
from reproduction.experiments.searches import GRADIENT, SEARCH_COMPARISON
from reproduction.report.model import ClaimVerdict, Section, Story
from zscout.lab.runs.spec import Spec, code_digest

DEVIATIONS = (
    "Regret counts from t = 0 and, in our tables, against v* rather than π(·,z_r), so that a poor model cannot look "
    "good; the records have both. Lost steps are regret ÷ the mean of v* − v_random over states and 1,000 tasks.",
    "The paper does not give λ. It is σ² = .09 in `usf-ucb-paper`, and 1 in pure exploration.",
    "The radius of our default follows the scale of the rewards seen (κ√λ·ŝ) and needs neither σ nor a schedule. "
    "`usf-ucb-paper` has the paper's schedule ([lost steps of both](#league)).",
    "Our default's bonus is √tr(V⁻¹M) at γ = .8 if the model offers M, else ‖ψ‖ in V⁻¹ ([claims 10b, 10c](#horizon)).",
    "Laplacian eigenfunctions are scaled so that the mean of ‖φ(s)‖² over states is 1; unit vectors drown in σ = .3.",
    "Z is the sphere of radius √d, also in training.",
    "ẑ and the last z are candidates beside the random ones. With an exact ψ the others are a fixed table of 1,000 z. "
    "With a network they are the ends of fixed-point rounds z ← ẑ + √β V⁻¹ψ/‖ψ‖, since of 10,000 random z the best "
    "by a learned ψ is the most over-estimated ([table of searches](#searches)).",
    "Ties are broken at random: most z share their policy with others.",
    "The networks are trained by another recipe (an actor on long chains, then ψ of that actor) and without dropout. "
    "docs/training.md measures the paper's recipe and each difference.",
)

SLIPS = (
    "Regret is summed from t = 1 in eq. 1, 2, 6 and appendix B.1, which omits the first choice; from t = 0 in A.4.",
    "Eq. 13 ends with β_t; √β_t is meant, the radius of the ellipsoid, as in the optimistic part two lines below.",
    "ψ and M in the appendix are sums from k = 1 of γ^{t+k}; with ψ as defined in section 2 it is k = 0 and γ^{k}.",
    "The training text has the sum of φ(S_k) for k ≥ t; ψ begins with the state that is entered, S_{t+1}.",
    "Training samples z from the √d-diameter ball, section 3 has Z as the sphere of radius √d: twice as far out.",
    "The ellipsoid of eq. 4 is defined within Z, the sphere. ẑ is not on the sphere, so for small β_t their "
    "intersection is empty, and eq. 8 has nothing to choose from.",
    "Cov(ẑ) = σ²V⁻¹ ignores λ: it is σ²V⁻¹ΦᵀΦV⁻¹, which is less, and ẑ is biased by −λV⁻¹z_r.",
)


def _tell_framework(scale: Scale, runs: Runs) -> Section:
    text = [
        "Offline, states are labelled with rewards and regression gives z_r. Online no labels exist: the algorithm "
        "recommends Z_t, the model acts on it for a step, and the next recommendation uses the state and the reward.",
        "The loop is three lines: `z = agent.ask(obs)`, one step of `bfm.act(obs, z)`, `agent.tell(obs, reward)`.",
    ]
    return Section("framework", "Transfer, offline and online", text)


FRAMEWORK = Experiment(_tell_framework)
EXPERIMENTS: tuple[Experiment, ...] = (  # in the order of their claims
    *(FRAMEWORK, FEATURES_AND_POLICIES, PATHS, LOG_DET, STRIPS, ERRORS),
    *(GRADIENT, SEARCH_COMPARISON, LEMMA, HORIZON, OPTIMISM),
    *(TRAINING, EIGENVALUES, OUTSIDE_FEATURES, WRONG_PSI, SWITCHING, POTENTIAL),
    *(END_TO_END, LEAGUE, CONTINUOUS),
)
LEFT_OUT = (HORIZON, OPTIMISM, SEARCH_COMPARISON, OUTSIDE_FEATURES, WRONG_PSI, LEAGUE, CONTINUOUS)  # of a quick test
TOO_FEW: ClaimVerdict = "too few runs to tell"
_ASIDE = re.compile(r" \(\[[^]]+\]\(#([\w-]+)\)\)")  # a link in parentheses


def experiments(scale: Scale) -> list[Experiment]:
    """What the report tells; a quick test leaves out what takes long."""
    return [experiment for experiment in EXPERIMENTS if not (scale.quick and experiment in LEFT_OUT)]


def specs(scale: Scale) -> list[Spec]:
    """All runs that the report needs, each once."""
    return list(dict.fromkeys(spec for experiment in experiments(scale) for spec in experiment.specs(scale)))


def sections(scale: Scale, runs: Runs) -> Iterator[Section]:
    """The sections, one by one, from the records of all runs."""
    for experiment in experiments(scale):
        yield experiment.tell(scale, runs)


def story(scale: Scale, parts: list[Section]) -> Story:
    """The whole report."""
    claims = [claim for section in parts for claim in section.claims]
    counts = Counter(claim.verdict for claim in claims if claim.kind == "claim")
    few = f", {counts[TOO_FEW]} need more runs" if counts[TOO_FEW] else ""
    summary = [
        "A Behavioral Foundation Model is a frozen policy π(a|s,z): one behaviour for each task vector z. USF-UCB "
        "finds the z for a reward that is only observed by acting: it estimates the task from the rewards so far and "
        "adds a bonus for policies that lead to uncertain features.",
        f"Of {counts.total()} claims of the paper {counts['holds']} hold, {counts['holds in part']} hold in part and "
        f"{counts['does not hold']} do not{few}. Besides: {len(claims) - counts.total()} checks and additions of ours.",
    ]
    if scale.quick:
        summary.insert(
            0,
            f"**Quick test**: at most {QUICK_RUNS} runs of {QUICK_STEPS} steps for each method. For claims that need "
            "more runs, which read **too few runs to tell**, for claims 10, 11, 14, 15 and 19, the searches, all "
            "methods and the point maze, run it whole: `python -m reproduction` without `--quick`.",
        )
    about = {"version": zscout.__version__, "seed": str(scale.seed), "code": code_digest()[:12]}
    title = "Exploration and online transfer with Behavioral Foundation Models, reproduced"
    keys = {part.key for part in parts}
    told = [replace(part, text=_without_absent(part.text, keys)) for part in parts]
    deviations = _without_absent(DEVIATIONS, keys)
    return Story(title, summary, told, deviations, SLIPS, about, opening=("transfer", "league"))


def _without_absent(texts: Sequence[str], keys: set[str]) -> list[str]:
    """Texts without references, in parentheses, to sections that are not there."""
    return [_ASIDE.sub(lambda aside: aside[0] if aside[1] in keys else "", text) for text in texts]


__all__ = ["EXPERIMENTS", "Runs", "Scale", "experiments", "sections", "specs", "story"]
