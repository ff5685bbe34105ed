"""Watch a run: scenes and frames, for the terminal and as GIF."""
