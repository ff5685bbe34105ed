"""The score of a z, and the search for the best."""
