"""From rewards to z: the paper's algorithm, its rivals, and the agents that run them."""
