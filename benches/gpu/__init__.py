"""Measurements and checks on a machine with an NVIDIA GPU: transfers, servers, and facts of the driver."""
