"""Maps, and what the page shows of a method there: expected reward, uncertainty and goal of each place, a sentence."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from jaxtyping import Float
from torch import Tensor

from zscout.live.places.explanation import Explanation, LiveMode, place_of, rounded
from zscout.live.places.hidden_reward import Hidden
from zscout.live.places.run_so_far import RunSoFar
from zscout.worlds.grids.grid import Cell


class LiveMap(ABC):
    """A world with places: squares on a map. Paintings, estimates and targets are of these."""

    constants: ClassVar[dict[str, Any]] = {}  # the map is offered

    shape: Cell  # rows and columns of the map, in squares
    places: list[Cell]  # row and column of each place; other squares are walls
    features: Float[Tensor, "n d"]  # φ of each place

    @property
    def entries(self) -> int:
        """The number of places."""
        return len(self.places)

    @abstractmethod
    def place(self, obs: Any) -> int:
        """The place of an observation."""


def map_frame(
    world: LiveMap, run: RunSoFar, hidden: Hidden | None, mode: LiveMode, target: int | None
) -> dict[str, Any]:
    """Where it is and heads to, three maps, and the sentence."""
    last = run.steps[-1] if run.steps else None
    posterior, features, place = run.agent.posterior, world.features, world.place
    estimate, doubt = posterior.reward(features).cpu(), posterior.reward_width(features).cpu()
    goal = None if last is None or last.belief.exploring else features.cpu() @ last.z.cpu()
    here = place(run.obs)
    to = here if target is None else target
    part, part_here = (place_of(world.places[index], world.shape) for index in (to, here))
    radius = 0.0 if last is None else float(last.belief.radius)
    why = Explanation(
        mode=mode,
        place=part,
        there=mode == "stays" or (mode == "tries" and part == part_here),
        expected=float(estimate[to]),
        best=float(estimate.max()),
        possible=float(estimate[to]) + radius * float(doubt[to]),
        least_known=bool(doubt[to] >= 0.9 * doubt.max()),
        weighs=run.weighs,
        told=run.told.count,
        largest=run.told.largest,
        # The page's brush and buttons give at most 1; links and messages can give more.
        limit=max(1.0, run.told.largest if hidden is None else float(hidden.table.abs().max())),
    )
    return {
        "at": here if last is None else place(last.entered),
        "from": None if last is None else place(last.state),
        "heading": target,
        "says": why.sentence,
        "estimate": rounded(estimate),
        "best": int(estimate.argmax()),
        "doubt": rounded(doubt),
        "after": None if goal is None else rounded(goal / goal.abs().max().clamp(min=1e-12)),
    }
