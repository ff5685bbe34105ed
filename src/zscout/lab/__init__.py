"""Experiments: what is run, what is measured, what the paper claims."""
