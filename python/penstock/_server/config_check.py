"""Check of settings by the means of the server: certificates, keys, patterns, URLs, models. No address is bound."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from penstock._config.resolve import Resolved
from penstock._server.server import Server
from penstock.config import ServerConfig
from penstock.errors import ConfigError, StartupError

__all__ = ["of_models", "of_settings"]

_READ_BY_RUST = ("http_header_forward_pattern", "grpc_header_forward_pattern", "cache_redis", "restricted_access")
"""Settings whose texts the compiled extension reads, each by itself."""

_LOG_TIMEOUT = 1.0
"""Seconds that warnings may take to be written."""

_TLS = ("tls_certificate", "tls_key", "tls_client", "tls_client_ca", "tls_client_crl", "tls_min_version")


def of_settings(resolved: Resolved[ServerConfig]) -> Iterator[str]:
    """Messages about settings that are right by themselves. Those of `resolved.wrong` are left out.

    Defects of certificates with which a server starts are logged as warnings, as at its start.
    """
    for name in _READ_BY_RUST:
        if name in resolved.given and name not in resolved.wrong:
            yield from map(resolved.placed, _refused({name: resolved.values[name]}))
    if "keys_file" not in resolved.wrong:
        yield from map(resolved.placed, _of_keys(resolved.values["keys_file"]))
    if resolved.wrong.isdisjoint(_TLS):
        yield from map(resolved.placed, _of_certificates({name: resolved.values[name] for name in _TLS}))


def of_models(models: Sequence[Any], config: ServerConfig, *, required: bool) -> Iterator[str]:
    """The first problem of a server with these models, which are not built.

    Args:
        models: Models, as `Server` takes them.
        config: The settings.
        required: Whether models are required, unless a setting names others.
    """
    from penstock import _core

    try:
        server = Server(*models, config=config) if required or config.repository else Server.empty(config=config)
        server._manager.offers()
        _core.Server(server.definitions, replace(config, http=None, grpc=None, listeners=())).stop(0.0)
    except StartupError as error:
        yield str(error)


def _of_keys(path: str | None) -> Iterator[str]:
    from penstock import _core

    try:
        if path is not None:
            _core.check_keys_file(path)
    except ValueError as error:
        yield f"keys_file: {error}"


def _of_certificates(tls: Mapping[str, Any]) -> Iterator[str]:
    """Opens each certificate with its key, then the files about clients with the first usable one."""
    usable = None
    for pair in zip(tls["tls_certificate"], tls["tls_key"], strict=True):
        files = dict(zip(("tls_certificate", "tls_key"), pair, strict=True))
        refused = [*_refused(files, starts=True)]
        yield from refused
        usable = usable or (None if refused else files)
    if tls["tls_client"] == "off":
        return
    if usable is None:
        yield "tls_client_ca: not checked, because no certificate can be used"
        return
    clients = {name: tls[name] for name in _TLS if name not in usable}
    yield from _refused({**clients, **usable, "log_level": "error"}, starts=True)


def _refused(settings: Mapping[str, Any], *, starts: bool = False) -> Iterator[str]:
    """The message if a server without addresses refuses settings, when it is made or started."""
    before = _threads()
    try:
        _try(ServerConfig(http=None, grpc=None, **settings), starts=starts)
    except ConfigError as error:
        yield str(error)
    # A thread of the server writes warnings, and ends with it. This process may end before.
    give_up = time.monotonic() + _LOG_TIMEOUT
    while _threads() - before and time.monotonic() < give_up:
        time.sleep(0.001)


def _try(config: ServerConfig, *, starts: bool) -> None:
    from penstock import _core

    server = _core.Server([], config)
    try:
        if starts:
            server.start()
    finally:
        server.stop(0.0)


def _threads() -> set[str]:
    """Numbers of this process's threads."""
    return set(os.listdir("/proc/self/task"))
