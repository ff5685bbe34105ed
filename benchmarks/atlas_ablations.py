"""Atlases made otherwise, and the default with each: python -m benchmarks.atlas_ablations --body-name walker --out F.

All agents have the same tasks, starts and noise. ``--groups`` names what is varied:

- ``features``: the shipped behaviours with φ alone, the sines of the observation alone, the sines of the goal features
  alone, and all features with the network's ψ (ψ_f = f̄ + Pᵀ((1 − γ)ψ − φ̄), P by regression of f on φ).
- ``starts``: 1,024 behaviours from 1, 2, 4, 8 and 16 starts.
- ``behaviours``: 256, 512, 1,024 and 4,096 behaviours; the shipped atlas has 2,048.
- ``logs``: 2,048 draws of ``sample_z``, one path of each, as from logs; and six paths of each.
- ``own``: the shipped atlas, and the same without the agent's own experience.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import torch
import tyro
from torch import Tensor

from benchmarks.atlas import NOISES, BodyOptions, League, Runs
from zscout import Atlas, OnlineTransfer
from zscout.models.files.pretrained import observations_of
from zscout.transfer import constants
from zscout.transfer.atlas.atlas import assembled
from zscout.transfer.atlas.charting import KEPT_EVERY, Charting
from zscout.transfer.atlas.features import RichFeatures, Waves
from zscout.transfer.offline import least_squares

Group = Literal["features", "starts", "behaviours", "logs", "own"]


@dataclass(frozen=True, kw_only=True)
class Options(BodyOptions):
    """With fewer runs by default."""

    episodes: int = 5  # Of each run.
    seeds: int = 2  # Runs of each atlas on each task.


def main(
    options: tyro.conf.OmitArgPrefixes[Options],
    groups: tuple[Group, ...] = ("features", "starts", "behaviours", "logs", "own"),
) -> None:
    """Chart, then run the default with each atlas.

    Args:
        options: Shared ones.
        groups: What is varied.
    """
    torch.set_grad_enabled(False)
    league = League(**options.of_league)
    each = len(league.tasks) * options.seeds
    runs = []
    for name, atlas in (pair for group in groups for pair in atlases(league, group)):
        print(f"{time.monotonic() - league.began:5.0f} s  {name}: {atlas}", flush=True)
        own = OnlineTransfer(league.model, seed=[*range(each)] * 2, runs=2 * each, atlas=atlas)
        runs.append(Runs(name, NOISES, own, each))
    league.result["atlases"] = {run.titles[0]: repr(run.agent.atlas) for run in runs}
    runs += [WithoutExperience(run, "shipped, own experience off") for run in runs if run.titles[0] == "shipped"]
    league.play(runs, options.episodes, options.minutes)


class WithoutExperience(Runs):
    """The same runs, with an agent that trusts the atlas alone."""

    def __init__(self, like: Runs, name: str) -> None:
        agent = OnlineTransfer(like.agent.bfm, seed=[*range(like.each)] * 2, runs=2 * like.each, atlas=like.agent.atlas)
        super().__init__(name, like.noises, agent, like.each)
        ask = agent.ask

        def without(obs: Tensor) -> Tensor:
            kept, constants.WORTH = constants.WORTH, 1e12
            try:
                return ask(obs)
            finally:
                constants.WORTH = kept

        agent.ask = without  # type: ignore[method-assign, assignment]


def atlases(league: League, group: Group) -> Iterator[tuple[str, Atlas]]:
    """The atlases of a group, by name."""
    model, world = league.model, league.world
    if group == "own":
        yield "shipped", league.atlas
    elif group == "features":
        yield from by_features(league)
    elif group == "starts":
        chart = Charting(model, world, behaviours=1024, starts=16)
        for count in (1, 2, 4, 8, 16):
            yield f"1,024 behaviours, starts {count}", _first_starts(_charted(chart), count)
    elif group == "behaviours":
        for count in (256, 512, 1024, 4096):
            yield f"{count:,} behaviours", _charted(Charting(model, world, behaviours=count)).atlas()
    else:
        z = model.sample_z(2048, 0)
        for starts in (1, 6):
            chart = Charting(model, world, starts=starts, given=z)
            yield f"random z, paths of each {starts}", _charted(chart).atlas()


def by_features(league: League) -> Iterator[tuple[str, Atlas]]:
    """The shipped behaviours, with parts of the features; one chart measures all parts."""
    model, atlas = league.model, league.atlas
    rich = atlas.map
    assert isinstance(rich, RichFeatures)
    assert rich.goals is not None

    def phi(obs: Tensor) -> Tensor:
        features: Tensor = model.phi(obs).float()
        return features.div(features.shape[-1] ** 0.5)

    def waves(own: Waves, inputs: Any) -> Any:
        return lambda obs: own(inputs(obs.flatten(0, -2)).float()).unflatten(0, obs.shape[:-1])

    maps: dict[str, Any] = {
        "φ alone": phi,
        "sines of the observation alone": waves(rich.entries, lambda rows: rows),
        "sines of the goal features alone": waves(rich.goals, model.goal_features),
    }
    chart = Charting(
        model, league.world, given=atlas.z, features=lambda obs: torch.cat([m(obs) for m in maps.values()], -1)
    )
    _charted(chart)
    sizes = [own(atlas.sample[:1]).shape[-1] for own in maps.values()]
    every = torch.cat(chart.parts["means"]).split(sizes, -1)
    for (name, own), means in zip(maps.items(), every, strict=True):
        yield name, _with(league, own, means)
    yield "all features, the network's ψ", _of_network(league)


def _charted(chart: Charting) -> Charting:
    """Run a chart to its end."""
    for _ in chart:
        pass
    return chart


def _with(league: League, features: Any, means: Tensor) -> Atlas:
    """The shipped atlas with other features, of means [N starts D]; it keeps its settling time."""
    atlas = league.atlas
    row = torch.arange(len(atlas.z)).repeat_interleave(means.shape[1])
    curve = torch.tensor([2.0, 1.0, 1.0, 1.0])
    made = assembled(atlas.z.cpu(), row, means.flatten(0, 1).double(), atlas.sample.cpu(), curve, features)
    return _held(made.to(league.model.device), atlas.settling)


def _held(atlas: Atlas, settling: float) -> Atlas:
    return Atlas(**{**vars(atlas), "settling": settling})


def _first_starts(chart: Charting, count: int) -> Atlas:
    """The atlas of the first starts alone."""
    means, z = torch.cat(chart.parts["means"])[:, :count], torch.cat(chart.parts["z"])
    whole = chart.atlas()
    row, curve = torch.arange(len(z)).repeat_interleave(count), torch.stack(chart.parts["curve"]).mean(0)
    made = assembled(z, row, means.flatten(0, 1).double(), whole.sample.cpu(), curve, whole.map, KEPT_EVERY)
    return made.to(whole.psi.device)


def _of_network(league: League) -> Atlas:
    """The shipped behaviours and features, with ψ of the network at 64 visited states."""
    model, atlas = league.model, league.atlas
    seen = observations_of(f"{league.result['body']}-fb").to(model.device)
    f, phi = atlas.features(seen), model.phi(seen).double()
    P = least_squares(phi.cpu(), f.cpu()).to(f)
    states = atlas.sample[:64].float()
    ψ = torch.stack([model.psi(state, atlas.z.to(state)).double() for state in states]).mean(0)
    psi = f.mean(0) + ((1 - model.gamma) * ψ - phi.mean(0)) @ P
    return Atlas(**{**vars(atlas), "psi": psi})


if __name__ == "__main__":
    tyro.cli(main)
