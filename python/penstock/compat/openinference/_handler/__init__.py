"""Calls of a handler: imports, arguments and the objects that it receives."""
