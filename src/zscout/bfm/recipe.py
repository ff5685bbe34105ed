"""How a USFA is trained, as data. The numbers in brackets are the deviations from the paper in docs/training.md."""

from dataclasses import dataclass

from zscout.edge import as_discount, as_size, in_range


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """One training, whole: the same object is the flags, the file and the record."""

    policy_steps: int  # the actor learns; without one, ψ and with it the policy
    evaluation_steps: int  # the actor is kept, ψ is learned for it [8]
    tasks: int  # z in a step; each is trained in all states of the data
    learning_rate: float
    cosine: bool  # in each phase the learning rate falls to 0 along a half cosine [1]
    dropout: float  # [2]
    ball: bool  # z from the ball of radius √d, or from the sphere, Z itself [3]
    place: bool  # the state is told by one-hot, row and column, and φ; or by one-hot alone [4]
    heads: int  # independent ψ networks; bootstrapped values are those of the least [5]
    actor: bool  # a policy network that learns which action is best; or the policy is greedy in ψ·z [6]
    chain: int  # how many stored transitions a target follows after (s, a, s') before it trusts ψ [7]
    softness: float  # of the actor's labels, in reward: 0 names the best action, else a softmax weighs all [6]
    averaged: bool  # the model is the slow average of the weights, or the weights themselves [9]
    tau: float  # how fast that average, which is also the target, follows
    gamma: float = 0.99
    hidden: int = 256
    layers: int = 4

    def __post_init__(self) -> None:
        for name in ("policy_steps", "tasks", "heads", "hidden", "layers"):
            as_size(getattr(self, name), name, 1)
        for name in ("evaluation_steps", "chain"):
            as_size(getattr(self, name), name, 0)
        for name in ("cosine", "ball", "place", "actor", "averaged"):
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"{name} must be true or false, got {getattr(self, name)!r}")
        if self.chain & (self.chain - 1):
            raise ValueError(f"chain must be 0 or a power of two, got {self.chain}")
        as_discount(self.gamma)
        in_range(self.dropout, "dropout", 0.0, 1.0, open_end=True)
        in_range(self.tau, "tau", 0.0, 1.0)
        in_range(self.learning_rate, "learning_rate", 0.0, 1.0)
        in_range(self.softness, "softness", 0.0, 1e6)
        if self.evaluation_steps and not self.actor:
            raise ValueError("evaluation_steps are for an actor: without one the policy is ψ's own")

    @property
    def steps(self) -> int:
        """Both phases."""
        return self.policy_steps + self.evaluation_steps

    @property
    def bootstraps(self) -> bool:
        """Whether what lies beyond the chain weighs enough that the policy's targets need ψ."""
        return self.gamma**self.chain > 0.01


RECIPES = {
    "paper": Recipe(
        policy_steps=12_000,
        evaluation_steps=0,
        tasks=32,
        learning_rate=2.5e-4,
        cosine=False,
        dropout=0.15,
        ball=True,
        place=False,
        heads=1,
        actor=False,
        chain=0,
        softness=0.0,
        averaged=False,
        tau=0.01,
    ),
    "robust": Recipe(
        policy_steps=4_000,
        evaluation_steps=4_000,
        tasks=32,
        learning_rate=3e-3,
        cosine=True,
        dropout=0.0,
        ball=False,
        place=True,
        heads=2,
        actor=True,
        chain=512,
        softness=0.2,
        averaged=True,
        tau=0.01,
    ),
}
