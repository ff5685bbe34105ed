"""Rewards as a detector gives them: python -m benchmarks.detectors --body-name walker --out FILE.

A simulated detector says whether the reward is above .6. It is wrong in one of ten, answers two seconds late, and may
be asked twice a second. Entrants: every question asked; questions only where the reward is uncertain
(``agent.wants_reward(obs, least)``), for several ``least``; and the reward itself as the answer, for comparison. All
entrants, tasks and seeds run at once, with the same starts. The file holds for every entrant and episode the return and
the answers so far, of each seed and task. ``table`` makes the table in the docs.
"""

import time
from dataclasses import dataclass
from typing import Any

import torch
import tyro
from torch import Generator, Tensor

from benchmarks.atlas import BodyOptions, League, counted
from zscout import OnlineTransfer
from zscout.base.files import write_json

ABOVE, FLIPS, LATE, EVERY = 0.6, 0.1, 2.0, 0.5  # reward; share; seconds; seconds from one question to the next
ENOUGH = 0.9  # of the oracle's return


@dataclass(frozen=True)
class Asking:
    """When the detector is asked: where the reward's width is above ``least``; 0: always."""

    name: str
    least: float = 0.0
    binary: bool = True


ENTRANTS = (
    Asking("every question"),
    *(Asking(f"width > {least:g}".replace("0.", "."), least) for least in (0.3, 0.5, 0.7, 1.0)),
    Asking("the reward, every question", binary=False),
)


class Detected(League):
    """All entrants on the same tasks and starts."""

    def compete(self, chosen: list[Asking], seeds: int, episodes: int, minutes: float) -> None:
        """All episodes; writes the file after each."""
        tasks = len(self.tasks)
        runs = seeds * tasks
        agents = [OnlineTransfer(self.model, seed=0, runs=runs, atlas=self.atlas) for _ in chosen]
        answers = torch.zeros(len(chosen), runs)
        rng = Generator().manual_seed(5)
        found: dict[str, Any] = {one.name: {"return": [], "answers": []} for one in chosen}
        self.result["runs"] = found
        for episode in range(episodes):
            total = self._play(list(zip(chosen, agents, strict=True)), answers, episode, rng)
            for one, returns, asked in zip(chosen, total, answers, strict=True):
                found[one.name]["return"].append(returns.reshape(seeds, tasks).tolist())
                found[one.name]["answers"].append(asked.reshape(seeds, tasks).tolist())
                ratio = returns.reshape(seeds, tasks).mean(0) / self.oracle
                print(
                    f"{time.monotonic() - self.began:5.0f} s  episode {episode + 1:2}  {one.name:28} "
                    f"return {ratio.median():.2f} in the median task, mean {ratio.mean():.2f}; "
                    f"answers {asked.median():.0f}",
                    flush=True,
                )
            write_json(self.out, self.result)
            if time.monotonic() - self.began > 60 * minutes:
                break
        print(table(self.result))

    def _play(
        self, entrants: list[tuple[Asking, OnlineTransfer]], answers: Tensor, episode: int, rng: Generator
    ) -> Tensor:
        runs, tasks, device = answers.shape[1], len(self.tasks), self.model.device
        starts = self.one.random_states(runs, Generator().manual_seed(1_000 + episode))
        state = starts.repeat(len(entrants), 1)
        obs, steps = self.world.observe(state).float().to(device), 1_000 // self.world.repeat
        late, every = (max(1, round(seconds / self.world.seconds)) for seconds in (LATE, EVERY))
        total = torch.zeros(len(state)).double()
        waiting: list[tuple[int, list[tuple[Tensor, Tensor, Tensor]]]] = []  # when, and what each entrant is told
        for t in counted(steps, f"episode {episode + 1}"):
            z = torch.cat([agent.ask(own) for (_, agent), own in zip(entrants, obs.split(runs), strict=True)])
            state, _ = self.world.advance(state, torch.as_tensor(self.model.act(obs, z)).cpu())
            entered = self.world.observe(state).float()
            reward = self._rewards(entered.reshape(-1, tasks, entered.shape[-1])).flatten()
            total, obs = total + reward * self.world.repeat, entered.to(device)
            flipped = (torch.rand(runs, generator=rng) < FLIPS).repeat(len(entrants))
            said = ((reward > ABOVE) ^ flipped).double()
            asked = []
            for k, ((one, agent), own) in enumerate(zip(entrants, obs.split(runs), strict=True)):
                part = slice(k * runs, (k + 1) * runs)
                if t % every == 0:
                    wanted = agent.wants_reward(own, one.least) if one.least else torch.ones(runs, dtype=torch.bool)
                    asked.append((own, (said if one.binary else reward)[part], torch.as_tensor(wanted).cpu()))
                    answers[k] += asked[-1][2]
                agent.tell(own, None, done=t == steps - 1)
            if asked:
                waiting.append((t + late, asked))
            due = [asks for when, asks in waiting if when <= t or t == steps - 1]  # the last answers come in the pause
            waiting = [(when, asks) for when, asks in waiting if when > t and t < steps - 1]
            for asks in due:
                for (_, agent), (own, given, wanted) in zip(entrants, asks, strict=True):
                    agent.learn(own[:, None], given[:, None].to(device), wanted[:, None])
        found: Tensor = total.unflatten(0, (len(entrants), runs))
        return found


def table(found: dict[str, Any]) -> str:
    """Rows of the docs: answers and return ÷ the oracle's after each episode, in the median task; then the median."""
    oracle = torch.tensor(found["oracle"])
    episodes = range(1, 1 + len(next(iter(found["runs"].values()))["return"]))
    heads = ["", *(f"episode {k}" if k == 1 else str(k) for k in episodes), "answers until .9", "runs that get there"]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for name, runs in found["runs"].items():
        returns, answers = (torch.tensor(runs[kind]) for kind in ("return", "answers"))  # [episodes seeds tasks]
        each = (returns.mean(1) / oracle).median(-1).values
        cells = [
            f"{ratio:.2f} / {count:.0f}"
            for ratio, count in zip(each, answers.flatten(1).median(-1).values, strict=True)
        ]
        first, share = until_enough(runs, oracle)
        cells += [f"{first:.0f}".replace("inf", "never"), f"{share:.2f}"]
        lines.append(f"| {name} | {' | '.join(cells)} |".replace(" 0.", " ."))
    return "\n".join(lines)


def until_enough(found: dict[str, Any], oracle: Tensor) -> tuple[float, float]:
    """The answers before the first episode with ``ENOUGH`` of the oracle's return, in the median task and run; the
    share of runs that get there.
    """
    returns, answers = (torch.tensor(found[kind]) for kind in ("return", "answers"))  # [episodes seeds tasks]
    before = torch.cat([torch.zeros_like(answers[:1]), answers[:-1]])
    first = torch.where(returns >= ENOUGH * oracle, before, torch.inf).amin(0)  # [seeds tasks]
    return float(first.median(0).values.median()), float(first.isfinite().double().mean())


@dataclass(frozen=True, kw_only=True)
class Options(BodyOptions):
    """With fewer runs by default."""

    episodes: int = 6  # Of each run.
    seeds: int = 3  # Runs of each entrant on each task.


def main(options: tyro.conf.OmitArgPrefixes[Options], only: str = "") -> None:
    """Run all entrants.

    Args:
        options: Shared ones.
        only: Entrants whose name contains this.
    """
    league = Detected(**options.of_league)
    league.compete([one for one in ENTRANTS if only in one.name], options.seeds, options.episodes, options.minutes)


if __name__ == "__main__":
    tyro.cli(main)
