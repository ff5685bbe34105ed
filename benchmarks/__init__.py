"""Benchmarks, load measurements and measuring scripts: run from a checkout, not part of the package."""
