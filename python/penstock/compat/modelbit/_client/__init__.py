"""The client of deployments."""
