"""The one table of integrations that serve folders and files. They are imported when a path is to be looked at."""

from __future__ import annotations

__all__ = ["INTEGRATIONS"]

INTEGRATIONS = {
    "inferless": "penstock.compat.inferless",
    "modelbit": "penstock.compat.modelbit",
    "openinference": "penstock.compat.openinference",
}
"""Module by the name of the integration; `penstock.integrations.Integration` is the protocol of a module."""
