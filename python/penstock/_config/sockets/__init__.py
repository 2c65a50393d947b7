"""Sockets that a process gets at its start: from systemd, and from a server that it replaces."""
