"""Requests, responses and tracing of inference callables."""
