"""Grid worlds, the point maze, bodies, rewards, and Gymnasium environments."""

from zscout.worlds.body import Body, body
from zscout.worlds.body_env import BodyEnv
from zscout.worlds.body_tasks import BodyTask, body_task, body_tasks
from zscout.worlds.grid import ACTIONS, GridWorld
from zscout.worlds.gym import GridEnv
from zscout.worlds.maps import four_rooms, maze, open_grid
from zscout.worlds.point_maze import PointMaze, point_maze
from zscout.worlds.point_maze_env import PointMazeEnv
from zscout.worlds.rewards import BlackBox, LinearReward, TableReward

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
