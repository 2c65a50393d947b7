"""Request metrics, the latency log and the metrics page."""
