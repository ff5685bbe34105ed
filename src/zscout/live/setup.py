"""What decides a live run, as the page says it and as a link keeps it."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

from zscout.edge import as_size, in_range, known_name

Who: TypeAlias = Literal["hidden", "person"]
Silence: TypeAlias = Literal["nothing", "zero"]

LARGEST_REWARD = 10.0
MOST_NOISE = 5.0
MEMORY = (5, 10_000)  # steps
LAST_TASK, LAST_SEED = 999_999, 2**31 - 1


@dataclass(frozen=True)
class Setup:
    """Names and numbers; the same set-up gives the same run, as long as nobody interferes."""

    world: str = "open-grid"
    features: str = "laplacian-fine"
    model: str = "exact"
    methods: tuple[str, ...] = ("usf-ucb",)  # two run side by side on the same hidden reward
    who: Who = "hidden"  # whose reward: one that is painted and hidden from the agent, or a person's
    noise: float = 0.1  # σ of a hidden reward
    memory: int | None = 70  # steps: ρ = 1 − 1/memory; None forgets nothing
    silence: Silence = "nothing"  # what it means where a person was asked
    wait: bool = True  # for a person's answer, where one was asked for
    seed: int = 0
    task: int | None = None  # a random hidden reward by number …
    table: tuple[float, ...] | None = None  # … or a painted one, a number for each state

    def __post_init__(self) -> None:
        if not 1 <= len(self.methods) <= 2 or len(set(self.methods)) < len(self.methods):
            raise ValueError("methods are one, or two different ones")
        if self.who == "person" and (len(self.methods) > 1 or self.task is not None or self.table is not None):
            raise ValueError("where a person is the reward there is one method, and nothing painted")
        if self.task is not None and self.table is not None:
            raise ValueError("a reward is a task or a table, not both")

    @classmethod
    def from_json(cls, content: Any) -> "Setup":
        """As the page writes it: ``reward`` holds the task or the table; what is left out is as usual."""
        given = dict(as_object(content, "a set-up"))
        reward = given.pop("reward", None)
        read = {name: PARTS[known_name(name, PARTS, "part of a set-up")](value) for name, value in given.items()}
        if reward is not None:
            if len(as_object(reward, "reward")) != 1 or not set(reward) <= {"task", "table"}:
                raise ValueError('reward is {"task": number}, {"table": numbers} or null')
            [(kind, value)] = reward.items()
            read[kind] = None if value is None else task_in(value) if kind == "task" else rewards_in(value)
        return cls(**read)

    def to_json(self) -> dict[str, Any]:
        """What ``from_json`` reads."""
        content = asdict(self)
        task, table = content.pop("task"), content.pop("table")
        reward = {"task": task} if task is not None else None if table is None else {"table": list(table)}
        return {**content, "methods": list(self.methods), "reward": reward}

    @property
    def forgetting(self) -> float:
        """ρ."""
        return 1.0 if self.memory is None else 1 - 1 / self.memory


def as_object(content: Any, name: str) -> Mapping[str, Any]:
    """A JSON object, or an error."""
    if not isinstance(content, dict):
        raise ValueError(f"{name} is an object")
    return content


def rewards_in(content: Any) -> tuple[float, ...]:
    """Rewards of states."""
    if not isinstance(content, list) or not 1 <= len(content) <= 1_000:
        raise ValueError("a table is a list with a number for each state")
    return tuple(reward_in(value) for value in content)


def reward_in(value: Any) -> float:
    """One reward."""
    return in_range(value, "a reward", -LARGEST_REWARD, LARGEST_REWARD)


def task_in(value: Any) -> int:
    """The number of a random task."""
    return as_size(value, "the number of a task", 0, LAST_TASK)


def noise_in(value: Any) -> float:
    """σ; JavaScript writes 1.0 as 1."""
    return in_range(value, "noise", 0.0, MOST_NOISE)


def silence_in(value: Any) -> Silence:
    """What it means when nothing is said."""
    return "zero" if known_name(value, ("nothing", "zero"), "meaning of silence") == "zero" else "nothing"


def wait_in(value: Any) -> bool:
    """Whether it waits for a person."""
    if not isinstance(value, bool):
        raise ValueError(f"wait must be true or false, got {str(value)[:40]!r}")
    return value


def _names(content: Any) -> tuple[str, ...]:
    if not isinstance(content, list) or not all(isinstance(name, str) and len(name) < 64 for name in content):
        raise ValueError("methods is a list of names")
    return tuple(content)


def _name(kind: str) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if not isinstance(value, str):
            raise ValueError(f"{kind} is a name")
        return value

    return read


PARTS: Mapping[str, Callable[[Any], Any]] = {  # of a set-up, and how each is read
    **{kind: _name(kind) for kind in ("world", "features", "model")},
    "methods": _names,
    "who": lambda value: known_name(value, ("hidden", "person"), "kind of reward"),
    "noise": noise_in,
    "memory": lambda value: None if value is None else as_size(value, "memory", *MEMORY),
    "silence": silence_in,
    "wait": wait_in,
    "seed": lambda value: as_size(value, "seed", 0, LAST_SEED),
}
