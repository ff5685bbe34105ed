"""Runs: what they are, how they are computed and stored."""
