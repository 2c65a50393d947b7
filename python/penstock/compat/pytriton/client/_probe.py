"""Health, index and configuration requests, through a client of Penstock or of tritonclient.

Each function returns the result of the client's method: a value, or an awaitable.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from penstock.client import AsyncClient, Client
from penstock.compat.pytriton.client.exceptions import PyTritonClientClosedError, PyTritonClientInferenceServerError
from penstock.errors import Forbidden, PenstockError

__all__ = [
    "config",
    "index",
    "model_ready",
    "parse_config",
    "parse_index",
    "raise_if_final",
    "ready",
    "translate_errors",
]

Headers = Mapping[str, str]

_FOREIGN_PACKAGES = {"aiohttp", "gevent", "geventhttpclient", "grpc", "tritonclient"}
"""Packages whose errors mean that a server is not ready yet."""


def _is_native(client: Any) -> bool:
    return isinstance(client, (Client, AsyncClient))


def _header_option(headers: Headers | None) -> dict[str, Any]:
    # Some clients of tritonclient reject None.
    return {"headers": dict(headers)} if headers else {}


def ready(client: Any, headers: Headers | None, timeout_s: float) -> Any:
    """Returns whether the server and its models are ready."""
    if _is_native(client):
        return client.ready(headers=headers, timeout=timeout_s)
    return client.is_server_ready(**_header_option(headers))


def model_ready(client: Any, name: str, version: str | None, headers: Headers | None, timeout_s: float) -> Any:
    """Returns whether a model is ready."""
    if _is_native(client):
        return client.model_ready(name, version=version, headers=headers, timeout=timeout_s)
    return client.is_model_ready(name, version or "", **_header_option(headers))


def index(client: Any, headers: Headers | None) -> Any:
    """Returns the server's index of models; see `parse_index`."""
    if _is_native(client):
        return client.index(headers=headers)
    return client.get_model_repository_index(**_header_option(headers))


def parse_index(response: Any) -> list[tuple[str, str, str]]:
    """Returns name, version and state of each index entry with a version."""
    if not isinstance(response, list):
        response = [{"name": entry.name, "version": entry.version, "state": entry.state} for entry in response.models]
    return [
        (entry["name"], str(entry["version"]), entry.get("state") or "") for entry in response if entry.get("version")
    ]


def config(client: Any, name: str, version: str | None, headers: Headers | None, timeout_s: float) -> Any:
    """Returns a model's configuration; see `parse_config`."""
    if _is_native(client):
        return client.config(name, version=version, headers=headers, timeout=timeout_s)
    as_json = {"as_json": True} if ".grpc" in type(client).__module__ else {}
    return client.get_model_config(name, version or "", **as_json, **_header_option(headers))


def parse_config(response: Any) -> dict[str, Any]:
    """Returns the configuration as a dictionary. gRPC wraps it in a message."""
    found: dict[str, Any] = response.get("config", response)
    return found


@contextlib.contextmanager
def translate_errors() -> Iterator[None]:
    """Translates the native client's errors to PyTriton's."""
    try:
        yield
    except PenstockError as error:
        raise PyTritonClientInferenceServerError(
            f"Error occurred during inference request. Message: {error}"
        ) from error


def raise_if_final(client: Any, error: Exception) -> None:
    """Raises errors that waiting cannot fix. Any other error means that the server is not ready."""
    if isinstance(error, Forbidden):
        raise PyTritonClientInferenceServerError(
            f"Error occurred during inference request. Message: {error}"
        ) from error
    if _is_native(client) and client.closed:
        raise PyTritonClientClosedError("ModelClient is closed") from error
    connection_errors = (PenstockError, OSError)
    if not isinstance(error, connection_errors) and type(error).__module__.partition(".")[0] not in _FOREIGN_PACKAGES:
        raise error
