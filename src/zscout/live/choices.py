"""What can be chosen on the page, in words for someone who has not read the paper."""

from dataclasses import replace
from typing import Any

import torch

import zscout
from zscout.edge import known_name
from zscout.lab.grid_arena import GridArena
from zscout.lab.ground import FINE, OF_ARENAS, SHIPPED, Ground, world_named
from zscout.live.setup import Setup
from zscout.transfer.methods import METHODS, Method
from zscout.transfer.rollout_searches import RolloutSearch
from zscout.worlds.maps import WORLDS

TITLES = {"open-grid": "Open 9×9", "four-rooms": "Four rooms", "maze": "Maze"}
ABOUT_FEATURES = {
    FINE: ("Fine waves", "About thirty smooth patterns (Laplacian): small painted patches can be told apart."),
    "laplacian": (
        "Smooth waves",
        "Nine smooth patterns (Laplacian): nearby places feel alike, and few answers teach much.",
    ),
    "clusters": ("Nine regions", "The map cut into nine regions: every place of a region is worth the same."),
}
USUAL = {"hidden": FINE, "person": "laplacian"}  # features: a person tires of answers, a painting has small patches
ABOUT_MODELS = {
    "network": (
        "Trained network",
        "Behaviours learned once by a network, then frozen: fast, and right to a few percent.",
    ),
    "exact": ("Exact", "Behaviours computed exactly for this world: the truth that the network approximates."),
}
ABOUT_METHODS = {
    "usf-ucb": "Goes where the reward could be highest: what it expects, plus what it does not know. The usual choice.",
    "usf-ucb-norm": "The same, knowing beforehand how large a reward can be.",
    "usf-ucb-paper": "The same with the paper's schedule: curious for 50 steps, then less, after 150 not at all.",
    "usf-ucb-short": "The same, its curiosity looking less far ahead.",
    "log-det": "Prefers behaviours that teach much as a whole, and what is worth much.",
    "opti": "A rival (OpTI-BFM): of tasks that fit what it saw, the one that promises most.",
    "opti-shipped": "The same rival, drawing tasks as its published code does.",
    "optimism": "Believes in the best task that still fits what it saw.",
    "thompson": "Draws one task that fits what it saw, and acts as if that were true.",
    "greedy": "Always what seems best so far: it never tries anything on purpose.",
    "random-z": "Any behaviour, another one every ten steps.",
    "mbie": "Counts visits: the fewer a region has had, the better it looks.",
    "unroll": "Tries whole behaviours for a hundred steps each, and repeats the best.",
    "lola": "Changes its behaviour a little after each few trials, always from the same start.",
    "explore-then-commit": "Fifty random steps, then whatever seems best.",
    "random": "Random steps for ever; it learns, and never uses it.",
    "exhaustive": "Always to the place it has seen least.",
}
LEFT_OUT = ("oracle",)  # it would have to be told what is hidden
CUT_ONLY = "mbie"  # counts visits, which wants regions
EXACT_ONLY = "usf-ucb-short"  # its bonus looks ahead by a discount of its own, which no network was trained for


def choices(seed: int = 0) -> dict[str, Any]:
    """All of it, as the page reads it, and the seed to begin with."""
    return {
        "version": zscout.__version__,
        "defaults": Setup(seed=seed).to_json(),
        "usual": USUAL,
        "worlds": [_world(name) for name in WORLDS],
        "features": [_named(name, *ABOUT_FEATURES[name]) for name in ABOUT_FEATURES],
        "models": [_named(name, *ABOUT_MODELS[name]) for name in ABOUT_MODELS],
        "networks": [list(pair) for pair in SHIPPED],
        "methods": [
            {
                "name": name,
                "about": ABOUT_METHODS[name],
                "person": not isinstance(_method(name).search, RolloutSearch),  # whole rollouts need every reward
                "features": "clusters" if name == CUT_ONLY else None,
                "model": "exact" if name == EXACT_ONLY else None,
            }
            for name in METHODS
            if name not in LEFT_OUT
        ],
    }


def ground_of(setup: Setup) -> Ground:
    """The world, the model and the yardstick that a set-up names; nothing but names that ship is looked up."""
    known_name(setup.world, WORLDS, "world")
    known_name(setup.features, OF_ARENAS, "feature set")
    known_name(setup.model, ABOUT_MODELS, "model")
    if setup.model == "network" and (setup.world, setup.features) not in SHIPPED:
        raise ValueError(f"no network ships for {setup.features} in {setup.world}: choose the exact model")
    with torch.inference_mode(False):  # a network whose weights were loaded within it would be read anew at each step
        return GridArena(setup.world, setup.features, setup.model).ground


def method_of(name: str, setup: Setup, ground: Ground) -> Method:
    """A method with the set-up's memory."""
    known_name(name, [name for name in METHODS if name not in LEFT_OUT], "method")
    look_ahead: dict[str, Any] = {"look_ahead": ground.world.step} if name == "exhaustive" else {}
    noise = setup.noise if setup.who == "hidden" else None  # as in the laboratory, so that runs can be compared
    method = METHODS[name](dim=ground.exact.dim, noise=noise, **look_ahead)
    if setup.who == "person" and isinstance(method.search, RolloutSearch):
        raise ValueError(f"{name} scores whole rollouts and needs every reward: it cannot wait for a person's")
    if name == CUT_ONLY and setup.features != "clusters":
        raise ValueError(f"{name} counts visits to regions: choose clusters")
    if name == EXACT_ONLY and setup.model != "exact":
        raise ValueError(f"{name} looks less far ahead than a network was trained to: choose the exact model")
    return replace(method, forgetting=setup.forgetting)


def _method(name: str) -> Method:
    return METHODS[name](dim=9)


def _world(name: str) -> dict[str, Any]:
    world = world_named(name)
    rows, columns = world.shape
    return {"name": name, "title": TITLES[name], "rows": rows, "columns": columns, "cells": world.cells.tolist()}


def _named(name: str, title: str, about: str) -> dict[str, Any]:
    return {"name": name, "title": title, "about": about}
