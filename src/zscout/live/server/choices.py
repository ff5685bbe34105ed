"""What the page offers, described for readers who do not know the paper."""

from typing import Any, cast

import zscout
from zscout.lab.arenas.ground import FINE_LAPLACIAN
from zscout.live.places.maps import LiveMap
from zscout.live.session.offers import Offer, live_world, offer_of, offered
from zscout.live.session.setup import METHODS_OFFERED, Setup, needs_every_reward
from zscout.transfer.methods import METHODS
from zscout.worlds.registry import LEARNED, PLACES, Place, of_kind

ABOUT_POINT = (
    "A point with a velocity, pushed by forces. Each episode has 70 decisions, then a new random start. "
    "The maps are of a point at rest."
)
ABOUT_FEATURES = {
    FINE_LAPLACIAN: ("Fine waves", "About thirty smooth patterns (Laplacian). Fine enough for small painted patches."),
    "laplacian": (
        "Smooth waves",
        "Nine smooth patterns (Laplacian). Nearby places look alike, so a few answers teach a lot.",
    ),
    "clusters": ("Nine regions", "The map is cut into nine regions. All places of a region have the same reward."),
    LEARNED: ("Learned", "Features of places, postures and velocities, learned with the network."),
}
DEFAULT_FEATURES = {
    "hidden": FINE_LAPLACIAN,
    "person": "laplacian",
}  # paintings have small patches; a person answers few times
ABOUT_MODELS = {
    "network": (
        "Trained network",
        "Behaviours learned once by a network, then frozen: fast, accurate to a few percent.",
    ),
    "exact": ("Exact", "Behaviours computed exactly for this world. The network approximates these."),
}
ABOUT_FB = {  # by kind of place
    "point": (
        "Forward-backward network",
        "Behaviours learned once by a network, then frozen. With enough rewards, about 86 % of the best return.",
    ),
    "body": ("Forward-backward network", "Behaviours learned once by a network, without any reward, then frozen."),
}
ABOUT_METHODS = {
    "usf-ucb": "Goes where the reward could be highest: expected reward plus uncertainty. The default.",
    "usf-ucb-norm": "usf-ucb that knows in advance how large rewards can be.",
    "usf-ucb-paper": "usf-ucb with the paper's schedule: explores for 50 steps, then less, after 150 not at all.",
    "opti": "OpTI-BFM, a related method: among tasks that fit the rewards so far, picks the most promising.",
    "opti-shipped": "OpTI-BFM, drawing tasks as in its published code.",
    "thompson": "Draws one task that fits the rewards so far, and acts as if it were true.",
    "greedy": "Always does what looks best so far. Never explores on purpose.",
    "random-z": "A random behaviour, a new one every ten steps.",
    "lola": "Changes its behaviour a little after every few trials, always from the same start.",
    "random": "Random steps forever. It learns, but never uses it.",
}
PRESETS = ("stand", "stand-still", "walk", "hop", "run", "walk-backward", "hop-backward", "crouch", "spin")
"""Tasks of bodies that are shown first, where a body has them."""
PARTS = ("title", "kind", "missing", "horizon", "length", "features", "models", "usual", "pace")
"""Of an offer, as they are."""


def choices(seed: int = 0) -> dict[str, Any]:
    """Everything the page offers, and the default set-up with this seed."""
    learned = of_kind("point", "body").values()
    models = ABOUT_MODELS | {place.model: ABOUT_FB[place.kind] for place in learned if place.models}
    return {
        "version": zscout.__version__,
        "defaults": Setup(seed=seed).to_json(),
        "usual": DEFAULT_FEATURES,
        "worlds": [_world(PLACES[name]) for name in offered()],
        "features": [{"name": name, "title": title, "about": about} for name, (title, about) in ABOUT_FEATURES.items()],
        "models": [{"name": name, "title": title, "about": about} for name, (title, about) in models.items()],
        "networks": [[name, features] for name in offered() for features in offer_of(name).networks],
        "methods": [
            {
                "name": name,
                "about": ABOUT_METHODS.get(name) or METHODS[name].about.partition("\n")[0],
                "person": not needs_every_reward(name),
            }
            for name in METHODS_OFFERED
        ],
    }


def _world(place: Place) -> dict[str, Any]:
    offer = offer_of(place.name)
    return {
        "name": place.name,
        **{part: getattr(offer, part) for part in PARTS},
        **(_map(place, offer) if offer.kind == "map" else _stage(place, offer)),
    }


def _map(place: Place, offer: Offer) -> dict[str, Any]:
    world = cast(LiveMap, live_world(place.name, offer.features[0], offer.models[-1]))
    rows, columns = world.shape
    return {
        "about": ABOUT_POINT if place.kind == "point" else f"{rows} × {columns}, {len(world.places)} places.",
        "rows": rows,
        "columns": columns,
        "cells": world.places,
        "entries": world.entries,
        "per_cell": offer.per_cell,
        "brush": offer.brush,
    }


def _stage(place: Place, offer: Offer) -> dict[str, Any]:
    """Parts of rewards by name; the body and its model are loaded with the first run."""
    tasks = [name for rewards in place.task_sets.values() for name in rewards]
    return {
        "about": f"A body from the side, moved by MuJoCo. After {offer.horizon} actions it starts anew.",
        "tasks": [
            {"name": name, "title": name.replace("-", " ").capitalize(), "preset": name in PRESETS} for name in tasks
        ],
        "goals": [{"name": goal.name, "title": goal.title, "low": goal.low, "high": goal.high} for goal in place.goals],
        "entries": len(tasks) + len(place.goals),
    }
