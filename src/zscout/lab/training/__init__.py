"""Training with a log, measured at the end."""
