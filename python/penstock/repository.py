"""Model repository: registration of folder kinds, and `Control` to load models without folders.

A repository is a folder with one folder for each model; see docs/repository.md. Penstock's own kind,
`<version>/model.py`, is always registered.

Example:
    >>> class Onnx:
    ...     name = "onnx"
    ...
    ...     def versions(self, folder: Path) -> Mapping[str, Path]:
    ...         return {one.name: one for one in folder.iterdir() if (one / "model.onnx").is_file()}
    ...
    ...     def define(self, folder: Path, name: str, version: str) -> Definition:
    ...         return model(session(folder), name=name, version=version, ...).definition()
    >>> register(Onnx())
"""

from __future__ import annotations

from penstock._repository.control import Control
from penstock._repository.kinds import FolderKind, kinds, register

__all__ = ["Control", "FolderKind", "kinds", "register"]
