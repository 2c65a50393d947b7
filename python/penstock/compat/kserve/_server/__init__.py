"""Runs of a model server: settings, tables, event loops and workers."""
