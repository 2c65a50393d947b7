"""Readiness and configuration of a server and its models."""

from __future__ import annotations

import enum
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from penstock.client import Client
from penstock.compat.pytriton.client import _probe
from penstock.compat.pytriton.client._errors import ModelUnavailableTimeout
from penstock.compat.pytriton.client._url import TritonUrl
from penstock.compat.pytriton.client.exceptions import PyTritonClientTimeoutError
from penstock.compat.pytriton.model_config.parser import ModelConfigParser
from penstock.compat.pytriton.model_config.triton_model_config import TritonModelConfig

__all__ = [
    "LATEST_MODEL_VERSION",
    "ModelState",
    "TritonUrl",
    "create_client_from_url",
    "get_model_config",
    "get_model_state",
    "wait_for_model_ready",
    "wait_for_server_ready",
]

_LOGGER = logging.getLogger(__name__)
_DEFAULT_NETWORK_TIMEOUT_S = 60.0
_DEFAULT_WAIT_FOR_SERVER_READY_TIMEOUT_S = 60.0
_DEFAULT_WAIT_FOR_MODEL_TIMEOUT_S = 300.0
_MAX_RESPONSE_BYTES = 1 << 34
"""Response size limit in bytes. It is practically unlimited, because PyTriton has no limit."""

LATEST_MODEL_VERSION = "<latest>"


class ModelState(enum.Enum):
    """State of a model on a server."""

    LOADING = "LOADING"
    UNLOADING = "UNLOADING"
    UNAVAILABLE = "UNAVAILABLE"
    """The model does not exist, or failed to load."""
    READY = "READY"


def create_client_from_url(url: str, network_timeout_s: float | None = None) -> Client:
    """Creates a client of a server, for the functions of this module.

    Args:
        url: See `TritonUrl.from_url`.
        network_timeout_s: Timeout of each call; 60 s by default.

    Returns:
        A client of Penstock, with the methods `ready`, `infer`, `config` and so on.

    Raises:
        PyTritonClientInvalidUrlError: the URL is invalid.
    """
    timeout_s = _DEFAULT_NETWORK_TIMEOUT_S if network_timeout_s is None else network_timeout_s
    return Client(TritonUrl.from_url(url).with_scheme, **client_options(timeout_s, None))


def client_options(timeout_s: float, headers: Mapping[str, str] | None) -> Any:
    """Returns a client's options for calls with the timeout."""
    return {
        "timeout": timeout_s,
        "connect_timeout": timeout_s,
        "headers": headers or {},
        "max_answer_bytes": _MAX_RESPONSE_BYTES,
        "max_idle": 128,
    }


def get_model_state(
    client: Any, model_name: str, model_version: str | None = None, headers: Mapping[str, str] | None = None
) -> ModelState:
    """Returns the state of a model, or of its latest version.

    Args:
        client: A client of `create_client_from_url` or of tritonclient.
        model_name: Name of the model.
        model_version: Version of the model; None means the greatest number.
        headers: Headers of the call.

    Returns:
        State of the model; `UNAVAILABLE` if it does not exist.
    """
    with _probe.translate_errors():
        return find_state(_probe.parse_index(_probe.index(client, headers)), model_name, model_version)


def find_state(index: list[tuple[str, str, str]], name: str, version: str | None) -> ModelState:
    """Returns a model's state in a repository index."""
    states = {number: ModelState(state or "LOADING") for entry, number, state in index if entry == name}
    if version is not None:
        return states.get(str(version), ModelState.UNAVAILABLE)
    return states[max(states, key=int)] if states else ModelState.UNAVAILABLE


def get_model_config(
    client: Any,
    model_name: str,
    model_version: str | None = None,
    timeout_s: float | None = None,
    headers: Mapping[str, str] | None = None,
) -> TritonModelConfig:
    """Returns a model's configuration, after the model is ready.

    Args:
        client: A client of `create_client_from_url` or of tritonclient.
        model_name: Name of the model.
        model_version: Version of the model; None means the latest.
        timeout_s: Total timeout; 300 s by default.
        headers: Headers of the calls.

    Raises:
        PyTritonClientTimeoutError: the model was not ready in time.
    """
    timeout_s = _DEFAULT_WAIT_FOR_MODEL_TIMEOUT_S if timeout_s is None else timeout_s
    deadline = time.monotonic() + timeout_s
    wait_for_model_ready(client, model_name, model_version, timeout_s, headers)
    left_s = max(1.0, min(_DEFAULT_NETWORK_TIMEOUT_S, deadline - time.monotonic()))
    with _probe.translate_errors():
        response = _probe.config(client, model_name, model_version, headers, left_s)
    return ModelConfigParser.from_dict(_probe.parse_config(response))


def wait_for_server_ready(
    client: Any, timeout_s: float | None = None, headers: Mapping[str, str] | None = None
) -> None:
    """Waits until the server and its models are ready.

    Args:
        client: A client of `create_client_from_url` or of tritonclient.
        timeout_s: Timeout; 60 s by default.
        headers: Headers of the calls.

    Raises:
        PyTritonClientTimeoutError: they were not ready in time.
    """
    timeout_s = _DEFAULT_WAIT_FOR_SERVER_READY_TIMEOUT_S if timeout_s is None else timeout_s
    _LOGGER.debug("Waiting for server to be ready (timeout=%s)", timeout_s)
    if not _poll(client, timeout_s, lambda left_s: _probe.ready(client, headers, left_s)):
        raise PyTritonClientTimeoutError("Waiting for server to be ready timed out.")


def wait_for_model_ready(
    client: Any,
    model_name: str,
    model_version: str | None = None,
    timeout_s: float | None = None,
    headers: Mapping[str, str] | None = None,
) -> None:
    """Waits until the server and a model are ready.

    Args:
        client: A client of `create_client_from_url` or of tritonclient.
        model_name: Name of the model.
        model_version: Version of the model; None means the latest.
        timeout_s: Timeout; 300 s by default.
        headers: Headers of the calls.

    Raises:
        PyTritonClientTimeoutError: they were not ready in time. It is also a `PyTritonClientModelUnavailableError`
            if only the model was not ready.
    """
    timeout_s = _DEFAULT_WAIT_FOR_MODEL_TIMEOUT_S if timeout_s is None else timeout_s
    deadline = time.monotonic() + timeout_s
    wait_for_server_ready(client, timeout_s, headers)
    timeout_s = max(0.0, deadline - time.monotonic())
    shown = f"{model_name}/{model_version or LATEST_MODEL_VERSION}"
    _LOGGER.debug("Waiting for model %s to be ready (timeout=%s)", shown, timeout_s)
    if not _poll(
        client, timeout_s, lambda left_s: _probe.model_ready(client, model_name, model_version, headers, left_s)
    ):
        raise ModelUnavailableTimeout(f"Waiting for model {shown} to be ready timed out.")


def poll_schedule(timeout_s: float) -> Iterator[tuple[float, float]]:
    """Yields the timeout of each probe and the pause after it, in seconds. Pauses grow to 1 s."""
    deadline = time.monotonic() + timeout_s
    pause_s = 0.02
    left_s = timeout_s
    while True:
        yield max(0.05, min(_DEFAULT_NETWORK_TIMEOUT_S, left_s)), min(pause_s, max(0.0, left_s))
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            return
        pause_s = min(1.0, pause_s * 1.5)


def _poll(client: Any, timeout_s: float, probe: Callable[[float], bool]) -> bool:
    for left_s, pause_s in poll_schedule(timeout_s):
        try:
            if probe(left_s):
                return True
        except Exception as error:
            _probe.raise_if_final(client, error)
        time.sleep(pause_s)
    return False
