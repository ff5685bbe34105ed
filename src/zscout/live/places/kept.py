"""Behaviours of a body that visitors keep in a memory, for later runs and for each other."""

from pathlib import Path
from typing import Any

from zscout.live.places.body import LiveBody
from zscout.live.places.explanation import in_words, rounded
from zscout.transfer.agent import OnlineTransfer
from zscout.transfer.atlas.atlas import Atlas
from zscout.transfer.atlas.choice import own_atlas
from zscout.transfer.atlas.memory import Memory, Past

LONGEST_NAME = 40  # letters
MOST = 50  # behaviours of a body
RESEMBLES = 0.8  # correlation of rewards from which one is said to resemble another: those of walk and run have .94


class Kept:
    """What a folder holds for one atlas. It may be damaged or deleted at any time: ``trouble`` then says why."""

    def __init__(self, folder: Path, world: LiveBody, atlas: Atlas) -> None:
        self._folder, self._world, self._atlas = folder.resolve(), world, atlas
        self.past: Past | None = None  # None: it cannot be read
        self.trouble = ""
        self.read()

    def read(self) -> None:
        """Read the folder again."""
        try:
            self.past, self.trouble = Memory(self._folder).past(self._atlas), ""
        except (ValueError, OSError) as error:
            self.past, self.trouble = None, f"Kept behaviours are not used: {self._in_words(error)}"

    def listed(self) -> list[dict[str, Any]]:
        """Name, z and words of each, as the page lists them."""
        if self.past is None:
            return []
        rows = zip(self.past.names, self._atlas.z[self.past.best].double().cpu(), self.past.weights.cpu(), strict=True)
        pays = self._world.correlations.of_linear
        return [
            {"name": name, "z": rounded(z, 6), "likes": in_words(self._world.goals, pays(weights, self._atlas))}
            for name, z, weights in [*rows][:MOST]
        ]

    def keep(self, name: Any, agent: OnlineTransfer, replace: Any) -> None:
        """Keep what an agent has learned; an old behaviour of this name only if it may be replaced."""
        if not isinstance(name, str) or not 0 < len(name.strip()) <= LONGEST_NAME or not name.isprintable():
            raise ValueError(f"a behaviour needs a name of 1 to {LONGEST_NAME} printable letters")
        if not isinstance(replace, bool):
            raise ValueError("replace must be true or false")
        try:
            memory = Memory(self._folder)
            names = memory.past(self._atlas).names
            if name.strip() in names and not replace:
                raise ValueError(f"there is already a “{name.strip()}”: choose another name, or replace it")
            if name.strip() not in names and len(names) >= MOST:
                raise ValueError(f"{MOST} behaviours are kept, the most: replace one by its name")
            memory.keep(name.strip(), self._atlas, agent.z_hat, agent.best_z)
        except (ValueError, OSError) as error:
            raise ValueError(f"This was not kept: {self._in_words(error)}") from error
        finally:
            self.read()  # another visitor may have kept something

    def _in_words(self, error: Exception) -> str:
        """The error, for visitors: without where the folder is."""
        said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        return said.replace(f"{self._folder}/", "").replace(str(self._folder), "the folder")


def kept_in(folder: Path | None, world: object) -> Kept | None:
    """What is kept of a world; None without a folder, or where behaviours have no atlas."""
    if folder is None or not isinstance(world, LiveBody):
        return None
    atlas = own_atlas(world.arena.bfm)
    return None if atlas is None else Kept(folder, world, atlas)


def resembled(agent: OnlineTransfer) -> tuple[str, float] | None:
    """The kept behaviour whose reward the agent's resembles most; None if none is near."""
    name, share = next(iter(agent.resembles.items()), ("", 0.0))
    return (name, round(float(share), 2)) if float(share) >= RESEMBLES else None
