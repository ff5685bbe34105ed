"""Grid worlds, the point maze, rewards, and Gymnasium environments."""

from zscout.worlds.grid import ACTIONS, GridWorld
from zscout.worlds.gym import GridEnv
from zscout.worlds.maps import four_rooms, maze, open_grid
from zscout.worlds.point_maze import PointMaze, point_maze
from zscout.worlds.point_maze_env import PointMazeEnv
from zscout.worlds.rewards import BlackBox, LinearReward, TableReward

__all__ = [
    "ACTIONS",
    "BlackBox",
    "GridEnv",
    "GridWorld",
    "LinearReward",
    "PointMaze",
    "PointMazeEnv",
    "TableReward",
    "four_rooms",
    "maze",
    "open_grid",
    "point_maze",
]
