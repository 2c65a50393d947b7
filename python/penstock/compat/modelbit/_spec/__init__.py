"""Deployments on disk: folders, metadata, endpoints and versions."""
