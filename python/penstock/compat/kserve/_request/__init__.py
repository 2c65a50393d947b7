"""Requests of models: bodies in, handlers, responses out."""
