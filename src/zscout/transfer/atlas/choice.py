"""Which atlas an agent uses, and what its method is with it."""

from dataclasses import replace

from zscout.base.types import HasAtlas
from zscout.transfer.atlas.atlas import Atlas
from zscout.transfer.atlas.charted import OverAtlas
from zscout.transfer.choosers import Chooser
from zscout.transfer.methods import Method, Prior, has_score, is_default, usf_ucb_atlas
from zscout.transfer.score.acquisition import UCB, Greedy, OverHeads, PathUCB, Thompson
from zscout.transfer.score.search import AtEstimate, PosteriorDraw

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


def over_atlas(method: Method, hold: int) -> Method:
    """The method with an atlas: its ridge, radius and score, over the behaviours of the atlas.

    The default becomes ``usf_ucb_atlas``, which keeps a z for ``hold`` steps unless the method has its own. Sampling z
    becomes sampling of a task (Thompson), following ẑ the highest ψ·ẑ. An atlas has one head.
    """
    if is_default(method):
        kept = hold if method.hold == 1 else method.hold
        return replace(usf_ucb_atlas(), hold=kept, change=method.change)
    if isinstance(method.search, Chooser):
        raise ValueError("this method chooses actions or whole rollouts, so it cannot use an atlas: use usf-ucb")
    score, search = method.acquisition, method.search
    while isinstance(score, OverHeads):
        score = score.score
    if isinstance(score, PathUCB):
        score = UCB()
    if isinstance(search, PosteriorDraw):
        score = Thompson(search.scale)
    elif isinstance(search, AtEstimate):
        score = Greedy()
    elif not has_score(search) or (score != UCB() and not isinstance(score, Thompson | Greedy)):
        raise ValueError("an atlas needs a method whose score is eq. 5, Thompson or greedy: use usf-ucb")
    prior: Prior = "evidence" if method.prior == "evidence" else "ridge"
    return replace(method, search=OverAtlas(), acquisition=score, prior=prior)
