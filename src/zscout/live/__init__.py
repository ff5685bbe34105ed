"""A web page where a person watches an agent, hides a reward from it, or gives its rewards.

The server process does not load torch; runs live in worker processes (``workers``).
"""
