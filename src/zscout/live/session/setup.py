"""What determines a live run: the same object is the page's message, its link and the record."""

from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from zscout.base.edge import as_size, in_range, known_name
from zscout.lab.arenas.ground import DIM
from zscout.live.session.offers import LiveWorld, live_world, offer_of, offered
from zscout.transfer.baselines.rollout_searches import RolloutSearch
from zscout.transfer.belief.change import ChangeTest
from zscout.transfer.methods import METHODS, Method, is_default

METHODS_OFFERED = [name for name in METHODS if name != "oracle"]  # the oracle would have to know the hidden reward

EVIDENCE = 30.0  # nats: with 10 a painted patch, which features express in part, is taken for a change


@dataclass(frozen=True)
class Setup:
    """Names and numbers; the same set-up gives the same run unless a person intervenes. Raises if invalid."""

    world: str = "open-grid"
    features: str = "laplacian-fine"
    model: str = "exact"
    methods: tuple[str, ...] = ("usf-ucb",)  # two run side by side on the same hidden reward
    who: Literal["hidden", "person"] = "hidden"  # where rewards come from: a painting that the agent cannot see, or you
    noise: float = 0.1  # σ of a hidden reward
    may_change: bool = True  # whether a test looks for a change of the task after each reward
    silence: Literal["nothing", "zero"] = "nothing"  # what the agent learns if it asks and gets no answer
    wait: bool = True  # whether it waits for the answer
    upright: bool = False  # of a body: try only behaviours that rarely fall
    seed: int = 0
    task: int | None = None  # the hidden reward: the number of a random task …
    table: tuple[float, ...] | None = None  # … or painted, one number per state

    def __post_init__(self) -> None:
        offer = offer_of(self.world)
        if offer.missing:
            raise ValueError(f"{self.world} {offer.missing}")
        known_name(self.features, offer.features, "feature set")
        known_name(self.model, offer.models, "model")
        known_name(self.who, ("hidden", "person"), "kind of reward")
        known_name(self.silence, ("nothing", "zero"), "meaning of silence")
        object.__setattr__(self, "noise", in_range(self.noise, "noise", 0.0, 5.0))  # JavaScript writes 1.0 as 1
        as_size(self.seed, "seed", 0, 2**31 - 1)
        for part in ("may_change", "wait", "upright"):
            flag = getattr(self, part)
            if not isinstance(flag, bool):
                raise ValueError(f"{part} must be true or false, got {str(flag)[:40]!r}")
        if self.task is not None:
            task_in(self.task)
        if self.table is not None:
            if not isinstance(self.table, tuple) or not 1 <= len(self.table) <= 1_000:
                raise ValueError("table must be a list with one number per state")
            for value in self.table:
                reward_in(value)
        if self.model == "network" and self.features not in offer.networks:
            raise ValueError(f"no network ships for {self.features} in {self.world}: choose the exact model")
        self._check_methods()
        if self.who == "person" and (len(self.methods) > 1 or self.task is not None or self.table is not None):
            raise ValueError("with a person as the reward there is one method and no hidden reward")
        if self.task is not None and self.table is not None:
            raise ValueError("a hidden reward is a task or a table, not both")

    def _check_methods(self) -> None:
        if not isinstance(self.methods, tuple):
            raise ValueError("methods must be a list of names")
        for name in self.methods:
            known_name(name, METHODS_OFFERED, "method")
            if self.who == "person" and needs_every_reward(name):
                raise ValueError(f"{name} scores whole rollouts and needs every reward: a person may skip some")
        if self.upright and (offer_of(self.world).kind != "stage" or self.methods != ("usf-ucb",)):
            raise ValueError("upright needs a body and the method usf-ucb alone: only it knows what falls")
        if not 1 <= len(self.methods) <= 2 or len(set(self.methods)) < len(self.methods):
            raise ValueError("methods must be one, or two different ones")

    @classmethod
    def from_json(cls, content: Any) -> "Setup":
        """The page's set-up: ``reward`` holds the task or the table; missing parts are the world's defaults."""
        if not isinstance(content, dict):
            raise ValueError("a set-up must be an object")
        world = content.get("world")
        parts = {**(offer_of(world).defaults if world in offered() else {}), **content}
        reward = parts.pop("reward", None)
        for name in parts:
            known_name(name, [field.name for field in fields(cls)][:-2], "part of a set-up")  # without task and table
        if reward is not None:
            if not isinstance(reward, dict) or len(reward) != 1 or not reward.keys() <= {"task", "table"}:
                raise ValueError('reward must be {"task": number}, {"table": numbers} or null')
            parts |= reward
        parts = {name: tuple(value) if isinstance(value, list) else value for name, value in parts.items()}
        return cls(**parts)

    def to_json(self) -> dict[str, Any]:
        """What ``from_json`` reads."""
        content = asdict(self)
        task, table = content.pop("task"), content.pop("table")
        reward = {"task": task} if task is not None else None if table is None else {"table": list(table)}
        return {**content, "methods": list(self.methods), "reward": reward}

    @property
    def live_world(self) -> LiveWorld:
        """The world with its model."""
        return live_world(self.world, self.features, self.model)

    def build(self, name: str) -> Method:
        """A method for this world; one that scores whole rollouts has no change test."""
        arena = self.live_world.arena
        noise = self.noise if self.who == "hidden" else None  # as in the laboratory, so that runs can be compared
        method = METHODS[name](dim=arena.bfm.dim, noise=noise)
        often = method.hold == 1 and not is_default(method) and not needs_every_reward(name)
        hold = offer_of(self.world).hold if often else method.hold  # the default has that of the body's atlas
        by_atlas = is_default(method) and offer_of(self.world).kind == "stage"
        test = ChangeTest() if by_atlas else ChangeTest(evidence=EVIDENCE)
        change = test if self.may_change and not needs_every_reward(name) else None
        return replace(method, hold=hold, change=change)

    def hidden_table(self) -> Float[Tensor, " n"]:
        """The hidden reward: that of the random task, the painting, or 0."""
        entries = self.live_world.entries
        if self.task is not None:
            return self.live_world.random_task(self.task)
        table = (0.0,) * entries if self.table is None else self.table
        if len(table) != entries:
            raise ValueError(
                f"the table has {len(table)} numbers, this world has {entries} {offer_of(self.world).entry}"
            )
        return torch.tensor(table, dtype=torch.float64)


def reward_in(value: Any) -> float:
    """A reward that a person painted or gave."""
    return in_range(value, "a reward", -10.0, 10.0)


def task_in(value: Any) -> int:
    """The number of a random task."""
    return as_size(value, "the number of a task", 0, 999_999)


def needs_every_reward(name: str) -> bool:
    """Whether the method scores whole rollouts, so that no reward may be missing."""
    return isinstance(METHODS[name](dim=DIM).search, RolloutSearch)
