"""`Server` and `serve`."""
