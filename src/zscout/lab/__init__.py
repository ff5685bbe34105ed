"""Experiments: arenas, simulation, evaluation, comparison, tuning, and the paper's claims."""
