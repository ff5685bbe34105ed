"""Training settings of a USFA. Numbers in brackets: deviations from the paper, see docs/training.md."""

from dataclasses import dataclass, fields

from zscout.base.edge import as_discount, as_size, in_range


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """All settings of a training: the same object is the flags, the file and the record. Default: ``robust``."""

    policy_steps: int = 4_000  # steps that train the actor; without an actor, ψ
    evaluation_steps: int = 4_000  # steps that train ψ for the fixed actor [8]
    tasks: int = 32  # z per step; each is trained in all states of the data
    learning_rate: float = 3e-3
    cosine: bool = True  # half-cosine decay of the learning rate to 0 in each phase [1]
    dropout: float = 0.0  # [2]
    ball: bool = False  # draw z from the ball of radius √d; else from the sphere Z [3]
    place: bool = True  # state input: one-hot, row and column, and φ; else one-hot only [4]
    heads: int = 2  # independent ψ networks; targets bootstrap from the lowest [5]
    actor: bool = True  # train a policy network; else the policy is greedy in ψ·z [6]
    chain: int = 512  # stored transitions that a target follows after (s, a, s') before it bootstraps from ψ [7]
    softness: float = 0.2  # temperature of the actor's labels, in reward: 0 is the argmax, else a softmax [6]
    averaged: bool = True  # the model is the slow average of the weights; else the weights [9]
    tau: float = 0.01  # rate of that average, which is also the target network
    gamma: float = 0.99
    hidden: int = 256
    layers: int = 4
    moment_steps: int = 0  # steps that train M of the fixed policies, see moment_training; 0: a model without M
    moment_gamma: float = 0.8  # M's discount: that of the default score
    moment_hidden: int = 96
    moment_layers: int = 2

    def __post_init__(self) -> None:
        for field in fields(self):
            name, value = field.name, getattr(self, field.name)
            if field.type is int:
                as_size(value, name, 0 if name in ("evaluation_steps", "chain", "moment_steps") else 1)
            if field.type is bool and not isinstance(value, bool):
                raise ValueError(f"{name} must be true or false, got {value!r}")
        if self.chain & (self.chain - 1):
            raise ValueError(f"chain must be 0 or a power of two, got {self.chain}")
        as_discount(self.gamma)
        in_range(self.moment_gamma, "moment_gamma", 0.0, 1.0, open_end=True)
        in_range(self.dropout, "dropout", 0.0, 1.0, open_end=True)
        in_range(self.tau, "tau", 0.0, 1.0)
        in_range(self.learning_rate, "learning_rate", 0.0, 1.0)
        in_range(self.softness, "softness", 0.0, 1e6)
        if self.evaluation_steps and not self.actor:
            raise ValueError("evaluation_steps need actor=True: without an actor the policy is greedy in ψ·z")

    @property
    def steps(self) -> int:
        """Steps of policies and ψ."""
        return self.policy_steps + self.evaluation_steps

    @property
    def bootstraps(self) -> bool:
        """Whether the weight beyond the chain, γ^chain, is large enough that the policy's targets need ψ."""
        return self.gamma**self.chain > 0.01


RECIPES = {
    "paper": Recipe(
        policy_steps=12_000,
        evaluation_steps=0,
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
    ),
    "robust": Recipe(),
}
