"""Search around the best z on the learned reward, in a simulator, without labels.

``python -m benchmarks.rehearsal --body-name walker --out F``: the default follows each task for some episodes. Then,
for each run, children of the behaviours that are best by its estimate are charted with the atlas's features, round by
round, and the one that is best by the same estimate is taken. Returns are of ten episodes of 1,000 control steps, with
the true reward, which the search does not see.
"""

import time
from dataclasses import dataclass
from typing import Any

import torch
import tyro
from jaxtyping import Float
from torch import Generator, Tensor

from benchmarks.atlas import BodyOptions, League, Runs
from zscout import OnlineTransfer
from zscout.base.files import write_json
from zscout.lab.evaluation.judging import episode_returns
from zscout.transfer.atlas.charting import MOVES, PARENTS, Charting


@dataclass(frozen=True, kw_only=True)
class Options(BodyOptions):
    """With fewer episodes and runs by default."""

    episodes: int = 3  # Before the search.
    seeds: int = 1  # Runs on each task.


def main(
    options: tyro.conf.OmitArgPrefixes[Options],
    rounds: int = 3,
    children: int = 24,
    starts: int = 6,
    steps: int = 300,
    noise: float = 0.0,
) -> None:
    """Measure the z found beside ``best_z``, the oracle's z, and the z found on the true reward.

    Args:
        options: Shared ones.
        rounds: Of the search.
        children: Of each run in each round.
        starts: From which each is followed.
        steps: For which each is followed.
        noise: σ of the rewards seen.
    """
    torch.set_grad_enabled(False)
    league = League(**options.of_league)
    tasks, each = len(league.tasks), len(league.tasks) * options.seeds
    agent = OnlineTransfer(league.model, seed=[*range(each)], runs=each, atlas=league.atlas)
    league.play([Runs("before", (noise,), agent, each)], options.episodes)
    weights, best = agent.z_hat, agent.best_z.float()
    labelled = league.atlas.sample
    f = league.atlas.features(labelled)
    true = torch.stack([task(labelled.cpu()) for task in league.tasks.values()], -1).double()
    moments = (f - f.mean(0)).mT @ (f - f.mean(0)) + torch.eye(f.shape[1]).double()
    known = torch.linalg.solve(moments, (f - f.mean(0)).mT @ (true - true.mean(0))).mT.repeat(options.seeds, 1)
    found = {"best_z": best}
    for name, own in (("on the learned reward", weights), ("on the true reward", known)):
        search = Search(league, own, Generator().manual_seed(1))
        for number in range(rounds):
            search.round(children, starts, steps, number)
            found[f"{name}, round {number + 1}"] = search.best()
            print(f"{time.monotonic() - league.began:5.0f} s  {name}, round {number + 1} of {rounds}", flush=True)
    begin = league.one.random_states(10, Generator().manual_seed(8))
    rewards: Any = [*league.tasks.values()] * options.seeds
    z = torch.stack([*found.values()], 1).cpu()
    returns = episode_returns(league.model, league.one, rewards, z, begin, league.horizon, league.world.repeat).mean(-1)
    result = {"body": options.body_name, "tasks": list(league.tasks), "oracle": league.oracle.tolist()}
    pooled = returns.sum(0) / league.oracle.repeat(options.seeds).sum()
    for name, ratio, row in zip(found, pooled.tolist(), returns.mT.tolist(), strict=True):
        print(f"{name:36} {ratio:.3f} of the oracle", flush=True)
        result[name] = row
    write_json(options.out, {**result, "runs of each task": options.seeds, "number of tasks": tasks})


class Search:
    """A pool of behaviours for each run: the best of the atlas, then children of the best so far."""

    def __init__(self, league: League, weights: Float[Tensor, "R D"], rng: Generator) -> None:
        self.league, self.weights, self.rng = league, weights, rng
        value = weights @ league.atlas.psi.mT
        self.value, rows = value.topk(PARENTS, -1)  # [R parents]
        self.z = league.atlas.z[rows].float()

    def round(self, children: int, starts: int, steps: int, number: int) -> None:
        """Chart children of each pool, and add those that are followed; values are less half a standard error."""
        R, k, d = self.z.shape
        parent = self.z.gather(1, self.value.topk(min(4, k), -1).indices[..., None].expand(-1, -1, d))
        first = parent[:, torch.arange(children) % parent.shape[1]]
        other = self.z.gather(1, torch.randint(k, (R, children, 1), generator=self.rng).expand(-1, -1, d))
        size = torch.tensor(MOVES)[torch.randint(len(MOVES), (R, children, 1), generator=self.rng)]
        apart = torch.randn(first.shape, generator=self.rng) * first.square().mean(-1, keepdim=True).sqrt()
        share = torch.rand(R, children, 1, generator=self.rng)
        moved = torch.where(torch.rand(R, children, 1, generator=self.rng) < 0.5, size * apart, share * other)
        z = self.league.model.project_z(first + moved)
        chart = Charting(
            self.league.model,
            self.league.world,
            starts=starts,
            steps=steps,
            seed=number,
            given=z.flatten(0, 1),
            features=self.league.atlas.map,
        )
        for _ in chart:
            pass
        means = torch.cat(chart.parts["means"]).double().unflatten(0, (R, children))  # [R children starts D]
        each = (means @ self.weights[:, None, :, None])[..., 0]
        value = each.mean(-1) - each.std(-1) / (2 * starts**0.5)
        self.z, self.value = torch.cat([self.z, z], 1), torch.cat([self.value, value], 1)

    def best(self) -> Float[Tensor, "R d"]:
        """The z with the highest value of each run."""
        return self.z.gather(1, self.value.argmax(-1)[:, None, None].expand(-1, 1, self.z.shape[-1]))[:, 0]


if __name__ == "__main__":
    tyro.cli(main)
