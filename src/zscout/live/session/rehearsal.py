"""How much better another behaviour could be than the one to keep: tried out in the simulator.

``OnlineTransfer.certificate`` asks the model's ψ instead. For a body ψ is learned, and its errors are larger than what
is left to gain: a cheetah that gets all of the reward is still told that half of it is missing.
"""

from collections import deque
from collections.abc import Generator, Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from zscout.base.randomness import Streams
from zscout.lab.arenas.vector import VectorArena
from zscout.transfer.agent import OnlineTransfer
from zscout.transfer.score.confidence import plausible_spread

ACTIONS, STARTING = 60, 20  # of a behaviour; those at its start say more about the state than about the behaviour
PLAUSIBLE, RANDOM = 5, 4  # behaviours: for tasks that fit the rewards so far, and of any task
PLAUSIBLE_TASKS, CONFIDENCE = 200, 0.95  # plausible tasks, and for how many of them the share holds
LABELS_APART = 100  # labels from one rehearsal to the next
OF_AN_ANSWER = 25  # labels that an answer about two clips counts for
REHEARSALS, SURE = 4, 0.15  # so many of them have to find, on average, at most this share
FEW_LABELS, UNFELT = 150, 0.1  # R² below this, at so many labels: the features do not tell good from bad


@dataclass(frozen=True)
class Assurance:
    """What an agent knows about how good it is."""

    left: float | None = None  # the share of the best behaviour's worth that is missing; None: unknown
    sure: bool = False  # whether that is little
    felt: bool = True  # whether the features tell good from bad

    def in_words(self, person: bool) -> str:
        """One sentence."""
        if not self.felt:
            what = "What you like" if person else "This reward"
            return f"{what} is not something I can feel, or I have not done it yet."
        if self.left is None:
            return "How much could still be gained is not known yet."
        percent = round(100 * self.left)
        if self.sure:
            return f"Sure to {round(100 * SURE)} %: about {percent} % could still be gained."
        return f"About {percent} % could still be gained." if percent < 100 else "Much could still be gained."


class Rehearsals:
    """The last rehearsals of one agent, by turns from where the body is and from the start of another episode.

    Each is spread over many steps, so that none of them is late.
    """

    def __init__(self, arena: VectorArena, agent: OnlineTransfer) -> None:
        self._arena, self._agent = arena, agent
        self._shares: deque[float] = deque(maxlen=REHEARSALS)
        self._since = self._begun = 0  # labels at the last one, and how many there were
        self._running: Generator[Float[Tensor, " k"], None, float] | None = None
        self._entered: list[Float[Tensor, " k"]] = []  # by the z to keep
        self.kept: Float[Tensor, "n k"] | None = None  # the same of the last rehearsal, without its start
        self.assurance = Assurance()

    def go_on(self, labels: int, state: Float[Tensor, " k"], actions: int = 1) -> None:
        """Take so many actions of a rehearsal, if one is due or running."""
        if self._running is None and labels - self._since >= LABELS_APART:
            self._since, self._begun = labels, self._begun + 1
            elsewhere = self._arena.starts(Streams(torch.tensor([labels])))[0]
            begin = state if self._begun % 2 else elsewhere
            self._running, self._entered = could_gain(self._arena, self._agent, begin, seed=labels), []
        for _ in range(actions if self._running else 0):
            try:
                self._entered.append(next(self._running))  # type: ignore[arg-type]
            except StopIteration as end:
                self._shares.append(end.value)
                self._running = None
                if self._entered:
                    self.kept = torch.stack(self._entered[STARTING:])
                self._conclude()
                break

    def start_anew(self) -> None:
        """Be sure of nothing until there are as many rehearsals as at first."""
        self._shares.clear()
        self._conclude()

    def _conclude(self) -> None:
        left = sum(self._shares) / len(self._shares) if self._shares else None
        fit = self._agent.fit
        felt = not (float(fit.count) >= FEW_LABELS and float(fit.high) < UNFELT)
        sure = left is not None and len(self._shares) == REHEARSALS and left <= SURE and felt
        self.assurance = Assurance(left, sure, felt)


def could_gain(
    arena: VectorArena, agent: OnlineTransfer, state: Float[Tensor, " k"], seed: int
) -> Generator[Float[Tensor, " k"], None, float]:
    """(best − kept) ÷ (best − average of random behaviours), the most for 95 % of plausible tasks; 1 if it is more.

    Yields, after each action, the state that the behaviour to keep enters.
    """
    rng, model, posterior = torch.Generator().manual_seed(seed), arena.bfm, agent.posterior
    tasks = posterior.sample(PLAUSIBLE_TASKS, rng, plausible_spread(posterior))
    tried = (agent.best_z[None], agent.z_for(tasks[:PLAUSIBLE]), model.sample_z(RANDOM, rng))
    entered = []
    for states in rehearsed(arena, state, torch.cat([z.double().cpu() for z in tried]), ACTIONS):
        entered.append(states)
        yield states[0]
    phi = agent.model.phi(arena.observe(torch.stack(entered[STARTING:], 1))).double().mean(1)
    value = phi @ tasks.T
    best, average = value.amax(0), value[-RANDOM:].mean(0)
    share = (best - value[0]) / (best - average).clamp(min=torch.finfo(value.dtype).tiny)
    return min(1.0, float(share.quantile(CONFIDENCE)))


def rehearsed(
    arena: VectorArena, state: Float[Tensor, " k"], z: Float[Tensor, "m d"], actions: int
) -> Iterator[Float[Tensor, "m k"]]:
    """The states that π(·,z) enters from one state, for each z, one action after the other."""
    return arena.followed(state.expand(len(z), -1).clone(), z, actions)
