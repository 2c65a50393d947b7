"""Asking a server whether it, and a model of it, can answer; and how the model is configured."""

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
_MOST_BYTES = 1 << 34
"""Of one answer: as good as no bound, as PyTriton has none."""

LATEST_MODEL_VERSION = "<latest>"


class ModelState(enum.Enum):
    """What a server says of a model."""

    LOADING = "LOADING"
    UNLOADING = "UNLOADING"
    UNAVAILABLE = "UNAVAILABLE"
    """There is none, or it could not be loaded."""
    READY = "READY"


def create_client_from_url(url: str, network_timeout_s: float | None = None) -> Client:
    """A client of the server at a URL, for the functions of this module.

    Args:
        url: See `TritonUrl.from_url`.
        network_timeout_s: How long each call may take; 60 s by default.

    Returns:
        A client of Penstock's, with its methods: `ready`, `infer`, `config` and so on.

    Raises:
        PyTritonClientInvalidUrlError: the URL cannot be used.
    """
    timeout_s = _DEFAULT_NETWORK_TIMEOUT_S if network_timeout_s is None else network_timeout_s
    return Client(TritonUrl.from_url(url).with_scheme, **options(timeout_s, None))


def options(timeout_s: float, headers: Mapping[str, str] | None) -> Any:
    """A client's options, for calls that may take so long."""
    return {
        "timeout": timeout_s,
        "connect_timeout": timeout_s,
        "headers": headers or {},
        "max_answer_bytes": _MOST_BYTES,
        "max_idle": 128,
    }


def get_model_state(
    client: Any, model_name: str, model_version: str | None = None, headers: Mapping[str, str] | None = None
) -> ModelState:
    """What the server says of a model, or of its latest version.

    Args:
        client: One of `create_client_from_url`, or of tritonclient's.
        model_name: The model's name.
        model_version: Its version; None is the greatest number.
        headers: Headers of the call.

    Returns:
        Its state; `UNAVAILABLE` if there is no such model.
    """
    with _probe.refusals():
        return state_of(_probe.entries(_probe.index(client, headers)), model_name, model_version)


def state_of(entries: list[tuple[str, str, str]], name: str, version: str | None) -> ModelState:
    """A model's state according to a repository's index."""
    states = {one: ModelState(state or "LOADING") for entry, one, state in entries if entry == name}
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
    """A model's configuration, once the model is ready.

    Args:
        client: One of `create_client_from_url`, or of tritonclient's.
        model_name: The model's name.
        model_version: Its version; None is the latest.
        timeout_s: How long all may take; 300 s by default.
        headers: Headers of the calls.

    Raises:
        PyTritonClientTimeoutError: the model was not ready in time.
    """
    timeout_s = _DEFAULT_WAIT_FOR_MODEL_TIMEOUT_S if timeout_s is None else timeout_s
    deadline = time.monotonic() + timeout_s
    wait_for_model_ready(client, model_name, model_version, timeout_s, headers)
    left_s = max(1.0, min(_DEFAULT_NETWORK_TIMEOUT_S, deadline - time.monotonic()))
    with _probe.refusals():
        answer = _probe.config(client, model_name, model_version, headers, left_s)
    return ModelConfigParser.from_dict(_probe.config_of(answer))


def wait_for_server_ready(
    client: Any, timeout_s: float | None = None, headers: Mapping[str, str] | None = None
) -> None:
    """Waits until the server and its models can answer.

    Args:
        client: One of `create_client_from_url`, or of tritonclient's.
        timeout_s: How long; 60 s by default.
        headers: Headers of the calls.

    Raises:
        PyTritonClientTimeoutError: they could not in time.
    """
    timeout_s = _DEFAULT_WAIT_FOR_SERVER_READY_TIMEOUT_S if timeout_s is None else timeout_s
    _LOGGER.debug("Waiting for server to be ready (timeout=%s)", timeout_s)
    if not _until(client, timeout_s, lambda left_s: _probe.ready(client, headers, left_s)):
        raise PyTritonClientTimeoutError("Waiting for server to be ready timed out.")


def wait_for_model_ready(
    client: Any,
    model_name: str,
    model_version: str | None = None,
    timeout_s: float | None = None,
    headers: Mapping[str, str] | None = None,
) -> None:
    """Waits until the server and a model can answer.

    Args:
        client: One of `create_client_from_url`, or of tritonclient's.
        model_name: The model's name.
        model_version: Its version; None is the latest.
        timeout_s: How long; 300 s by default.
        headers: Headers of the calls.

    Raises:
        PyTritonClientTimeoutError: they could not in time. It is a `PyTritonClientModelUnavailableError`
            too if the server could, and the model could not.
    """
    timeout_s = _DEFAULT_WAIT_FOR_MODEL_TIMEOUT_S if timeout_s is None else timeout_s
    deadline = time.monotonic() + timeout_s
    wait_for_server_ready(client, timeout_s, headers)
    timeout_s = max(0.0, deadline - time.monotonic())
    shown = f"{model_name}/{model_version or LATEST_MODEL_VERSION}"
    _LOGGER.debug("Waiting for model %s to be ready (timeout=%s)", shown, timeout_s)
    if not _until(
        client, timeout_s, lambda left_s: _probe.model_ready(client, model_name, model_version, headers, left_s)
    ):
        raise ModelUnavailableTimeout(f"Waiting for model {shown} to be ready timed out.")


def pauses(timeout_s: float) -> Iterator[tuple[float, float]]:
    """For each look how long it may take, and how long to wait after it: at first little, then 1 s."""
    deadline = time.monotonic() + timeout_s
    pause_s = 0.02
    left_s = timeout_s
    while True:
        yield max(0.05, min(_DEFAULT_NETWORK_TIMEOUT_S, left_s)), min(pause_s, max(0.0, left_s))
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            return
        pause_s = min(1.0, pause_s * 1.5)


def _until(client: Any, timeout_s: float, look: Callable[[float], bool]) -> bool:
    for left_s, pause_s in pauses(timeout_s):
        try:
            if look(left_s):
                return True
        except Exception as error:
            _probe.raise_if_final(client, error)
        time.sleep(pause_s)
    return False
