"""A page on which a person watches an agent, is its reward, or hides one: a consumer of transfer like any other.

The process that serves the page knows no tensor; runs live in processes of their own (``workers``).
"""
