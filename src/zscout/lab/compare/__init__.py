"""Comparisons, tuning, and their tables."""
