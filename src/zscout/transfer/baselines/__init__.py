"""Methods without a score: random actions, and searches by the returns of whole rollouts."""
