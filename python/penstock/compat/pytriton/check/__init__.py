"""Self-check command, and tools for tests of servers."""
