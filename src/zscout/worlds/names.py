"""The public names of ``zscout.worlds``."""

from zscout.worlds.bodies.env import BodyEnv
from zscout.worlds.bodies.physics import Body, body
from zscout.worlds.bodies.tasks import BodyTask, body_task, body_tasks
from zscout.worlds.grids.env import GridEnv
from zscout.worlds.grids.grid import ACTIONS, GridWorld
from zscout.worlds.grids.maps import four_rooms, maze, open_grid
from zscout.worlds.grids.rewards import BlackBox, LinearReward, TableReward
from zscout.worlds.points.env import PointMazeEnv
from zscout.worlds.points.maze import PointMaze, point_maze

__all__ = [
    "ACTIONS",
    "BlackBox",
    "Body",
    "BodyEnv",
    "BodyTask",
    "GridEnv",
    "GridWorld",
    "LinearReward",
    "PointMaze",
    "PointMazeEnv",
    "TableReward",
    "body",
    "body_task",
    "body_tasks",
    "four_rooms",
    "maze",
    "open_grid",
    "point_maze",
]
