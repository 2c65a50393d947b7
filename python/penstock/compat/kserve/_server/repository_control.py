"""gRPC's requests to load and unload models, done as those over HTTP are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from penstock import NotFound, Unavailable
from penstock.compat.kserve._model.background_loop import finished
from penstock.compat.kserve.errors import ModelNotFound, ModelNotReady

if TYPE_CHECKING:
    from penstock.compat.kserve.protocol.model_repository_extension import ModelRepositoryExtension

__all__ = ["Control"]


class Control:
    """A `penstock.repository.Control` that a repository's extension carries out.

    Args:
        extension: The extension.
        follow: Called when it is done: has what the repository has served.
    """

    def __init__(self, extension: ModelRepositoryExtension, follow: Callable[[], None]) -> None:
        self._extension, self._follow = extension, follow

    def load(self, name: str, config: str | None, files: Mapping[str, bytes]) -> None:
        """Loads a model, whatever came with the request: KServe's brings its name only."""
        del config, files
        _done(self._extension.load(name))
        self._follow()

    def unload(self, name: str) -> None:
        """Unloads a model."""
        _done(self._extension.unload(name))
        self._follow()


def _done(under_way: Any) -> None:
    try:
        finished(under_way)
    except ModelNotReady as error:
        raise Unavailable(str(error)) from error
    except ModelNotFound as error:
        raise NotFound(str(error)) from error
