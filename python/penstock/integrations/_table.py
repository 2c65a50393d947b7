"""Table of the integrations. Their modules are imported at detection."""

from __future__ import annotations

__all__ = ["INTEGRATIONS"]

INTEGRATIONS = {
    "inferless": "penstock.compat.inferless",
    "modelbit": "penstock.compat.modelbit",
    "openinference": "penstock.compat.openinference",
}
"""Modules by the name of the integration; `penstock.integrations.Integration` is their protocol."""
