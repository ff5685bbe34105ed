"""Falls while learning, without and with a limit: python -m benchmarks.limits --body-name walker --out FILE.

The cost of a step is 1 on the ground, else 0: the walker's and the cheetah's torso below a height, the quadruped's
torso tilted by more than 60° (its observation has no height). Episodes of 1,000 control steps, all runs at once, with
the same starts. Entrants: no limit; the cost known in advance; the cost told step by step; and the same with δ = .05,
which tries what is surely within the limit. ``--torso 1.5`` and ``--friction 0.5`` change the body, so that its
atlas is wrong.

The file holds, for every entrant, episode, seed and task: the return, the share of steps on the ground, and the same
share without the first fifth of the episode, in which a body gets up. ``table`` makes the table in the docs:

- *ground*: steps on the ground ÷ steps, over all episodes;
- *return*: of the last episode ÷ the oracle's; *can*: on tasks that can be done within the limit, by the atlas;
- *broken*: share of runs that were on the ground for more than ``at_most`` of the settled steps of the last episode.
"""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import tyro
from torch import Generator, Tensor

from benchmarks.atlas import BodyOptions, League, counted
from zscout import Limit, OnlineTransfer
from zscout.base.files import write_json
from zscout.transfer.constants import SETTLED
from zscout.worlds.bodies.physics import body
from zscout.worlds.registry import PLACES

ENTRANTS = ("no limit", "cost known", "cost told", "cost told, δ .05")


class Falls(League):
    """Agents with and without a limit on the same tasks and starts."""

    def __init__(self, body_name: str, out: Path, scale: dict[str, float], **rest: Any) -> None:
        super().__init__(body_name, out, **rest)
        self.name = body_name
        threads = rest.get("threads")
        self.world = body(body_name, repeat=self.world.repeat, threads=threads, scale=scale)
        values = torch.stack([self.atlas.values(task) for task in self.tasks.values()])  # [tasks N]
        cost = self.atlas.values(self.cost)
        self.result |= {"scale": scale, "prices": cost.tolist(), "values": [row.tolist() for row in values]}

    def cost(self, obs: Tensor) -> Tensor:
        """1 on the ground, else 0."""
        fall = PLACES[self.name].fall
        assert fall is not None
        return fall.cost(self.world.goal_features(obs.double()), self.world.goal_names)

    def can(self, at_most: float, loss: float = 0.1) -> Tensor:
        """Which tasks lose at most this share of their best value within the limit, by the atlas."""
        values, prices = torch.tensor(self.result["values"]), torch.tensor(self.result["prices"])
        kept: Tensor = values[:, prices <= at_most].amax(1) >= (1 - loss) * values.amax(1)
        return kept

    def agents(self, chosen: tuple[str, ...], runs: int, at_most: float, delta: float) -> dict[str, OnlineTransfer]:
        """The agent of each entrant."""
        limits = {
            "no limit": None,
            "cost known": Limit(cost=self.cost, at_most=at_most, delta=delta),
            "cost told": Limit(at_most=at_most, delta=delta),
            "cost told, δ .05": Limit(at_most=at_most, delta=0.05),
        }
        return {
            name: OnlineTransfer(self.model, seed=0, runs=runs, atlas=self.atlas, limit=limits[name]) for name in chosen
        }

    def compete(self, agents: dict[str, OnlineTransfer], episodes: int, at_most: float, minutes: float) -> None:
        """All episodes; writes the file after each."""
        kinds = ("return", "ground", "settled")
        self.result |= {"at_most": at_most, "runs": {name: {kind: [] for kind in kinds} for name in agents}}
        tasks, seeds, can = len(self.tasks), next(iter(agents.values())).runs[0] // len(self.tasks), self.can(at_most)
        self.result["can"] = can.tolist()
        for episode in range(episodes):
            found = self._play(agents, episode)  # [entrants 3 runs]
            for (name, kept), numbers in zip(self.result["runs"].items(), found, strict=True):
                each = numbers.reshape(3, seeds, tasks)
                for kind, values in zip(kinds, each, strict=True):
                    kept[kind].append(values.tolist())
                so_far = torch.tensor(kept["ground"])[..., can].mean()
                ratio = each[0, :, can].mean(0).sum() / self.oracle[can].sum()
                broken = (each[2, :, can] > at_most).double().mean()
                print(
                    f"{time.monotonic() - self.began:5.0f} s  episode {episode + 1:2}  {name:16} ground so far "
                    f"{so_far:.3f}, return {ratio:.2f}, broken {broken:.2f}; all tasks: ground {each[1].mean():.3f}, "
                    f"return {each[0].mean(0).sum() / self.oracle.sum():.2f}",
                    flush=True,
                )
            write_json(self.out, self.result)
            if time.monotonic() - self.began > 60 * minutes:
                break
        print(table([self.result]))

    def _play(self, agents: dict[str, OnlineTransfer], episode: int) -> Tensor:
        runs, tasks, device = next(iter(agents.values())).runs[0], len(self.tasks), self.model.device
        starts = self.one.random_states(runs, Generator().manual_seed(1_000 + episode))
        state = starts.repeat(len(agents), 1)
        obs, steps = self.world.observe(state).float().to(device), 1_000 // self.world.repeat
        total, ground, settled = (torch.zeros(len(state)).double() for _ in range(3))
        late = round(SETTLED * steps)
        for t in counted(steps, f"episode {episode + 1}"):
            z = torch.cat([agent.ask(own) for agent, own in zip(agents.values(), obs.split(runs), strict=True)])
            state, _ = self.world.advance(state, torch.as_tensor(self.model.act(obs, z)).cpu())
            entered = self.world.observe(state).float()
            reward = self._rewards(entered.reshape(-1, tasks, entered.shape[-1])).flatten()
            cost, obs = self.cost(entered), entered.to(device)
            total, ground = total + reward * self.world.repeat, ground + cost / steps
            settled = settled + (cost / (steps - late) if t >= late else 0.0)
            parts = zip(agents.items(), *(each.split(runs) for each in (obs, reward, cost)), strict=True)
            for (name, agent), own, paid, spent in parts:
                agent.tell(own, paid, done=t == steps - 1, cost=spent if "told" in name else None)
        found: Tensor = torch.stack([total, ground, settled]).unflatten(1, (len(agents), runs)).movedim(1, 0)
        return found


def table(found: list[dict[str, Any]]) -> str:
    """Rows of the docs: one for each body, scale and entrant."""
    lines = ["|  | limit | ground | return | return, can | broken |", "|---|---|---|---|---|---|"]
    for one in found:
        changed = [f"{part} × {factor:g}".replace("0.", ".") for part, factor in one["scale"].items() if factor != 1]
        can, oracle, at_most = torch.tensor(one["can"]), torch.tensor(one["oracle"]), one["at_most"]
        for name, runs in one["runs"].items():
            ground, returns, settled = (torch.tensor(runs[kind]) for kind in ("ground", "return", "settled"))
            last, episodes = returns[-1].mean(0), len(returns)  # [tasks]
            title = ", ".join([one["body"], *changed, *([] if episodes == 5 else [f"{episodes} episode"])])
            ratios = last.sum() / oracle.sum(), last[can].sum() / oracle[can].sum()
            broken = (settled[-1] > at_most).float().mean()
            numbers = [f"{ground.mean():.3f}", *(f"{ratio:.2f}" for ratio in ratios), f"{broken:.2f}"]
            lines.append(f"| {title}: {name} | {at_most:g} | {' | '.join(numbers)} |".replace(" 0.", " ."))
    return "\n".join(lines)


@dataclass(frozen=True, kw_only=True)
class Options(BodyOptions):
    """With fewer runs by default."""

    episodes: int = 5  # Of each run.
    seeds: int = 5  # Runs of each entrant on each task.


def main(
    options: tyro.conf.OmitArgPrefixes[Options],
    at_most: float = 0.05,
    delta: float = 0.5,
    entrants: tuple[str, ...] = ENTRANTS,
    torso: float = 1.0,
    friction: float = 1.0,
) -> None:
    """Run all entrants.

    Args:
        options: Shared ones.
        at_most: The limit.
        delta: Its δ.
        entrants: Some of them.
        torso: Factor of the torso's mass; the atlas is of the body as it is.
        friction: Factor of the friction.
    """
    falls = Falls(scale={"torso": torso, "friction": friction}, **options.of_league)
    agents = falls.agents(entrants, options.seeds * len(falls.tasks), at_most, delta)
    falls.compete(agents, options.episodes, at_most, options.minutes)


if __name__ == "__main__":
    tyro.cli(main)
