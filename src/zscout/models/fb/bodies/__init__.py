"""Training in bodies."""
