"""Handlers from user callables: type hints, signature, adapters, JSON documents."""
