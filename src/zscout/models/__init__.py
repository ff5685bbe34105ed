"""Behavioural foundation models: exact and learned π and ψ, training, checks."""
