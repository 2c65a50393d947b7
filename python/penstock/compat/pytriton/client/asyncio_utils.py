"""Async versions of `penstock.compat.pytriton.client.utils`."""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from penstock.compat.pytriton.client import _probe
from penstock.compat.pytriton.client._errors import ModelUnavailableTimeout
from penstock.compat.pytriton.client.exceptions import PyTritonClientTimeoutError
from penstock.compat.pytriton.client.utils import LATEST_MODEL_VERSION, ModelState, find_state, poll_schedule
from penstock.compat.pytriton.model_config.parser import ModelConfigParser
from penstock.compat.pytriton.model_config.triton_model_config import TritonModelConfig

__all__ = [
    "asyncio_get_model_config",
    "asyncio_get_model_state",
    "asyncio_wait_for_model_ready",
    "asyncio_wait_for_model_status_loaded",
    "asyncio_wait_for_server_ready",
]

_LOGGER = logging.getLogger(__name__)
_DEFAULT_WAIT_FOR_MODEL_TIMEOUT_S = 60.0
_PROBE_TIMEOUT_S = 60.0
_Probe = Callable[[float], Awaitable[bool]]


async def asyncio_get_model_state(client: Any, model_name: str, model_version: str | None = None) -> ModelState:
    """Returns the state of a model, or of its latest version.

    Args:
        client: A `penstock.client.AsyncClient`, or an asyncio client of tritonclient.
        model_name: Name of the model.
        model_version: Version of the model; None means the greatest number.

    Returns:
        State of the model; `UNAVAILABLE` if it does not exist.
    """
    with _probe.translate_errors():
        return find_state(_probe.parse_index(await _probe.index(client, None)), model_name, model_version)


async def asyncio_get_model_config(
    client: Any,
    model_name: str,
    model_version: str | None = None,
    timeout_s: float = _DEFAULT_WAIT_FOR_MODEL_TIMEOUT_S,
) -> TritonModelConfig:
    """Returns a model's configuration, after the model is ready.

    Args:
        client: A `penstock.client.AsyncClient`, or an asyncio client of tritonclient.
        model_name: Name of the model.
        model_version: Version of the model; None means the latest.
        timeout_s: Total timeout.

    Raises:
        PyTritonClientTimeoutError: the model was not ready in time.
    """
    deadline = time.monotonic() + timeout_s
    await asyncio_wait_for_model_ready(client, model_name, model_version, timeout_s)
    left_s = max(1.0, min(_PROBE_TIMEOUT_S, deadline - time.monotonic()))
    with _probe.translate_errors():
        response = await _probe.config(client, model_name, model_version, None, left_s)
    return ModelConfigParser.from_dict(_probe.parse_config(response))


async def asyncio_wait_for_server_ready(asyncio_client: Any, sleep_time_s: float) -> None:
    """Waits until the server and its models are ready, without a timeout.

    Args:
        asyncio_client: A `penstock.client.AsyncClient`, or an asyncio client of tritonclient.
        sleep_time_s: Pause between probes, in seconds.
    """
    await _poll(asyncio_client, _endless(sleep_time_s), lambda left_s: _probe.ready(asyncio_client, None, left_s))


async def asyncio_wait_for_model_status_loaded(
    asyncio_client: Any, model_name: str, sleep_time_s: float, model_version: str | None = None
) -> None:
    """Waits until a model is ready, without a timeout.

    Args:
        asyncio_client: A `penstock.client.AsyncClient`, or an asyncio client of tritonclient.
        model_name: Name of the model.
        sleep_time_s: Pause between probes, in seconds.
        model_version: Version of the model; None means the latest.
    """
    await _poll(asyncio_client, _endless(sleep_time_s), _model_probe(asyncio_client, model_name, model_version))


async def asyncio_wait_for_model_ready(
    asyncio_client: Any,
    model_name: str,
    model_version: str | None = None,
    timeout_s: float = _DEFAULT_WAIT_FOR_MODEL_TIMEOUT_S,
) -> None:
    """Waits until the server and a model are ready.

    Args:
        asyncio_client: A `penstock.client.AsyncClient`, or an asyncio client of tritonclient.
        model_name: Name of the model.
        model_version: Version of the model; None means the latest.
        timeout_s: Timeout.

    Raises:
        PyTritonClientTimeoutError: they were not ready in time. It is also a `PyTritonClientModelUnavailableError`
            if only the model was not ready.
    """
    deadline = time.monotonic() + timeout_s
    shown = f"{model_name}/{model_version or LATEST_MODEL_VERSION}"
    _LOGGER.debug("Waiting for model %s to be ready (timeout=%s)", shown, timeout_s)
    message = f"Timeout while waiting for model {model_name} to be ready (timeout={timeout_s:0.2f})"
    if not await _poll(
        asyncio_client, poll_schedule(timeout_s), lambda left_s: _probe.ready(asyncio_client, None, left_s)
    ):
        raise PyTritonClientTimeoutError(message)
    left_s = max(0.0, deadline - time.monotonic())
    if not await _poll(asyncio_client, poll_schedule(left_s), _model_probe(asyncio_client, model_name, model_version)):
        raise ModelUnavailableTimeout(message)


def _server_probe(client: Any) -> _Probe:
    return lambda left_s: _probe.ready(client, None, left_s)


def _model_probe(client: Any, name: str, version: str | None) -> _Probe:
    return lambda left_s: _probe.model_ready(client, name, version, None, left_s)


def _endless(sleep_time_s: float) -> Iterable[tuple[float, float]]:
    return itertools.repeat((_PROBE_TIMEOUT_S, sleep_time_s))


async def _poll(client: Any, schedule: Iterable[tuple[float, float]], probe: _Probe) -> bool:
    for left_s, pause_s in schedule:
        try:
            if await probe(left_s):
                return True
        except Exception as error:
            _probe.raise_if_final(client, error)
        await asyncio.sleep(pause_s)
    return False
