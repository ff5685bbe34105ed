"""Reward-free data of others: readers of public layouts, into memory-mapped transitions."""
