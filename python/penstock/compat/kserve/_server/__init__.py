"""Runs of a `ModelServer`: settings, models, event loops, administration and shutdown."""
