"""A loaded app and calls of it."""
