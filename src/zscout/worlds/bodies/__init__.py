"""Bodies of the control suite, in batches."""
