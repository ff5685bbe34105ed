"""Agents in environments, step by step."""
