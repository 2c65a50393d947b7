"""Settings of a running server: of its log, and of tracing (cases F22 and F23, T47)."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from functools import partial
from typing import Any

import grpc
import numpy as np
import pytest
from tritonclient.grpc import service_pb2 as pb

from http_by_hand import get, infer, post
from models.protocol import add, ver_1, ver_2
from penstock import Server
from penstock.testing import Client
from serving_process import Serving
from waiting import at_once

from .protocols import GrpcProtocol

DEFAULTS = {
    "log_file": "",
    "log_info": False,
    "log_warning": True,
    "log_error": True,
    "log_verbose_level": 0,
    "log_format": "ISO8601",
}
TRACE = {
    "trace_level": ["OFF"],
    "trace_rate": "1000",
    "trace_count": "-1",
    "log_frequency": "0",
    "trace_file": "",
    "trace_mode": "triton",
}


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(add, ver_1, ver_2, http="127.0.0.1:0", grpc="127.0.0.1:0") as server:
        yield server


def put(server: Server, path: str, document: Any) -> tuple[int, Any]:
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    response = post(server.http_url, path, body)
    return response.status, response.json() if response.status == 200 else response.json()["error"]


@pytest.mark.trap("T47")
def test_f22_read_and_change(server: Server) -> None:
    # T47: singular names, as in Triton's code.
    assert get(server.http_url, "/v2/logging").json() == DEFAULTS
    changed = {"log_info": True, "log_warning": False, "log_verbose_level": 2, "log_format": "default"}
    # Omitted and null settings stay unchanged.
    assert put(server, "/v2/logging", {**changed, "log_error": None, "log_file": None}) == (
        200,
        {**DEFAULTS, **changed},
    )
    assert get(server.http_url, "/v2/logging").json() == {**DEFAULTS, **changed}
    for nothing in (b"", b"{}"):
        assert put(server, "/v2/logging", nothing) == (200, {**DEFAULTS, **changed})


@pytest.mark.parametrize(
    ("change", "status", "parts"),
    [
        ({"log_file": "/tmp/x"}, 501, ["'log_file'", "cannot be changed"]),
        ({"log_verbose_level": -1}, 400, ["'log_verbose_level'", "an integer of 0 or more"]),
        ({"log_verbose_level": 1.5}, 400, ["'log_verbose_level'"]),
        ({"log_verbose_level": True}, 400, ["'log_verbose_level'"]),
        ({"log_verbose_level": 2**32}, 400, ["'log_verbose_level'"]),
        ({"log_info": 1}, 400, ["'log_info'", "true or false"]),
        ({"log_warning": "yes"}, 400, ["'log_warning'"]),
        ({"log_error": []}, 400, ["'log_error'"]),
        ({"log_format": "iso8601"}, 400, ["'log_format'", "'default' or 'ISO8601'"]),
        ({"log_warnings": True}, 400, ["unknown log setting 'log_warnings'", "log_warning"]),
        ([], 400, ["not a JSON object"]),
        (b"{", 400, ["not valid JSON"]),
    ],
)
def test_f22_refusals_change_nothing(server: Server, change: Any, status: int, parts: list[str]) -> None:
    document = {"log_info": True, **change} if isinstance(change, dict) else change
    got, message = put(server, "/v2/logging", document)
    assert got == status
    assert all(part in message for part in parts), message
    assert get(server.http_url, "/v2/logging").json() == DEFAULTS


def test_f22_concurrent_changes_are_all_applied(server: Server) -> None:
    fields = ("log_info", "log_warning", "log_error")
    for turn in range(60):
        values = dict.fromkeys(fields, bool(turn % 2))
        changes = [partial(put, server, "/v2/logging", {field: value}) for field, value in values.items()]
        assert [done.result()[0] for done in at_once(changes)] == [200] * 3
        assert get(server.http_url, "/v2/logging").json() == {**DEFAULTS, **values}


def test_f22_over_grpc(server: Server) -> None:
    stub = GrpcProtocol("grpc", server.grpc_url, typed=False).stub

    def settings(message: pb.LogSettingsResponse) -> dict[str, Any]:
        return {name: getattr(value, value.WhichOneof("parameter_choice")) for name, value in message.settings.items()}

    assert settings(stub.LogSettings(pb.LogSettingsRequest(), timeout=20)) == DEFAULTS
    request = pb.LogSettingsRequest()
    request.settings["log_verbose_level"].uint32_param = 1
    request.settings["log_info"].SetInParent()
    assert settings(stub.LogSettings(request, timeout=20)) == {**DEFAULTS, "log_verbose_level": 1}
    assert get(server.http_url, "/v2/logging").json()["log_verbose_level"] == 1
    wrong = {
        "log_file": (grpc.StatusCode.UNIMPLEMENTED, "log_file"),
        "log_format": (grpc.StatusCode.INVALID_ARGUMENT, "'default' or 'ISO8601'"),
        "log_nothing": (grpc.StatusCode.INVALID_ARGUMENT, "unknown log setting 'log_nothing'"),
    }
    for name, (code, text) in wrong.items():
        request = pb.LogSettingsRequest()
        request.settings[name].string_param = "x"
        with pytest.raises(grpc.RpcError) as refusal:
            stub.LogSettings(request, timeout=20)
        assert refusal.value.code() == code
        assert text in refusal.value.details()


def test_f22_settings_act_on_the_log() -> None:
    """The server was started without a log."""
    rows = {"x": np.ones((1, 4), np.float32)}
    with Serving("double.py", "--http", "127.0.0.1:0", "--grpc", "off") as server:
        assert infer(server.http, "double", rows, id="silent").status == 200
        post(server.http, "/v2/logging", b'{"log_verbose_level": 1, "log_info": true}')
        assert infer(server.http, "double", rows, id="date").status == 200
        server.await_stderr("id=date\n")
        post(server.http, "/v2/logging", b'{"log_format": "default"}')
        assert infer(server.http, "double", rows, id="seconds").status == 200
        server.await_stderr("id=seconds\n")
        post(server.http, "/v2/logging", b'{"log_verbose_level": 0}')
        assert infer(server.http, "double", rows, id="silent").status == 200
        server.signal(signal.SIGTERM)
        assert server.exit_status() == 0
    assert "silent" not in server.err
    lines = {line.rpartition("=")[2]: line for line in server.err.splitlines() if " id=" in line}
    assert re.match(r"\d{10}\.\d{3} http double/1 200 ok ", lines["seconds"])
    assert re.match(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z http double/1 200 ok ", lines["date"])
    assert re.search(r"Z info the log settings were changed$", server.err, re.MULTILINE)
    assert re.search(r"^\d+\.\d+ info the server drains: ", server.err, re.MULTILINE)


def test_f22_log_level_at_start() -> None:
    for level, on in (("off", set()), ("error", {"log_error"}), ("info", {"log_info", "log_warning", "log_error"})):
        with Client(add, log_level=level) as client:  # type: ignore[arg-type]
            settings = client.get("/v2/logging").json()
        assert {name for name in ("log_info", "log_warning", "log_error") if settings[name]} == on
    with Client(add, access_log="text") as client:
        assert client.get("/v2/logging").json()["log_verbose_level"] == 1


def test_f23_trace_settings_of_the_server_and_of_a_model(server: Server) -> None:
    assert "trace" in get(server.http_url, "/v2").json()["extensions"]
    whole, one = "/v2/trace/setting", "/v2/models/ver/trace/setting"
    for path in (whole, one):
        assert get(server.http_url, path).json() == TRACE
    assert put(server, one, {"trace_rate": "7", "trace_level": "OFF"}) == (200, {**TRACE, "trace_rate": "7"})
    changed = {**TRACE, "trace_rate": "5", "trace_count": "100"}
    assert put(server, whole, {"trace_rate": ["5"], "trace_count": "100"}) == (200, changed)
    # The model's settings, else the server's.
    assert get(server.http_url, one).json() == {**changed, "trace_rate": "7"}
    assert put(server, one, {"trace_rate": None}) == (200, changed)
    assert put(server, whole, {"trace_rate": None, "trace_count": None}) == (200, TRACE)


@pytest.mark.parametrize(
    ("change", "status", "parts"),
    [
        ({"trace_level": ["TIMESTAMPS"]}, 501, ["TIMESTAMPS", "writes no trace files", "OFF"]),
        ({"trace_level": ["TIMESTAMPS", "TENSORS"]}, 501, ["TIMESTAMPS, TENSORS"]),
        ({"trace_level": ["OFF", "TENSORS"]}, 400, ["'trace_level'", "OFF alone"]),
        ({"trace_level": "MAX"}, 400, ["'trace_level'"]),
        ({"trace_file": "/tmp/x"}, 501, ["'trace_file'"]),
        ({"trace_mode": "opentelemetry"}, 501, ["'trace_mode'"]),
        ({"trace_rate": "0"}, 400, ["'trace_rate'", "1 or more"]),
        ({"trace_rate": "five"}, 400, ["'trace_rate'"]),
        ({"trace_rate": 5}, 400, ["'trace_rate'", "a string"]),
        ({"trace_rate": ["5", "6"]}, 400, ["'trace_rate'", "one value"]),
        ({"trace_rate": []}, 400, ["'trace_rate'"]),
        ({"trace_count": "-2"}, 400, ["'trace_count'", "-1 or more"]),
        ({"log_frequency": "-1"}, 400, ["'log_frequency'", "0 or more"]),
        ({"trace_everything": "1"}, 400, ["unknown trace setting 'trace_everything'"]),
        ([], 400, ["not a JSON object"]),
    ],
)
@pytest.mark.parametrize("path", ["/v2/trace/setting", "/v2/models/add/trace/setting"])
def test_f23_refusals_change_nothing(server: Server, path: str, change: Any, status: int, parts: list[str]) -> None:
    document = {"trace_count": "3", **change} if isinstance(change, dict) else change
    got, message = put(server, path, document)
    assert got == status
    assert all(part in message for part in parts), message
    assert get(server.http_url, path).json() == TRACE


def test_f23_unknown_model(server: Server) -> None:
    assert get(server.http_url, "/v2/models/none/trace/setting").status == 404
    assert put(server, "/v2/models/none/trace/setting", {})[0] == 404
    # Trace settings do not have versions.
    assert get(server.http_url, "/v2/models/ver/versions/1/trace/setting").status == 404


def test_f23_over_grpc(server: Server) -> None:
    stub = GrpcProtocol("grpc", server.grpc_url, typed=False).stub

    def settings(request: pb.TraceSettingRequest) -> dict[str, list[str]]:
        return {name: list(value.value) for name, value in stub.TraceSetting(request, timeout=20).settings.items()}

    expected = {name: value if isinstance(value, list) else [value] for name, value in TRACE.items()}
    assert settings(pb.TraceSettingRequest()) == expected
    request = pb.TraceSettingRequest(model_name="add")
    request.settings["trace_rate"].value.append("9")
    assert settings(request) == {**expected, "trace_rate": ["9"]}
    assert get(server.http_url, "/v2/models/add/trace/setting").json() == {**TRACE, "trace_rate": "9"}
    request = pb.TraceSettingRequest(model_name="add")
    request.settings["trace_rate"].SetInParent()
    assert settings(request) == expected
    request.settings["trace_level"].value.append("TENSORS")
    with pytest.raises(grpc.RpcError) as refusal:
        settings(request)
    assert refusal.value.code() == grpc.StatusCode.UNIMPLEMENTED
    with pytest.raises(grpc.RpcError) as refusal:
        settings(pb.TraceSettingRequest(model_name="none"))
    assert refusal.value.code() == grpc.StatusCode.NOT_FOUND
