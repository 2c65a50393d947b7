"""Models that another process of the same machine attaches to a server: both sides and their protocol."""
