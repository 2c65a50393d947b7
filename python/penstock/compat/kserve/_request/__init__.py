"""Requests of models: bodies, handlers, batches, responses and errors."""
