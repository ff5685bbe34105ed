"""Behaviours and their measured consequences."""
