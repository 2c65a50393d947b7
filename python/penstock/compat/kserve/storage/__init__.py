"""`Storage.download`: downloads a model's files. KServe 0.21 has it in the package `kserve_storage`."""

from __future__ import annotations

from penstock.compat.kserve.logging import configure_logging, logger
from penstock.compat.kserve.storage.storage import Storage

__all__ = ["Storage", "configure_logging", "logger"]
