"""Servers with the network of `benches.gpu.network`."""
