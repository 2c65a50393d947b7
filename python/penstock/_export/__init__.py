"""Manifests for platforms that run containers."""
