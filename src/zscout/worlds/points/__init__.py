"""The point maze, its tasks and planner."""
