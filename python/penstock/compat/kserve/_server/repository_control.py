"""`RepositoryControl`: loads and unloads models for gRPC requests, as for those over HTTP."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from penstock import NotFound, Unavailable
from penstock.compat.kserve._model.background_loop import resolve
from penstock.compat.kserve.errors import ModelNotFound, ModelNotReady

if TYPE_CHECKING:
    from penstock.compat.kserve.protocol.model_repository_extension import ModelRepositoryExtension

__all__ = ["RepositoryControl"]


class RepositoryControl:
    """A `penstock.repository.Control` by means of KServe's repository extension.

    Args:
        extension: Loads and unloads models.
        sync: Called after each operation: serves the repository's current models.
    """

    def __init__(self, extension: ModelRepositoryExtension, sync: Callable[[], None]) -> None:
        self._extension, self._sync = extension, sync

    def load(self, name: str, config: str | None, files: Mapping[str, bytes]) -> None:
        """Loads a model by name; KServe's requests have neither configuration nor files."""
        del config, files
        _translate_errors(self._extension.load(name))
        self._sync()

    def unload(self, name: str) -> None:
        """Unloads a model."""
        _translate_errors(self._extension.unload(name))
        self._sync()


def _translate_errors(operation: Any) -> None:
    try:
        resolve(operation)
    except ModelNotReady as error:
        raise Unavailable(str(error)) from error
    except ModelNotFound as error:
        raise NotFound(str(error)) from error
