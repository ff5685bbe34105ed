"""Grid worlds by name."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cache
from typing import Any

import torch
from gymnasium.spaces import Discrete
from jaxtyping import Float
from torch import Generator, Tensor

from zscout.base.edge import as_size, as_table, as_vectors, in_range, known_name
from zscout.base.types import BehaviorModel, Vectors
from zscout.lab.arenas.arena import Arena, Batch, Task
from zscout.lab.arenas.ground import OF_ARENAS, Ground, arena_features, world_named
from zscout.lab.arenas.simulation import TaskRuns
from zscout.lab.arenas.source import UserObject
from zscout.loop.loading import load
from zscout.models.exact.corrupted import Corrupted
from zscout.models.exact.model import ExactModel
from zscout.models.usfa.judging import Tabulated
from zscout.models.usfa.model import USFA
from zscout.worlds.grids.grid import GridWorld
from zscout.worlds.registry import PLACES

MOST_EXACT_STATES = 2_000  # states: tables of a larger world take minutes and gigabytes
OWN = "own"  # the name of an object in records
EVALUATORS = ("auto", "exact", "monte-carlo")


@dataclass(frozen=True)
class GridArena(Arena):
    """A grid world, features and a model by name; ``GridArena.of`` also takes them as objects."""

    world: str = "open-grid"
    features: str = "laplacian"
    model: str = "exact"  # exact, network (the shipped one), or a saved model's name or folder
    psi_error: float = 0.0  # relative size of an error added to the exact model's ψ …
    heads: int = 1  # … in each of this number of heads
    device: str = "cpu"
    evaluator: str = "auto"  # exact, or monte-carlo for a network in a large world
    objects: UserObject | None = None  # by the names of the fields that they replace

    @classmethod
    def of(
        cls,
        world: str | GridWorld = "open-grid",
        features: str | Vectors = "laplacian",
        model: str | BehaviorModel = "exact",
        **rest: Any,
    ) -> "GridArena":
        """An arena of names and objects; an object's name is ``own``."""
        if not isinstance(world, str | GridWorld):
            raise ValueError(f"world must be a name or a GridWorld, got {type(world).__name__}")
        parts = {"world": world, "features": features, "model": model}
        objects = {name: part for name, part in parts.items() if not isinstance(part, str)}
        names: dict[str, Any] = parts | dict.fromkeys(objects, OWN)
        return cls(**names, **rest, objects=UserObject.of(objects) if objects else None)

    def __post_init__(self) -> None:
        in_range(self.psi_error, "psi_error", 0.0, math.inf, open_end=True)
        as_size(self.heads, "heads", 1, 100)
        known_name(self.evaluator, EVALUATORS, "evaluator")
        if self.model != "exact" and (self.psi_error or self.heads > 1):
            raise ValueError("psi_error and heads need the exact model: they add errors to its ψ")

    @property
    def ground(self) -> Ground:
        """World, features and model, built once."""
        return _ground(self)

    @property
    def key(self) -> str:
        """world/features/model."""
        return f"{self.world}/{self.features}/{self.model}"

    @property
    def bfm(self) -> BehaviorModel:
        """The model."""
        return self.ground.model

    @property
    def fingerprint(self) -> str:
        """Digest of the map, the features, the weights, and the source of objects."""
        return self.ground.fingerprint + (self.objects.digest if self.objects else "")

    def exact_with(self, states: int) -> bool:
        """Whether regret is exact in a world of this number of states."""
        return self.evaluator == "exact" or (
            self.evaluator == "auto" and (self.model == "exact" or states <= MOST_EXACT_STATES)
        )

    def to_json(self) -> dict[str, Any]:
        """The names, without the device, which changes nothing."""
        return {it.name: getattr(self, it.name) for it in fields(self) if it.name not in ("device", "objects")}

    def vectors(self, tasks: Sequence[Task]) -> Float[Tensor, "R d"]:
        """z_r."""
        return as_vectors([list(task) for task in tasks], self.bfm.dim, "tasks", torch.device("cpu"))

    def environment(self, batch: Batch) -> TaskRuns:
        """Runs without episode ends."""
        reward = self.ground.rewards(self.vectors(batch.tasks), batch.seeds, batch.outside, batch.offset)
        return TaskRuns(self.ground.world, reward, batch.noise, torch.tensor(batch.seeds))


def finite(arena: Arena) -> GridArena:
    """The arena, if it has tables; else an error."""
    if not isinstance(arena, GridArena):
        raise ValueError(f"{arena.key} has no tables of states: this needs a finite world")
    return arena


@cache
def _ground(arena: GridArena) -> Ground:
    objects = arena.objects.value if arena.objects else {}
    world = objects["world"] if "world" in objects else world_named(arena.world)
    shipped = arena.model in ("exact", "network")
    if not shipped and "model" not in objects and not arena.exact_with(world.n_states):
        network = _grid_network(arena.model, arena, world)
        trained_on = str(network.about.get("features", arena.features)).split(",")[0]
        if trained_on != arena.features:
            raise ValueError(f"the model {arena.model} was trained on {trained_on} features, got {arena.features}")
        return Ground(world, network.features.double(), network)  # those of a large world take long to compute
    if "features" in objects:
        features = as_table(objects["features"], world.n_states, "features").to(arena.device)
    else:
        features = arena_features(arena.features, world).to(arena.device)
    if "model" in objects:
        model = objects["model"]
        ground = Ground(world, _features_of(model, world.n_states).double(), model)
        return _worthwhile(ground) if arena.exact_with(world.n_states) else ground
    if arena.model == "exact":
        exact = ExactModel(world, features)
        wrong = arena.psi_error or arena.heads > 1
        ground = Ground(world, exact.features, Corrupted(exact, arena.psi_error, arena.heads) if wrong else exact)
        return ground if arena.features in OF_ARENAS else _worthwhile(ground)
    name = arena.model
    if name == "network":
        place = PLACES.get(arena.world)
        if place is None or arena.features not in place.models:
            raise ValueError(
                f"no network ships for {arena.features} in {arena.world}: train one with zscout pretrain, or use "
                "--model exact"
            )
        name = place.models[arena.features]
    network = _grid_network(name, arena, world)
    same = network.features.shape == features.shape and torch.allclose(network.features.double(), features, atol=1e-5)
    if not same:
        raise ValueError(f"the model {name} was not trained on {arena.features} features of {arena.world}")
    return Ground(world, features, network)


def _grid_network(name: str, arena: GridArena, world: GridWorld) -> USFA:
    """The model of that name or folder; raises unless it is a model of this world."""
    network: Any = load(name)
    if not isinstance(network, USFA):
        home = getattr(network, "about", {}).get("world", "another kind of world")
        raise ValueError(f"{name} is not a model of a grid world: it is for {home}")
    trained_in = network.about.get("map", str(world).splitlines())
    if network.config.n_states != world.n_states or trained_in != str(world).splitlines():
        raise ValueError(f"the model {name} was not trained on {arena.features} features of {arena.world}")
    return network.to(arena.device)


def _features_of(model: BehaviorModel, states: int) -> Float[Tensor, "S d"]:
    """φ of every state by a user's model; it must act deterministically or have ``policy(z)``."""
    name = type(model).__name__
    if not isinstance(model, BehaviorModel):
        raise ValueError(f"{name} is not a BehaviorModel: zscout.check_model says why")
    if not isinstance(model.observation_space, Discrete):
        raise ValueError(
            f"{name} takes observations {model.observation_space}, expected Discrete({states}): methods are compared "
            "in finite worlds, whose observations are state numbers; run a model of vectors with "
            "zscout.OnlineTransfer and zscout.rollout, and check it with zscout.check_model(model, env=…)"
        )
    every, z = torch.arange(states), model.sample_z(1, 0)
    try:
        phi = model.phi(every)
        rngs = [Generator().manual_seed(seed) for seed in (0, 1)]
        acts = [torch.as_tensor(model.act(every, z.expand(states, -1), rng)) for rng in rngs]
    except (Exception, SystemExit) as error:
        raise ValueError(f"{name} cannot answer for all {states} states: {type(error).__name__}: {error}") from error
    if not isinstance(model, Tabulated) and not torch.equal(*acts):
        raise ValueError(f"{name} draws its actions: exact regret needs its policy(z), the probabilities [n S A]")
    return phi


def _worthwhile(ground: Ground) -> Ground:
    """The ground; raises if all policies have the same value."""
    if ground.gap <= 1e-9 * float(ground.features.abs().max()):
        raise ValueError("with these features every policy is worth the same: there is nothing to compare")
    return ground
