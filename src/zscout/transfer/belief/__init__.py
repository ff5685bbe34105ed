"""What rewards say: the posterior over tasks."""
