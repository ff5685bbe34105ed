"""How good a run, a z or a model is."""
