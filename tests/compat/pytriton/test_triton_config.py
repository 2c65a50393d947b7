"""1.1: `TritonConfig`."""

from __future__ import annotations

import dataclasses
import logging
from pathlib import Path

import pytest

from penstock.compat.pytriton._settings.triton_config import merged
from penstock.compat.pytriton.exceptions import PyTritonValidationError
from penstock.compat.pytriton.triton import TritonConfig

FIELDS = """
model_repository id log_verbose log_file exit_timeout_secs exit_on_error strict_readiness allow_http
http_address http_port http_header_forward_pattern http_thread_count http_restricted_api allow_grpc
grpc_address grpc_port grpc_header_forward_pattern grpc_infer_allocation_pool_size grpc_use_ssl
grpc_use_ssl_mutual grpc_server_cert grpc_server_key grpc_root_cert grpc_infer_response_compression_level
grpc_keepalive_time grpc_keepalive_timeout grpc_keepalive_permit_without_calls
grpc_http2_max_pings_without_data grpc_http2_min_recv_ping_interval_without_data grpc_http2_max_ping_strikes
grpc_restricted_protocol allow_metrics allow_gpu_metrics allow_cpu_metrics metrics_interval_ms metrics_port
metrics_address allow_sagemaker sagemaker_port sagemaker_safe_port_range sagemaker_thread_count
allow_vertex_ai vertex_ai_port vertex_ai_thread_count vertex_ai_default_model metrics_config trace_config
cache_config cache_directory buffer_manager_thread_count
"""


def test_all_fields_exist_and_default_to_none() -> None:
    assert [one.name for one in dataclasses.fields(TritonConfig)] == FIELDS.split()
    assert TritonConfig().to_dict() == dict.fromkeys(FIELDS.split())


def test_positional_arguments_are_rejected() -> None:
    with pytest.raises(TypeError):
        TritonConfig("models")  # type: ignore[misc]


def test_server_without_protocols_is_rejected() -> None:
    with pytest.raises(PyTritonValidationError, match=r"^The `http` or `grpc` endpoint has to be allowed\.$"):
        TritonConfig(allow_http=False, allow_grpc=False)
    assert TritonConfig(allow_http=False).allow_grpc is None


def test_values_of_a_dictionary_are_converted() -> None:
    values = {
        "http_port": "81",
        "allow_grpc": "true",
        "log_file": "/var/log/t",
        "id": 7,
        "cache_config": ("local,size=1",),
    }
    config = TritonConfig.from_dict(values)
    assert (config.http_port, config.allow_grpc, config.log_file, config.id) == (81, True, Path("/var/log/t"), "7")
    assert config.cache_config == ["local,size=1"]
    assert TritonConfig.from_dict(config.to_dict()) == config


@pytest.mark.parametrize(
    ("text", "value"), [("false", False), ("0", False), ("off", False), ("True", True), ("1", True)]
)
def test_booleans_are_parsed_from_text(text: str, value: bool) -> None:
    """Differs from PyTriton, which reads any non-empty text as true."""
    assert TritonConfig.from_dict({"allow_http": text}).allow_http is value


@pytest.mark.parametrize(
    ("name", "value", "kind"),
    [("http_port", "eighty", "int"), ("allow_http", "maybe", "bool"), ("http_port", [1], "int")],
)
def test_error_of_an_invalid_value_names_the_field(name: str, value: object, kind: str) -> None:
    with pytest.raises(ValueError, match=f"^{name}: .* is not a value of type {kind}$"):
        TritonConfig.from_dict({name: value})


def test_unknown_names_are_ignored_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "pytriton"):
        assert TritonConfig.from_dict({"http_prot": 1, "http_port": 2}) == TritonConfig(http_port=2)
    assert "Ignoring http_prot=1 as could not find matching config field." in caplog.text


def test_environment_variables_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "GRPC_PORT": "45436",
        "LOG_VERBOSE": "4",
        "ALLOW_METRICS": "false",
        "TRACE_CONFIG_10": "c",
        "TRACE_CONFIG_0": "a",
        "TRACE_CONFIG_3": "b",
        "CACHE_CONFIG": "local,size=9",
    }.items():
        monkeypatch.setenv(f"PYTRITON_TRITON_CONFIG_{name}", value)
    config = TritonConfig.from_env()
    assert (config.grpc_port, config.log_verbose, config.allow_metrics) == (45436, 4, False)
    assert (config.trace_config, config.cache_config) == (["a", "b", "c"], ["local,size=9"])


def test_arguments_take_precedence_over_the_environment() -> None:
    both = merged(TritonConfig(http_port=1, allow_grpc=False), TritonConfig(http_port=2, grpc_port=3))
    assert both == TritonConfig(http_port=1, allow_grpc=False, grpc_port=3)
