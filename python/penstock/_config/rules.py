"""Rules about several settings, and about the secrets that settings name."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from penstock._config import access, access_log, admin_address, listeners, otlp
from penstock._config.sources import VERTEX_ROUTES

__all__ = ["Broken", "broken"]


class _Rule(NamedTuple):
    settings: tuple[str, ...]
    """The settings that the rule is about; messages begin with the first one."""
    check: Callable[..., object]
    """Takes their values. Raises ValueError with the problem."""


class Broken(NamedTuple):
    """A broken rule."""

    settings: tuple[str, ...]
    """The settings that it is about."""
    message: str
    """The problem, after the name of the first one."""


def broken(values: Mapping[str, Any], wrong: Collection[str] = ()) -> Iterator[Broken]:
    """The rules that are broken.

    Args:
        values: All settings, each checked by itself.
        wrong: Settings whose values are not known; no rule about them is checked.
    """
    for names, check in _RULES:
        if not any(name in wrong for name in names):
            try:
                check(*(values[name] for name in names))
            except ValueError as error:
                # Tracing has variables too, and names the wrong one itself.
                message = str(error) if check is _check_tracing else f"{names[0]}: {error}"
                yield Broken(names, message)


def _check_access(text: str | None) -> None:
    access.rules(text, os.environ)


def _check_secret(text: str | None) -> None:
    access.key(text, os.environ)


def _check_tracing(endpoint: str, sampler: str, service: str | None, *more: str | None) -> None:
    otlp.read(otlp.Options(endpoint, sampler, service or "", *more), os.environ)


def _check_pairs(certificates: Collection[str], keys: Collection[str]) -> None:
    if len(certificates) != len(keys):
        raise ValueError(f"{_counted(len(certificates), 'certificate')} and {_counted(len(keys), 'key')}")


def _check_client(client: str, authorities: str | None, certificates: Collection[str]) -> None:
    if client != "off" and authorities is None:
        raise ValueError(f"{client!r} needs tls_client_ca")
    if client != "off" and not certificates:
        raise ValueError("needs tls_certificate and tls_key")


def _check_of_clients(file: str | None, client: str) -> None:
    if file is not None and client == "off":
        raise ValueError("has no meaning unless tls_client is optional or required")


def _check_grpc(grpc: str | None, http: str | None) -> None:
    if grpc == "same" and http is None:
        raise ValueError("'same' is the HTTP port, but http is off")


def _check_vertex(vertex: bool, *routes: str | None) -> None:
    for route, (name, variable) in zip(routes, VERTEX_ROUTES.items(), strict=True):
        if vertex and route is None:
            raise ValueError(f"there is no {name}, and {variable} is not in the environment")


def _check_explicit(given: Iterable[str] | bool, control: str) -> None:
    if given and control != "explicit":
        raise ValueError("has no meaning unless model_control is explicit")


def _check_poll_interval(seconds: float) -> None:
    if seconds == 0:
        raise ValueError(f"{float(seconds)} is not a duration above 0 seconds")


def _check_stall_timeout(seconds: float) -> None:
    if 0 < seconds < 1:
        raise ValueError(f"got {float(seconds)}, expected 0 or at least 1 second")


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


_RULES = tuple(
    _Rule(*rule)
    for rule in (
        (("restricted_access",), _check_access),
        (("api_key",), _check_secret),
        (("cache_redis",), _check_secret),
        (
            (
                *("otlp_endpoint", "trace_sampler", "server_name"),
                *("otlp_headers", "otlp_ca", "otlp_certificate", "otlp_key"),
            ),
            _check_tracing,
        ),
        (("tls_certificate", "tls_key"), _check_pairs),
        (("tls_client", "tls_client_ca", "tls_certificate"), _check_client),
        (("tls_client_ca", "tls_client"), _check_of_clients),
        (("tls_client_crl", "tls_client"), _check_of_clients),
        (("grpc", "http"), _check_grpc),
        (("listeners", "http", "grpc"), listeners.check_conflicts),
        (("access_log_fields", "access_log"), access_log.check_fields),
        (("admin_only",), admin_address.check_categories),
        (("admin_open", "admin"), admin_address.check_open),
        (("admin", "http", "grpc", "listeners"), admin_address.check_address),
        (("admin", "admin_open", "keys_file", "api_key", "tls_client"), admin_address.check_guard),
        (("vertex", *VERTEX_ROUTES), _check_vertex),
        (("load_models", "model_control"), _check_explicit),
        (("load_files", "model_control"), _check_explicit),
        (("poll_interval",), _check_poll_interval),
        (("stall_timeout",), _check_stall_timeout),
    )
)
