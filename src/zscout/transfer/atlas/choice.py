"""Which atlas an agent uses."""

from zscout.base.types import HasAtlas
from zscout.transfer.atlas.atlas import Atlas
from zscout.transfer.atlas.charted import OverAtlas
from zscout.transfer.methods import Method, is_default

OWN = "own"  # the model's atlas, if the default method is better with it


def own_atlas(bfm: object) -> Atlas | None:
    """The model's atlas, if it has one."""
    found = bfm.atlas if isinstance(bfm, HasAtlas) else None
    return found if isinstance(found, Atlas) else None


def choose_atlas(bfm: object, method: object, bank: object, atlas: object) -> Atlas | None:
    """The atlas to use: the one given, or the model's own by the rule of ``OnlineTransfer``."""
    if isinstance(atlas, Atlas):
        if bank is not None:
            raise ValueError("got a bank and an atlas: pass one of them")
        return atlas
    if atlas is not None and atlas != OWN:
        raise ValueError(f"atlas must be a zscout.Atlas or None, got {type(atlas).__name__}")
    found = own_atlas(bfm)
    needs = isinstance(method, Method) and isinstance(method.search, OverAtlas)
    if needs and (found is None or atlas is None):
        raise ValueError("this method needs an atlas: pass atlas=zscout.chart(bfm, env)")
    if needs:
        return found
    default = method == "usf-ucb" or (isinstance(method, Method) and is_default(method))
    wanted = atlas == OWN and default and bank is None
    return found if wanted and found is not None and found.is_steady else None
