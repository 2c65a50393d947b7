"""Commands for the operators of a running server."""
