"""Tools for tests of servers."""
