"""Metrics and the latency log."""
