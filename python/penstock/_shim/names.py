"""Module names that Penstock can serve, and its packages for them."""

from __future__ import annotations

__all__ = ["INTEGRATIONS"]

INTEGRATIONS = {
    "inferless": "penstock.compat.inferless",
    "kserve": "penstock.compat.kserve",
    "kserve_storage": "penstock.compat.kserve.storage",
    "modelbit": "penstock.compat.modelbit",
    "pytriton": "penstock.compat.pytriton",
}
"""Packages of Penstock, by the top-level name that they serve."""
