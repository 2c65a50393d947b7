"""Settings: Penstock's configuration from the arguments of a `ModelServer`, and refused arguments."""

from __future__ import annotations

import importlib.util
import socket
from typing import TYPE_CHECKING, Any

from penstock import ServerConfig
from penstock.compat.kserve.constants.constants import MAX_GRPC_MESSAGE_LENGTH
from penstock.compat.kserve.logging import logger
from penstock.config import load_config

if TYPE_CHECKING:
    from penstock.compat.kserve._server.owner import Owner

__all__ = ["check", "server_config"]

EVERYWHERE = "0.0.0.0"  # noqa: S104 - KServe's default
EVERYWHERE_6 = "[::]"

LIKE_KSERVE: dict[str, Any] = {
    "max_body_bytes": 1 << 30,
    "dialect": "kserve",
    # KServe's clients cannot read NaN.
    "strict_json": True,
}
"""KServe's defaults where they differ from Penstock's."""

EVENT_LOOPS = ("auto", "asyncio", "uvloop")


def check(server: Owner) -> None:
    """Refuses arguments that cannot be applied.

    Raises:
        ValueError: an argument cannot be applied; the message names it.
    """
    if server.ssl_certfile or server.ssl_keyfile:
        raise ValueError(
            "ssl_certfile, ssl_keyfile: TLS is not supported; put a TLS proxy in front of the server, and leave these "
            "and KSERVE_TLS_CERT_FILE and KSERVE_TLS_KEY_FILE unset"
        )
    for name in ("http_port", "grpc_port"):
        port = getattr(server, name)
        if not _is_int(port) or not 0 <= port <= 65535:
            raise ValueError(f"{name} must be a port from 0, which picks a free one, to 65535, not {port!r}")
    for name in ("workers", "threads"):
        if not _is_int(getattr(server, name)) or getattr(server, name) < 1:
            raise ValueError(f"{name} must be an integer of 1 or more, not {getattr(server, name)!r}")
    workers = server.max_asyncio_workers
    if workers is not None and (not _is_int(workers) or workers < 1):
        raise ValueError(f"max_asyncio_workers must be an integer of 1 or more, or None, not {workers!r}")
    if server.event_loop not in EVENT_LOOPS:
        logger.error("event_loop: %r is not one of %s; auto is used", server.event_loop, ", ".join(EVENT_LOOPS))
        server.event_loop = "auto"
    if server.event_loop == "asyncio" and importlib.util.find_spec("uvloop") is not None:
        logger.warning("event_loop: async handlers run on uvloop where it is installed, as it is here")
    if server.access_log_format:
        logger.warning("access_log_format turns the access log on; its format is ignored")


def server_config(server: Owner, limits: tuple[int, int], metrics: str | None = None) -> ServerConfig:
    """Returns Penstock's settings; `PENSTOCK_*` variables set those without an argument of KServe's.

    Args:
        server: The server.
        limits: The largest gRPC messages to send and to receive, in bytes.
        metrics: The default address of the server's own metrics.

    Raises:
        ConfigError: a setting is wrong.
    """
    config, default = load_config(), ServerConfig()
    settings = {name: value for name, value in LIKE_KSERVE.items() if getattr(config, name) == getattr(default, name)}
    if max(limits) > max(MAX_GRPC_MESSAGE_LENGTH, settings.get("max_body_bytes", config.max_body_bytes)):
        settings["max_body_bytes"] = max(limits)
    if metrics is not None and not any(entry.startswith("metrics=") for entry in config.listeners):
        settings["listeners"] = (*config.listeners, f"metrics={metrics}")
    if server.access_log_format and config.access_log == "off":
        settings["access_log"] = "text"
    http, grpc = server.host or EVERYWHERE, server.host or (EVERYWHERE_6 if _has_ipv6() else EVERYWHERE)
    return load_config(
        {
            **settings,
            "http": _joined(http, server.http_port),
            "grpc": _joined(grpc, server.grpc_port) if server.enable_grpc else None,
            "docs": bool(server.enable_docs_url),
            "idle_timeout": float(server.timeout_keep_alive),
            "drain_timeout": float(server.grace_period),
        }
    )


def _joined(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host and not host.startswith("[") else f"{host}:{port}"


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as probe:
            probe.bind(("::", 0))
    except OSError:
        return False
    return True
