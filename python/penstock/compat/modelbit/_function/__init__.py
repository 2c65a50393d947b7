"""Calls of a deployment's function, in a worker process or in the server."""
