"""Finite worlds, rewards, and Gymnasium environments."""

from zscout.worlds.grid import ACTIONS, GridWorld
from zscout.worlds.gym import GridEnv
from zscout.worlds.maps import four_rooms, maze, open_grid
from zscout.worlds.rewards import BlackBox, LinearReward, TableReward

__all__ = [
    "ACTIONS",
    "BlackBox",
    "GridEnv",
    "GridWorld",
    "LinearReward",
    "TableReward",
    "four_rooms",
    "maze",
    "open_grid",
]
