"""Benchmarks of the function integrations: calls compared with plain models, and batches compared with FastAPI."""
