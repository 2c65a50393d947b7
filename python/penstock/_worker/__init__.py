"""Entry point of the child processes that host model instances."""
