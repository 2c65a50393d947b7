"""Which names can be served by Penstock, and by which of its packages."""

from __future__ import annotations

__all__ = ["INTEGRATIONS"]

INTEGRATIONS = {
    "inferless": "penstock.compat.inferless",
    "kserve": "penstock.compat.kserve",
    "kserve_storage": "penstock.compat.kserve.storage",
    "modelbit": "penstock.compat.modelbit",
    "pytriton": "penstock.compat.pytriton",
}
"""The package that stands in for a top-level name, by that name."""
