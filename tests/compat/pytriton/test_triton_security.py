"""1.3: tokens of administrative endpoints."""

from __future__ import annotations

import logging
from typing import Any

import grpc
import pytest
from live import bind, is_serving, triton, url
from tritonclient.grpc import service_pb2, service_pb2_grpc

from http_by_hand import Connection
from penstock.compat.pytriton.exceptions import PyTritonValidationError
from penstock.compat.pytriton.triton import (
    DEFAULT_PROTECTED_ENDPOINTS,
    TRITON_ACCESS_HEADER,
    VALID_TRITON_ENDPOINTS,
    Triton,
    TritonSecurityConfig,
)
from waiting import PATIENCE

PROTECTED = [
    ("GET", "/v2/models/m/stats"),
    ("GET", "/v2/models/stats"),
    ("POST", "/v2/repository/index"),
    ("GET", "/v2/logging"),
    ("GET", "/v2/trace/setting"),
    ("GET", "/v2/systemsharedmemory/status"),
]
FREE = ["/v2", "/v2/health/ready", "/v2/models/m", "/v2/models/m/config", "/v2/models/m/ready"]


def statuses(server: Triton, calls: Any, **headers: str) -> set[int]:
    with Connection(url(server)) as connection:
        return {connection.send_request(method, path, headers=headers).status for method, path in calls}


def statistics(server: Triton, *metadata: tuple[str, str]) -> Any:
    with grpc.insecure_channel(url(server, "grpc").removeprefix("grpc://")) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        return stub.ModelStatistics(service_pb2.ModelStatisticsRequest(), metadata=metadata, timeout=PATIENCE)


def test_administrative_endpoints_require_a_token_by_default() -> None:
    with triton() as server:
        bind(server)
        token = server.get_access_token()
        assert token is not None
        assert len(token) == 43
        assert statuses(server, PROTECTED) == {403}
        assert statuses(server, PROTECTED, **{TRITON_ACCESS_HEADER: token + "x"}) == {403}
        assert statuses(server, PROTECTED, **{TRITON_ACCESS_HEADER: token}) == {200}
        assert statuses(server, [("GET", path) for path in FREE]) == {200}
        assert is_serving(server)
        with Connection(url(server)) as connection:
            rejected = connection.send_request("GET", "/v2/logging")
        assert rejected.body == b'{"error":"This API is restricted, expecting header \'triton-access-token\'"}'
        with pytest.raises(grpc.RpcError) as raised:
            statistics(server)
        assert raised.value.code() is grpc.StatusCode.PERMISSION_DENIED
        assert "expecting header 'triton-grpc-protocol-triton-access-token'" in raised.value.details()
        assert statistics(server, ("triton-grpc-protocol-triton-access-token", token)).model_stats[0].name == "m"


def test_metrics_port_requires_no_token() -> None:
    with triton() as server, Connection(url(server, "metrics")) as connection:
        bind(server)
        assert is_serving(server)
        response = connection.send_request("GET", "/metrics")
    assert response.status == 200
    assert b'nv_inference_request_success{model="m",version="1"} 2' in response.body


def test_protection_can_be_disabled() -> None:
    with triton(security_config=TritonSecurityConfig(restricted_endpoints=[])) as server:
        bind(server)
        assert server.get_access_token() is None
        assert statuses(server, PROTECTED) == {200}


def test_custom_token_and_custom_endpoints() -> None:
    security = TritonSecurityConfig(access_token="custom", restricted_endpoints=["metadata"])
    with triton(security_config=security, http_restricted_api="logging:key=other") as server:
        bind(server)
        assert server.get_access_token() == "custom"
        assert statuses(server, [("GET", "/v2")]) == {403}
        assert statuses(server, [("GET", "/v2")], **{TRITON_ACCESS_HEADER: "custom"}) == {200}
        # The security configuration replaces the rules.
        assert statuses(server, PROTECTED) == {200}


def test_custom_rules_apply_without_security() -> None:
    unprotected = TritonSecurityConfig(restricted_endpoints=[])
    with triton(security_config=unprotected, http_restricted_api="logging,trace:key=other") as server:
        bind(server)
        calls = [("GET", "/v2/logging"), ("GET", "/v2/trace/setting")]
        assert statuses(server, calls) == {403}
        assert statuses(server, calls, key="other") == {200}
        assert statuses(server, [("GET", "/v2/models/stats")]) == {200}


def test_names_and_defaults_equal_pytritons() -> None:
    assert TRITON_ACCESS_HEADER == "triton-access-token"
    assert DEFAULT_PROTECTED_ENDPOINTS == ["shared-memory", "model-repository", "statistics", "trace", "logging"]
    assert len(VALID_TRITON_ENDPOINTS) == 9
    config = TritonSecurityConfig()
    assert config.restricted_endpoints == DEFAULT_PROTECTED_ENDPOINTS
    assert config.restricted_endpoints is not DEFAULT_PROTECTED_ENDPOINTS
    assert config.access_token != TritonSecurityConfig().access_token
    assert str(config.access_token) not in repr(config)
    assert TritonSecurityConfig("custom").access_token == "custom"


def test_unknown_endpoints_are_rejected() -> None:
    message = (
        r"^Invalid endpoint names: a, b\. Valid endpoints are: health, inference, logging, metadata, model-config, "
    )
    with pytest.raises(PyTritonValidationError, match=message):
        TritonSecurityConfig(restricted_endpoints=["b", "trace", "a"])


@pytest.mark.parametrize("token", ["a;b", " a", "env:HOME", "file:/etc/passwd", "gr\u00fcn", "a\nb"])
def test_invalid_token_is_rejected(token: str) -> None:
    with pytest.raises(PyTritonValidationError, match=r"^The access token must be printable ASCII text"):
        triton(security_config=TritonSecurityConfig(access_token=token))


def test_empty_token_disables_protection_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with (
        caplog.at_level(logging.WARNING, "pytriton"),
        triton(security_config=TritonSecurityConfig(access_token="")) as server,
    ):
        bind(server)
        assert statuses(server, PROTECTED) == {200}
    assert "The access token is empty, so these endpoints are not protected: shared-memory" in caplog.text
