"""Translation of `TritonConfig`: Penstock's settings, PyTriton's defaults, and fields without an effect."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from penstock import ServerConfig
from penstock.compat.pytriton._settings import server_config
from penstock.compat.pytriton._settings.cache import CacheSettings, cache_settings
from penstock.compat.pytriton.exceptions import PyTritonValidationError
from penstock.compat.pytriton.triton import Triton, TritonConfig, TritonSecurityConfig

OPEN = TritonSecurityConfig(restricted_endpoints=[])
METRICS = "metrics=0.0.0.0:8002"


def settings(security: TritonSecurityConfig = OPEN, **config: Any) -> ServerConfig:
    return server_config.server_config(TritonConfig(**config), security)


def test_defaults_equal_pytritons() -> None:
    translated = settings()
    assert (translated.http, translated.grpc, translated.listeners) == ("0.0.0.0:8000", "0.0.0.0:8001", (METRICS,))
    assert translated.drain_timeout == 30.0
    assert (translated.dialect, translated.server_name, translated.server_version) == ("triton", None, "2.51.0")
    assert (translated.max_body_bytes, translated.idle_timeout) == (2**31, 0.0)
    assert (translated.sagemaker, translated.vertex, translated.shared_memory, translated.restricted_access) == (
        False,
        False,
        "local",
        None,
    )


def test_addresses_and_ports_are_translated() -> None:
    translated = settings(http_address="127.0.0.1", http_port=1, grpc_address="::1", grpc_port=2, metrics_port=3)
    assert (translated.http, translated.grpc) == ("127.0.0.1:1", "[::1]:2")
    assert translated.listeners == ("metrics=127.0.0.1:3",)
    translated = settings(allow_http=False, allow_metrics=False)
    assert (translated.http, translated.grpc, translated.listeners) == (None, "0.0.0.0:8001", ())
    assert settings(allow_grpc=False, metrics_address="10.0.0.1").listeners == ("metrics=10.0.0.1:8002",)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"exit_timeout_secs": 3}, {"drain_timeout": 3.0}),
        ({"id": "custom"}, {"server_name": "custom"}),
        ({"log_verbose": 1}, {"access_log": "text", "log_level": "info"}),
        ({"log_verbose": 0}, {"access_log": "off", "log_level": "warning"}),
        ({"http_header_forward_pattern": "header.*"}, {"http_header_forward_pattern": "header.*"}),
        ({"grpc_header_forward_pattern": "header.*"}, {"grpc_header_forward_pattern": "header.*"}),
        ({"grpc_infer_response_compression_level": "none"}, {"grpc_compression": "off"}),
        ({"grpc_infer_response_compression_level": "high"}, {"grpc_compression": "gzip"}),
        ({"allow_sagemaker": True}, {"sagemaker": True, "listeners": ("http=0.0.0.0:8080", METRICS)}),
        ({"allow_sagemaker": True, "sagemaker_port": 9}, {"listeners": ("http=0.0.0.0:9", METRICS)}),
        ({"allow_sagemaker": True, "http_port": 8080}, {"http": "0.0.0.0:8080", "listeners": (METRICS,)}),
        ({"allow_sagemaker": True, "allow_http": False}, {"http": "0.0.0.0:8080", "listeners": (METRICS,)}),
        ({"cache_config": ["redis,host=cache", "redis,port=7"]}, {"cache_redis": "redis://cache:7"}),
        ({"cache_config": ["local,size=7"]}, {"cache_redis": None}),
        ({"http_restricted_api": "logging:a=b"}, {"restricted_access": "logging:a=b"}),
        (
            {"http_restricted_api": "logging:a=b", "grpc_restricted_protocol": "trace:c=d"},
            {"restricted_access": "logging:a=b;trace:c=d"},
        ),
    ],
)
def test_supported_fields_are_translated(config: dict[str, Any], expected: dict[str, Any]) -> None:
    translated = settings(**config)
    assert {name: getattr(translated, name) for name in expected} == expected


def test_vertex_ai_sets_port_and_routes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIP_HEALTH_ROUTE", "/health")
    monkeypatch.setenv("AIP_PREDICT_ROUTE", "/predict")
    translated = settings(allow_vertex_ai=True, vertex_ai_port=81, vertex_ai_default_model="m")
    assert (translated.http, translated.listeners, translated.vertex) == (
        "0.0.0.0:8000",
        ("http=0.0.0.0:81", METRICS),
        True,
    )
    assert (translated.vertex_health_route, translated.vertex_predict_route, translated.hosted_model) == (
        "/health",
        "/predict",
        "m",
    )


def test_trace_configuration_sets_the_exporter() -> None:
    trace_config = [
        "mode=opentelemetry",
        "opentelemetry,url=http://127.0.0.1:4318/v1/traces",
        "rate=4",
        "level=TIMESTAMPS",
    ]
    translated = settings(trace_config=trace_config)
    exporter = translated.tracing
    assert exporter is not None
    assert (exporter.endpoint, exporter.path, exporter.service_name) == (
        "http://127.0.0.1:4318",
        "/v1/traces",
        "triton",
    )
    assert (exporter.ratio, exporter.parent_based) == (0.25, True)
    for without in range(4):
        if not trace_config[without].startswith("rate"):
            incomplete = [*trace_config[:without], *trace_config[without + 1 :]]
            assert settings(trace_config=incomplete).tracing is None


def test_unsupported_collectors_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    trace_config = ["mode=opentelemetry", "opentelemetry,url=https://far/v1/traces", "level=TIMESTAMPS"]
    with caplog.at_level(logging.WARNING, "pytriton"):
        assert settings(trace_config=trace_config).tracing is None
    assert "spans of the server itself are sent over http:// only" in caplog.text


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        (None, CacheSettings()),
        (["local,size=1048576"], CacheSettings(size=1048576)),
        (["redis,host=h"], CacheSettings(redis="redis://h:6379")),
        (["redis,host=h", "redis,password=a/b"], CacheSettings(redis="redis://:a%2Fb@h:6379")),
    ],
)
def test_cache_config_is_parsed(items: list[str] | None, expected: CacheSettings) -> None:
    assert cache_settings(TritonConfig(cache_config=items)) == expected


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"cache_config": ["disk,size=1"]}, "cache_config: 'disk,size=1' is not local,size=BYTES"),
        ({"cache_config": ["local,size=big"]}, "cache_config: the size 'big' is not a number of bytes"),
        (
            {"cache_config": ["local,size=1", "redis,host=h"]},
            "cache_config: got both local and redis, expected one of them",
        ),
        ({"grpc_use_ssl": True}, "grpc_use_ssl: TLS is not supported"),
        ({"grpc_use_ssl_mutual": True}, "grpc_use_ssl: TLS is not supported"),
        (
            {"grpc_infer_response_compression_level": "max"},
            "grpc_infer_response_compression_level: 'max' is not one of",
        ),
        (
            {"trace_config": ["mode=opentelemetry", "opentelemetry,url=http://h", "level=TIMESTAMPS", "rate=often"]},
            "trace_config: the rate 'often' is not a number",
        ),
    ],
)
def test_unsupported_settings_are_rejected(config: dict[str, Any], message: str) -> None:
    with pytest.raises(PyTritonValidationError, match=f"^{message}"):
        settings(**config)


def test_penstocks_settings_are_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_IO_THREADS", "3")
    monkeypatch.setenv("PENSTOCK_MAX_BODY_BYTES", "1MiB")
    monkeypatch.setenv("PENSTOCK_HTTP", "127.0.0.1:1")
    translated = settings()
    assert (translated.io_threads, translated.max_body_bytes, translated.http) == (3, 2**20, "0.0.0.0:8000")


def test_settings_without_an_effect_are_logged_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_config, "_warned", set())
    with caplog.at_level(logging.WARNING, "pytriton"):
        for _ in range(2):
            Triton(config=TritonConfig(http_thread_count=4, exit_on_error=False, id="x"))
    messages = [record.getMessage() for record in caplog.records]
    assert [one.split(":")[0] for one in messages] == [
        "TritonConfig.exit_on_error has no effect",
        "TritonConfig.http_thread_count has no effect",
    ]


def test_all_fields_are_used_or_listed_as_unused() -> None:
    """Checks that each field is either read by the code or listed."""
    from dataclasses import fields
    from inspect import getsource

    from penstock.compat.pytriton._server import in_process
    from penstock.compat.pytriton._settings import cache

    read = getsource(server_config).partition("def warn_unused")[2] + getsource(cache) + getsource(in_process)
    for one in fields(TritonConfig):
        assert (f"config.{one.name}" in read) != (one.name in server_config.WITHOUT_MEANING), one.name
