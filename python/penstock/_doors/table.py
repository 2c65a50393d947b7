"""The one table of front doors that serve folders and files. They are imported when a path is to be looked at."""

from __future__ import annotations

__all__ = ["DOORS"]

DOORS = {
    "inferless": "penstock.compat.inferless",
    "modelbit": "penstock.compat.modelbit",
    "openinference": "penstock.compat.openinference",
}
"""The module of each door, by the door's name. What a module offers is said in `penstock.doors`."""
