"""A live run."""
