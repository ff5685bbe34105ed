"""Networks of finite worlds, and their training."""
