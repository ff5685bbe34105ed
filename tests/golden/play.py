"""One case: four runs follow a feed, what they answer is noted; or held against what was noted before."""

import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

import zscout

from .cases import FIXED, RUNS, STEPS, Case, Feed, arena_of
from .names import acts, tell

Rows = dict[str, np.ndarray]  # numbers by name: [times, 4 runs, k]; and psi [40, 4, 3], of each z asked for
CREDITED, COMPARED = 6, 3  # observations that share a credit, and of each clip of a comparison
NUMBERS = {
    "z_hat": (4, 3),
    "expected": (4, 3),
    "best": (4, 3),
    "certificate": (1, 3),
    "fit": (1, 4),
    "wants": (1, FIXED),
}
NUMBERS |= {"changes": (1, 1)}  # times and numbers of each run
NOWHERE = -1  # index of z where the method acts


@dataclass
class Played:
    """What a case answered, and where it differs from the record."""

    rows: Rows = field(default_factory=dict)
    z: list[np.ndarray] = field(default_factory=list)  # [4 d] a step; NaN where the method acts
    refused: str = ""  # the kind of the error
    differs: list[str] = field(default_factory=list)


def vectors(size: int) -> np.ndarray:
    """Three fixed vectors."""
    k = np.arange(1, size + 1)[:, None]
    return np.sin(k * [1.3, 2.7, 3.1] + [0.1, 0.5, 0.9])


def products(values: Any) -> Any:
    """Products of each run's numbers [4 …] with three fixed vectors: [4 3]."""
    flat = np.asarray(values, dtype=np.float64).reshape(RUNS, -1)
    return flat @ vectors(flat.shape[1])


def size(values: np.ndarray) -> float:
    """The largest number."""
    return float(np.nanmax(np.abs(values), initial=0.0))


def close(one: np.ndarray, other: np.ndarray, within: float, of: float | None = None) -> Any:
    """For each row of numbers, whether they are the same within a share of their size."""
    same = np.abs(one - other) <= within * (size(other) if of is None else of)
    return (same | (one == other) | (np.isnan(one) & np.isnan(other))).all(-1)


def play(case: Case, feed: Feed, known: Rows | None = None, within: float = 0.0, swapped: bool = False) -> Played:
    """Follow a feed. With ``known``, compare: after a difference the recorded z is followed.

    ``swapped``: each run is told that it followed another run's z.
    """
    found = Played()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _play(case, feed, found, known, within, swapped)
    except (ValueError, TypeError, NotImplementedError) as error:
        found.refused = "ValueError" if isinstance(error, ValueError) else type(error).__name__
    return found


def _play(case: Case, feed: Feed, found: Played, known: Rows | None, within: float, swapped: bool) -> None:
    agent, arena, kept, apart = case.agent(feed), arena_of(case.arena), [], False
    obs, psi = feed["obs"], np.full((STEPS, RUNS, 3), np.nan)
    if case.extra == "learn":
        agent.learn(feed["lesson"], feed["marks"])
    for t in range(STEPS):
        z = other = None
        if acts(agent):
            agent.act(obs[t])
        else:
            z = agent.ask(obs[t])
            psi[t], other = products(arena.psi(obs[t], z)), z.roll(1, 0) if swapped else None
        found.z.append(np.full((RUNS, agent.bfm.dim), np.nan) if z is None else z.double().numpy())
        if known is not None:
            other, apart = _other(case, t, found, psi[t], known, obs[t], within, apart)
        if not tell(agent, obs[t], other, obs[t + 1], **_told(case, feed, t)):
            found.differs.append(f"cannot go on from step {t}: it learns from its own z only")
            return
        _more(case, feed, t, agent)
        if case.extra == "saved" and t == STEPS // 2:
            agent = case.reloaded(agent)
        if t % 10 == 9:
            kept.append(_numbers(agent, arena, feed))
    found.rows = {"psi": psi} | {name: np.stack([one[name] for one in kept]) for name in kept[0]} | _end(agent, feed)


def _other(
    case: Case, t: int, found: Played, psi: np.ndarray, known: Rows, obs: Any, within: float, apart: bool
) -> tuple[torch.Tensor | None, bool]:
    """The recorded z if it is to be followed; and whether a z was followed before.

    What holds a z is out of step then: from there on only its new z are compared.
    """
    here, lost = known["open.psi"][t], np.isnan(psi).any()
    if "z" not in known:  # the past choice does not count
        wrong = ~close(psi[:, :1], known["psi"][t], within, size(known["psi"])) & ~here
        found.differs += [f"step {t}, run {run}: another z" for run in wrong.nonzero()[0]]
        return None, False
    index, z = known["index"], known["z"]
    if lost or (index[t] == NOWHERE).any():
        if not lost or (index[t] != NOWHERE).any():
            found.differs.append(f"step {t}: it acts where it chose z, or the other way round")
        return None, apart
    wanted = torch.from_numpy(z[index[t]].astype(np.float64))
    theirs = products(arena_of(case.arena).psi(obs, wanted))
    same = (found.z[-1].astype(z.dtype) == z[index[t]]).all(-1) | close(psi, theirs, within)
    waits = (index[t] == index[t - 1]) if case.holds and apart and t else np.zeros(RUNS, dtype=bool)
    found.differs += [f"step {t}, run {run}: another z" for run in (~same & ~waits & ~here).nonzero()[0]]
    psi[waits] = np.nan  # an answer to nothing
    apart = (apart and case.holds) or not same.all()
    return (wanted if apart else None), apart


def _told(case: Case, feed: Feed, t: int) -> dict[str, Any]:
    reward = feed["rewards"][t]
    told: dict[str, Any] = {"reward": reward, "done": feed["own_ends" if "hold" in case.extra else "ends"][t]}
    if case.extra == "change" and t >= STEPS // 2:
        told["reward"] = -reward
    if case.extra == "offset":
        told["reward"] = reward + 1000
    if case.extra == "missing":
        told |= {"reward": None} if t % 7 == 3 else {"seen": feed["seen"][t]}
    if case.extra == "limit-told":
        told["cost"] = feed["costs"][t]
    return told


def _more(case: Case, feed: Feed, t: int, agent: zscout.OnlineTransfer) -> None:
    """What is learned between steps."""
    if case.extra == "learn" and t == 15:
        agent.learn(feed["lesson"], -feed["marks"], seen=feed["marks"] > 0)
    if t % 8 != 7:
        return
    past, rewards = feed["obs"][t + 2 - CREDITED : t + 2].swapaxes(0, 1), feed["rewards"]
    if case.extra == "credit":
        agent.credit(past, rewards[t], zscout.Credit(delay=1, spread=2))
    if case.extra == "prefer":
        first = rewards[t - 5 : t - 2].sum(0) > rewards[t - 2 : t + 1].sum(0)
        first = first.reshape(RUNS, *[1] * (past.ndim - 1))
        clips = past[:, :COMPARED], past[:, COMPARED:]
        agent.prefer(np.where(first, *clips), np.where(first, *clips[::-1]))


def _numbers(agent: zscout.OnlineTransfer, arena: Any, feed: Feed) -> Rows:
    """Of a tenth step."""
    best, fixed = agent.best_z, feed["fixed"]
    psi = np.stack([arena.psi(np.repeat(one[None], RUNS, 0), best) for one in fixed], 1)  # [4 8 D]
    return {
        "z_hat": products(agent.z_hat),
        "expected": products(agent.expected_reward(fixed)),
        "best": products(psi),
    }


def _end(agent: zscout.OnlineTransfer, feed: Feed) -> Rows:
    """After the last step."""
    certificate, fit = agent.certificate(), agent.fit
    gains = [certificate.gain, certificate.share, certificate.limits_cost]
    wants = [torch.as_tensor(agent.wants_reward(np.repeat(one[None], RUNS, 0))) for one in feed["fixed"]]
    found: dict[str, list[torch.Tensor]] = {
        "certificate": gains,
        "fit": [fit.r2, fit.low, fit.high, fit.count],
        "wants": wants,
    }
    found["changes"] = [torch.as_tensor(agent.changes)]
    return {name: torch.stack([one.double() for one in each], -1).numpy()[None] for name, each in found.items()}
