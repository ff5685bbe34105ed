"""Checks of input, files, names, processes, randomness and types: what everything else uses."""
