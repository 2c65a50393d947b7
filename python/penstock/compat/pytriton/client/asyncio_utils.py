"""`penstock.compat.pytriton.client.utils` for asyncio."""

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
from penstock.compat.pytriton.client.utils import LATEST_MODEL_VERSION, ModelState, pauses, state_of
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
_LOOK_S = 60.0


async def asyncio_get_model_state(client: Any, model_name: str, model_version: str | None = None) -> ModelState:
    """What the server says of a model, or of its latest version.

    Args:
        client: A `penstock.client.AsyncClient`, or one of tritonclient's for asyncio.
        model_name: The model's name.
        model_version: Its version; None is the greatest number.

    Returns:
        Its state; `UNAVAILABLE` if there is no such model.
    """
    with _probe.refusals():
        return state_of(_probe.entries(await _probe.index(client, None)), model_name, model_version)


async def asyncio_get_model_config(
    client: Any,
    model_name: str,
    model_version: str | None = None,
    timeout_s: float = _DEFAULT_WAIT_FOR_MODEL_TIMEOUT_S,
) -> TritonModelConfig:
    """A model's configuration, once the model is ready.

    Args:
        client: A `penstock.client.AsyncClient`, or one of tritonclient's for asyncio.
        model_name: The model's name.
        model_version: Its version; None is the latest.
        timeout_s: How long all may take.

    Raises:
        PyTritonClientTimeoutError: the model was not ready in time.
    """
    deadline = time.monotonic() + timeout_s
    await asyncio_wait_for_model_ready(client, model_name, model_version, timeout_s)
    left_s = max(1.0, min(_LOOK_S, deadline - time.monotonic()))
    with _probe.refusals():
        answer = await _probe.config(client, model_name, model_version, None, left_s)
    return ModelConfigParser.from_dict(_probe.config_of(answer))


async def asyncio_wait_for_server_ready(asyncio_client: Any, sleep_time_s: float) -> None:
    """Waits until the server and its models can answer, however long it takes.

    Args:
        asyncio_client: A `penstock.client.AsyncClient`, or one of tritonclient's for asyncio.
        sleep_time_s: The time between two looks.
    """
    await _until(asyncio_client, _always(sleep_time_s), lambda left_s: _probe.ready(asyncio_client, None, left_s))


async def asyncio_wait_for_model_status_loaded(
    asyncio_client: Any, model_name: str, sleep_time_s: float, model_version: str | None = None
) -> None:
    """Waits until a model can answer, however long it takes.

    Args:
        asyncio_client: A `penstock.client.AsyncClient`, or one of tritonclient's for asyncio.
        model_name: The model's name.
        sleep_time_s: The time between two looks.
        model_version: Its version; None is the latest.
    """
    await _until(asyncio_client, _always(sleep_time_s), _model_look(asyncio_client, model_name, model_version))


async def asyncio_wait_for_model_ready(
    asyncio_client: Any,
    model_name: str,
    model_version: str | None = None,
    timeout_s: float = _DEFAULT_WAIT_FOR_MODEL_TIMEOUT_S,
) -> None:
    """Waits until the server and a model can answer.

    Args:
        asyncio_client: A `penstock.client.AsyncClient`, or one of tritonclient's for asyncio.
        model_name: The model's name.
        model_version: Its version; None is the latest.
        timeout_s: How long.

    Raises:
        PyTritonClientTimeoutError: they could not in time. It is a `PyTritonClientModelUnavailableError`
            too if the server could, and the model could not.
    """
    deadline = time.monotonic() + timeout_s
    shown = f"{model_name}/{model_version or LATEST_MODEL_VERSION}"
    _LOGGER.debug("Waiting for model %s to be ready (timeout=%s)", shown, timeout_s)
    late = f"Timeout while waiting for model {model_name} to be ready (timeout={timeout_s:0.2f})"
    if not await _until(asyncio_client, pauses(timeout_s), lambda left_s: _probe.ready(asyncio_client, None, left_s)):
        raise PyTritonClientTimeoutError(late)
    left_s = max(0.0, deadline - time.monotonic())
    if not await _until(asyncio_client, pauses(left_s), _model_look(asyncio_client, model_name, model_version)):
        raise ModelUnavailableTimeout(late)


def _model_look(client: Any, name: str, version: str | None) -> Callable[[float], Awaitable[bool]]:
    return lambda left_s: _probe.model_ready(client, name, version, None, left_s)


def _always(sleep_time_s: float) -> Iterable[tuple[float, float]]:
    return itertools.repeat((_LOOK_S, sleep_time_s))


async def _until(client: Any, looks: Iterable[tuple[float, float]], look: Callable[[float], Awaitable[bool]]) -> bool:
    for left_s, pause_s in looks:
        try:
            if await look(left_s):
                return True
        except Exception as error:
            _probe.raise_if_final(client, error)
        await asyncio.sleep(pause_s)
    return False
