"""Pieces of the paper's alternatives, of the same kinds as those of zscout.transfer."""
