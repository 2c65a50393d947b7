"""`serve`: serves models in the foreground until a signal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock._config.resolve import Sources
from penstock._config.served import ServedSettings
from penstock._loading import targets
from penstock._model.model import Model
from penstock._server.server import Server
from penstock.config import ServerConfig

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from penstock.config import ServerOptions

__all__ = ["serve"]


def serve(
    *models: Model[..., Any] | Any, config: ServerConfig | None = None, **options: Unpack[ServerOptions]
) -> list[str]:
    """Serves models until SIGINT or SIGTERM, then drains. Prints the models and addresses.

    Takes the arguments of `Server`, and raises the errors of `Server` and `Server.start`. A second signal stops at
    once. Signals are handled only if it is called on the main thread.

    Returns:
        The names of the models that the drain deadline cut off; empty when all requests finished.
    """
    from penstock._serve import run

    targets.refuse_serve_while_loading()
    given = Sources(arguments=dict(options), base=config, caller="serve")
    return run.run(Server._prepared(models, ServedSettings.of(ServerConfig, given)), [*models])
