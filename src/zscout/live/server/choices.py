"""What the page offers, described for readers who do not know the paper."""

from typing import Any, cast

import zscout
from zscout.lab.arenas.ground import FINE
from zscout.lab.arenas.point import POINT_MAZE, PointArena
from zscout.live.places.body import task_names
from zscout.live.places.goal_words import goals_of
from zscout.live.places.live_world import LiveMap
from zscout.live.session.offers import LEARNED, OFFERS, Offer, live_world
from zscout.live.session.setup import METHODS_OFFERED, NEEDS_FEATURES, NEEDS_MODEL, Setup, needs_every_reward

ABOUT_WORLDS = {
    POINT_MAZE: "A point with a velocity, pushed by forces. Each episode has 70 decisions, then a new random start. "
    "The maps are of a point at rest.",
}
ABOUT_FEATURES = {
    FINE: ("Fine waves", "About thirty smooth patterns (Laplacian). Fine enough for small painted patches."),
    "laplacian": (
        "Smooth waves",
        "Nine smooth patterns (Laplacian). Nearby places look alike, so a few answers teach a lot.",
    ),
    "clusters": ("Nine regions", "The map is cut into nine regions. All places of a region have the same reward."),
    LEARNED: ("Learned", "Features of places, postures and velocities, learned with the network."),
}
DEFAULT_FEATURES = {"hidden": FINE, "person": "laplacian"}  # paintings have small patches; a person answers few times
ABOUT_MODELS = {
    "network": (
        "Trained network",
        "Behaviours learned once by a network, then frozen: fast, accurate to a few percent.",
    ),
    PointArena.model: (
        "Forward-backward network",
        "Behaviours learned once by a network, then frozen. With enough rewards, about 86 % of the best return.",
    ),
    **{
        name: ("Forward-backward network", "Behaviours learned once by a network, without any reward, then frozen.")
        for offer in OFFERS.values()
        if offer.kind == "stage"
        for name in offer.models
    },
    "exact": ("Exact", "Behaviours computed exactly for this world. The network approximates these."),
}
ABOUT_METHODS = {
    "usf-ucb": "Goes where the reward could be highest: expected reward plus uncertainty. The default.",
    "usf-ucb-norm": "usf-ucb that knows in advance how large rewards can be.",
    "usf-ucb-paper": "usf-ucb with the paper's schedule: explores for 50 steps, then less, after 150 not at all.",
    "usf-ucb-short": "usf-ucb whose exploration bonus looks less far ahead.",
    "log-det": "Weighs reward against how much a whole behaviour would teach.",
    "opti": "OpTI-BFM, a related method: among tasks that fit the rewards so far, picks the most promising.",
    "opti-shipped": "OpTI-BFM, drawing tasks as in its published code.",
    "optimism": "Acts for the most rewarding task that still fits the rewards so far.",
    "thompson": "Draws one task that fits the rewards so far, and acts as if it were true.",
    "greedy": "Always does what looks best so far. Never explores on purpose.",
    "random-z": "A random behaviour, a new one every ten steps.",
    "mbie": "Counts visits: regions with fewer visits look better.",
    "unroll": "Tries whole behaviours for a hundred steps each, and repeats the best.",
    "lola": "Changes its behaviour a little after every few trials, always from the same start.",
    "explore-then-commit": "Fifty random steps, then what looks best.",
    "random": "Random steps forever. It learns, but never uses it.",
    "exhaustive": "Always goes to the place it has seen least.",
}
PRESETS = ("stand", "stand-still", "walk", "hop", "run", "walk-backward", "hop-backward", "crouch", "spin")
"""Tasks of bodies that are shown first, where a body has them."""


def choices(seed: int = 0) -> dict[str, Any]:
    """Everything the page offers, and the default set-up with this seed."""
    return {
        "version": zscout.__version__,
        "defaults": Setup(seed=seed).to_json(),
        "usual": DEFAULT_FEATURES,
        "worlds": [_world(name) for name in OFFERS],
        "features": [{"name": name, "title": title, "about": about} for name, (title, about) in ABOUT_FEATURES.items()],
        "models": [{"name": name, "title": title, "about": about} for name, (title, about) in ABOUT_MODELS.items()],
        "networks": [[name, features] for name, offer in OFFERS.items() for features in offer.networks],
        "methods": [
            {
                "name": name,
                "about": ABOUT_METHODS[name],
                "person": not needs_every_reward(name),
                "features": NEEDS_FEATURES.get(name),
                "model": NEEDS_MODEL.get(name),
            }
            for name in METHODS_OFFERED
        ],
    }


def _world(name: str) -> dict[str, Any]:
    offer = OFFERS[name]
    return {
        "name": name,
        "title": offer.title,
        "kind": offer.kind,
        "missing": offer.missing,
        "horizon": offer.horizon,
        "length": offer.length,
        "features": offer.features,
        "models": offer.models,
        "without": offer.without,
        "traces": offer.traces,
        "usual": offer.usual,
        "pace": offer.pace,
        **(_map(name, offer) if offer.kind == "map" else _stage(offer)),
    }


def _map(name: str, offer: Offer) -> dict[str, Any]:
    world = cast(LiveMap, live_world(name, offer.features[0], offer.models[-1]))
    rows, columns = world.shape
    return {
        "about": ABOUT_WORLDS.get(name, f"{rows} × {columns}, {len(world.places)} places."),
        "rows": rows,
        "columns": columns,
        "cells": world.places,
        "entries": world.entries,
        "per_cell": offer.per_cell,
        "brush": offer.brush,
    }


def _stage(offer: Offer) -> dict[str, Any]:
    """Parts of rewards by name; the body and its model are loaded with the first run."""
    tasks, goals = task_names(offer.body), goals_of(offer.body)
    return {
        "about": f"A body from the side, moved by MuJoCo. After {offer.horizon} actions it starts anew.",
        "tasks": [
            {"name": name, "title": name.replace("-", " ").capitalize(), "preset": name in PRESETS} for name in tasks
        ],
        "goals": [{"name": goal.name, "title": goal.title, "low": goal.low, "high": goal.high} for goal in goals],
        "entries": len(tasks) + len(goals),
    }
