"""Worlds with tasks, for comparisons."""
