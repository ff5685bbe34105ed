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
    return {
        "at": place(run.obs if last is None else last.entered),
        "from": None if last is None else place(last.state),
        "heading": target,
        "says": _explain(world, run, hidden, mode, target, estimate, doubt).sentence,
        "estimate": rounded(estimate),
        "best": int(estimate.argmax()),
        "doubt": rounded(doubt),
        "after": None if goal is None else rounded(goal / goal.abs().max().clamp(min=1e-12)),
    }


def _explain(
    world: LiveMap,
    run: RunSoFar,
    hidden: Hidden | None,
    mode: LiveMode,
    heading: int | None,
    estimate: Float[Tensor, " n"],
    doubt: Float[Tensor, " n"],
) -> Explanation:
    at = world.place(run.obs)
    target = at if heading is None else heading
    place, here = (place_of(world.places[index], world.shape) for index in (target, at))
    radius = float(run.steps[-1].belief.radius) if run.steps else 0.0
    largest = run.told.largest
    return Explanation(
        mode=mode,
        place=place,
        there=mode == "stays" or (mode == "tries" and place == here),
        expected=float(estimate[target]),
        best=float(estimate.max()),
        possible=float(estimate[target]) + radius * float(doubt[target]),
        least_known=bool(doubt[target] >= 0.9 * doubt.max()),
        weighs=run.weighs,
        told=run.told.count,
        largest=largest,
        # The page's brush and buttons give at most 1; links and messages can give more.
        limit=max(1.0, largest if hidden is None else float(hidden.table.abs().max())),
    )
