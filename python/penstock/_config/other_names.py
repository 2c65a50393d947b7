"""Names of settings in other servers, and misspelled variables."""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Mapping

from penstock._spec.suggestions import nearest

__all__ = ["hint", "warn_of_variables"]

_log = logging.getLogger("penstock.config")

_ADDRESS = "write http=HOST:PORT, and grpc=HOST:PORT for gRPC"
_INSTANCES = (
    "write instances=N in the model's @model(...), Processes(N) for processes; threads of the network are io_threads"
)
_HINTS = {
    "host": _ADDRESS,
    "bind": _ADDRESS,
    "port": _ADDRESS,
    "http_port": "write http=HOST:PORT",
    "grpc_port": "write grpc=HOST:PORT",
    "metrics_port": "write listeners=metrics=HOST:PORT",
    "workers": _INSTANCES,
    "instances": _INSTANCES,
    "processes": _INSTANCES,
    "threads": _INSTANCES,
    "max_batch_size": "write batching=Batching(max_size=N) in the model's @model(...)",
    "model_repository": "write repository=FOLDER",
    "timeout": "write request_timeout=SECONDS for requests, idle_timeout for connections, drain_timeout for the stop",
    "debug": "write log_level=info, and access_log=text for a line for each request",
    "ssl_certfile": "write tls_certificate=FILE",
    "ssl_keyfile": "write tls_key=FILE",
}

_FOREIGN = re.compile(r"PENSTOCK_(?:.*_)?(?:PORT|SERVICE_HOST|SERVICE_PORT)(?:_.*)?")
"""Variables that Kubernetes sets for services whose names begin with `penstock`."""


def hint(name: str) -> str:
    """`; ...` with what to write in place of another server's setting; empty for other names."""
    text = _HINTS.get(name)
    return f"; {text}" if text else ""


def warn_of_variables(environ: Mapping[str, str], known: Collection[str]) -> None:
    """Warns of each `PENSTOCK_*` variable that is not a setting, but nearly one. Others may be of other programs."""
    for variable in environ:
        if variable.startswith("PENSTOCK_") and not _FOREIGN.fullmatch(variable):
            name = variable.removeprefix("PENSTOCK_").lower()
            # A close match only: other programs, and integrations, have variables with this prefix too.
            if name not in known and (near := nearest(name, known, cutoff=0.8)) is not None:
                _log.warning(
                    "penstock: %s is not a setting and is ignored, did you mean PENSTOCK_%s?", variable, near.upper()
                )
