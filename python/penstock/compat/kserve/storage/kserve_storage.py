"""`storage.Storage`, as `kserve_storage` exports it."""

from __future__ import annotations

from penstock.compat.kserve.storage.storage import MODEL_MOUNT_DIRS, Storage

__all__ = ["MODEL_MOUNT_DIRS", "Storage"]
