"""Servers: `Triton` in this process, `RemoteTriton` for a server of another process."""
