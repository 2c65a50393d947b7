"""Questions to a server through any client: one of Penstock's, or one of tritonclient's that a script made.

Each function gives what the client's own gives: a value, or something to be awaited.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from penstock.client import AsyncClient, Client
from penstock.compat.pytriton.client.exceptions import PyTritonClientClosedError, PyTritonClientInferenceServerError
from penstock.errors import Forbidden, PenstockError

__all__ = ["config", "config_of", "entries", "index", "model_ready", "raise_if_final", "ready", "refusals"]

Headers = Mapping[str, str]

_FOREIGN = {"aiohttp", "gevent", "geventhttpclient", "grpc", "tritonclient"}
"""Packages whose errors say that a server is not there yet."""


def _is_own(client: Any) -> bool:
    return isinstance(client, (Client, AsyncClient))


def _more(headers: Headers | None) -> dict[str, Any]:
    # Not all of tritonclient's clients take None.
    return {"headers": dict(headers)} if headers else {}


def ready(client: Any, headers: Headers | None, timeout_s: float) -> Any:
    """Whether the server and its models can answer."""
    if _is_own(client):
        return client.ready(headers=headers, timeout=timeout_s)
    return client.is_server_ready(**_more(headers))


def model_ready(client: Any, name: str, version: str | None, headers: Headers | None, timeout_s: float) -> Any:
    """Whether a model can answer."""
    if _is_own(client):
        return client.model_ready(name, version=version, headers=headers, timeout=timeout_s)
    return client.is_model_ready(name, version or "", **_more(headers))


def index(client: Any, headers: Headers | None) -> Any:
    """The models that the server knows; see `entries`."""
    if _is_own(client):
        return client.index(headers=headers)
    return client.get_model_repository_index(**_more(headers))


def entries(answer: Any) -> list[tuple[str, str, str]]:
    """Name, version and state of each entry of an index that has a version."""
    if not isinstance(answer, list):
        answer = [{"name": one.name, "version": one.version, "state": one.state} for one in answer.models]
    return [(one["name"], str(one["version"]), one.get("state") or "") for one in answer if one.get("version")]


def config(client: Any, name: str, version: str | None, headers: Headers | None, timeout_s: float) -> Any:
    """A model's configuration; see `config_of`."""
    if _is_own(client):
        return client.config(name, version=version, headers=headers, timeout=timeout_s)
    as_json = {"as_json": True} if ".grpc" in type(client).__module__ else {}
    return client.get_model_config(name, version or "", **as_json, **_more(headers))


def config_of(answer: Any) -> dict[str, Any]:
    """The configuration as a dictionary: gRPC has it in a message of its own."""
    found: dict[str, Any] = answer.get("config", answer)
    return found


@contextlib.contextmanager
def refusals() -> Iterator[None]:
    """Raises PyTriton's error instead of the native client's."""
    try:
        yield
    except PenstockError as error:
        raise PyTritonClientInferenceServerError(
            f"Error occurred during inference request. Message: {error}"
        ) from error


def raise_if_final(client: Any, error: Exception) -> None:
    """Raises what waiting cannot mend; any other error says that the server is not ready."""
    if isinstance(error, Forbidden):
        raise PyTritonClientInferenceServerError(
            f"Error occurred during inference request. Message: {error}"
        ) from error
    if _is_own(client) and client.closed:
        raise PyTritonClientClosedError("ModelClient is closed") from error
    known = (PenstockError, OSError)
    if not isinstance(error, known) and type(error).__module__.partition(".")[0] not in _FOREIGN:
        raise error
