"""What a model must promise, checked."""
