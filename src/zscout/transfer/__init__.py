"""From rewards to z: the paper's algorithm, the baselines, and the agents that run them."""
