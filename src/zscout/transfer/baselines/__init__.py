"""Methods without a score: random and exhaustive actions, and searches by the returns of whole rollouts."""
