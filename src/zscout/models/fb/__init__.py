"""Forward-backward models, and their training."""
