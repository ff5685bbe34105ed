"""Grid worlds, their maps, rewards and Gymnasium environment."""
