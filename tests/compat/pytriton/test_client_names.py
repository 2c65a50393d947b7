"""Names in the clients' modules, and the classes and signatures of errors and clients."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

import pytest

from penstock.compat.pytriton import client
from penstock.compat.pytriton.client import exceptions as errors
from penstock.compat.pytriton.client import warnings

NAMES = {
    "client": "ModelClient FuturesModelClient DecoupledModelClient AsyncioModelClient AsyncioDecoupledModelClient",
    "client.client": "ModelClient BaseModelClient DEFAULT_INFERENCE_TIMEOUT_S",
    "client.utils": "TritonUrl create_client_from_url wait_for_server_ready wait_for_model_ready get_model_config "
    "get_model_state ModelState LATEST_MODEL_VERSION",
    "client.asyncio_utils": "asyncio_wait_for_server_ready asyncio_wait_for_model_ready asyncio_get_model_config "
    "asyncio_get_model_state asyncio_wait_for_model_status_loaded",
    "client.auth": "create_auth_headers extract_access_token_from_headers",
    "client.warnings": "NotSupportedTimeoutWarning PyTritonWarning",
    "check.utils": "find_free_port ProcessMonitoring ScriptThread DEFAULT_LOG_FORMAT TestMonitoringContext "
    "search_warning_on_too_verbose_log_level",
}
DIRECT = [
    "Timeout",
    "ModelUnavailable",
    "Closed",
    "ModelDoesntSupportBatching",
    "InferenceServer",
    "QueueFull",
    "Value",
]


@pytest.mark.parametrize("module", NAMES)
def test_modules_have_pytritons_names(module: str) -> None:
    imported = importlib.import_module(f"penstock.compat.pytriton.{module}")
    assert [name for name in NAMES[module].split() if not hasattr(imported, name)] == []


def test_base_classes_of_errors() -> None:
    for name in DIRECT:
        assert getattr(errors, f"PyTritonClient{name}Error").__bases__ == (errors.PyTritonClientError,)
    assert errors.PyTritonClientInvalidUrlError.__bases__ == (errors.PyTritonClientValueError,)
    error = errors.PyTritonClientTimeoutError("late")
    assert (error.message, str(error)) == ("late", "late")
    assert issubclass(warnings.NotSupportedTimeoutWarning, warnings.PyTritonWarning)
    assert issubclass(warnings.PyTritonWarning, UserWarning)


@pytest.mark.parametrize(
    "kind",
    [client.ModelClient, client.DecoupledModelClient, client.AsyncioModelClient, client.AsyncioDecoupledModelClient],
)
def test_constructors_of_four_clients_are_equal(kind: Any) -> None:
    parameters = inspect.signature(kind).parameters
    defaults = {name: one.default for name, one in parameters.items() if one.default is not inspect.Parameter.empty}
    assert list(parameters)[:3] == ["url", "model_name", "model_version"]
    assert defaults == {
        "model_version": None,
        "lazy_init": True,
        "init_timeout_s": None,
        "inference_timeout_s": None,
        "model_config": None,
        "ensure_model_is_ready": True,
        "access_token": None,
    }
    assert all(parameters[name].kind is inspect.Parameter.KEYWORD_ONLY for name in list(parameters)[3:])


def test_constructor_of_the_futures_client() -> None:
    parameters = inspect.signature(client.FuturesModelClient).parameters
    assert {name: one.default for name, one in parameters.items() if name not in ("url", "model_name")} == {
        "model_version": None,
        "max_workers": 128,
        "max_queue_size": 128,
        "non_blocking": False,
        "init_timeout_s": None,
        "inference_timeout_s": None,
        "access_token": None,
    }


def test_default_timeouts() -> None:
    default = client.ModelClient("localhost", "m")
    assert (default._init_timeout_s, default._inference_timeout_s, default._network_timeout_s) == (300.0, 60.0, 60.0)
    default.close()
    short = client.ModelClient("localhost", "m", init_timeout_s=5, inference_timeout_s=7)
    assert (short._init_timeout_s, short._inference_timeout_s, short._network_timeout_s) == (5, 7, 5)
    short.close()
