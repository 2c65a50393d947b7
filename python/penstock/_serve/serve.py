"""`serve`: serves models in the foreground until a signal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock._loading import targets
from penstock._model.model import Model
from penstock._server.server import Server

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from penstock.config import ServerConfig, ServerOptions

__all__ = ["serve"]


def serve(
    *models: Model[..., Any] | Any, config: ServerConfig | None = None, **options: Unpack[ServerOptions]
) -> list[str]:
    """Serves models until SIGINT or SIGTERM, then drains. Prints what is served and where.

    Takes what `Server` takes, and raises what it and `Server.start` raise. A second signal stops at
    once. From a thread other than the main one it leaves signals alone.

    Returns:
        The names of what the drain deadline cut off; empty when all requests finished.
    """
    from penstock._serve import run

    targets.refuse_serve_while_loading()
    return run.run(Server(*models, config=config, **options), [*models])
