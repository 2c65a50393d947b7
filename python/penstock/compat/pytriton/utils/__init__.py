"""Utilities for scripts, apart from servers and clients."""
