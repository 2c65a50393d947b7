"""The access log, timing headers, and the request id in responses."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Literal

import grpc
import numpy as np
import pytest
from tritonclient.grpc import service_pb2, service_pb2_grpc

from http_by_hand import infer, json_body, post
from penstock import Batching, Server, Tensor, model
from waiting import until

X = {"x": np.ones((2, 2), np.float32)}
TIME = r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
NASTY = 'id\n1.0 http forged/1 200 ok\r\x1b[2J\x00\x9b" \\'


@model(inputs=[Tensor("x", np.float32, [2])], outputs=[Tensor("y", np.float32, [2])], batching=Batching(max_size=4))
def same(x: Any) -> Any:
    if x[0, 0] == 0:
        raise RuntimeError("secret of the model")
    return x


@pytest.fixture
def logged(capfd: pytest.CaptureFixture[str]) -> Callable[..., list[str]]:
    """The log lines that `send_requests` causes on a server."""

    def run(kind: Literal["off", "text", "json"], send_requests: Callable[[Server], Any], lines: int) -> list[str]:
        log = ""
        with Server(same, http="127.0.0.1:0", grpc="127.0.0.1:0", access_log=kind) as server:
            send_requests(server)

            def is_there() -> bool:
                nonlocal log
                log += capfd.readouterr().err
                return log.count("\n") >= lines

            until(is_there, "the log")
        log += capfd.readouterr().err
        return log.splitlines(keepends=False) if "\r" not in log else log.split("\n")[:-1]

    return run


def infer_grpc(server: Server, identifier: str = "g1") -> Any:
    with grpc.insecure_channel(server.grpc_url) as channel:
        request = service_pb2.ModelInferRequest(model_name="same", id=identifier, raw_input_contents=[X["x"].tobytes()])
        request.inputs.add(name="x", datatype="FP32", shape=[2, 2])
        return service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelInfer.with_call(request)


def test_text(logged: Callable[..., list[str]]) -> None:
    def send_requests(server: Server) -> None:
        infer(server.http_url, "same", X, id="first")
        infer_grpc(server)

    rest, over_grpc = logged("text", send_requests, 2)
    numbers = r"\d+\.\d\dms queue=\d+\.\d\dms compute=\d+\.\d\dms batch=2"
    assert re.fullmatch(rf"{TIME} http same/1 200 ok {numbers} id=first", rest)
    assert re.fullmatch(rf"{TIME} grpc same/1 0 ok {numbers} id=g1", over_grpc)


def test_json(logged: Callable[..., list[str]]) -> None:
    def send_requests(server: Server) -> None:
        infer(server.http_url, "same", X, id="first")
        infer(server.http_url, "same", {"x": X["x"][:, :1]}, id="second")
        infer_grpc(server)

    ok, refused, over_grpc = [json.loads(line) for line in logged("json", send_requests, 3)]
    assert {key: ok[key] for key in ("id", "protocol", "model", "version", "outcome", "status", "error")} == {
        "id": "first",
        "protocol": "http",
        "model": "same",
        "version": "1",
        "outcome": "ok",
        "status": 200,
        "error": None,
    }
    assert ok["batch_rows"] == 2
    assert re.fullmatch(TIME, ok["time"])
    assert 0 <= ok["queue_ms"] + ok["compute_ms"] <= ok["duration_ms"]
    assert (refused["outcome"], refused["status"]) == ("invalid_input", 400)
    assert "[-1, 2]" in refused["error"]
    assert (over_grpc["protocol"], over_grpc["status"], over_grpc["id"]) == ("grpc", 0, "g1")


def test_request_without_an_id_is_logged_with_a_generated_one(logged: Callable[..., list[str]]) -> None:
    def send_requests(server: Server) -> None:
        for _ in range(2):
            assert "id" not in infer(server.http_url, "same", X).json()

    ids = [json.loads(line)["id"] for line in logged("json", send_requests, 2)]
    assert re.fullmatch(r"#\d+", ids[0])
    assert ids[0] != ids[1]


def test_no_access_log_when_off(capfd: pytest.CaptureFixture[str]) -> None:
    with Server(same, http="127.0.0.1:0", grpc=None) as server:
        infer(server.http_url, "same", X)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("kind", ["text", "json"])
def test_request_id_cannot_inject_log_lines_or_terminal_escapes(kind: str, logged: Callable[..., list[str]]) -> None:
    def send_requests(server: Server) -> None:
        body = json_body(X, id=NASTY)
        response = post(server.http_url, "/v2/models/same/infer", body)
        assert response.json()["id"] == NASTY
        assert infer(server.http_url, "same", X, id="after").status == 200

    lines = logged(kind, send_requests, 2)
    assert len(lines) == 2
    assert not re.search(r"[\x00-\x1f\x7f-\x9f]", "".join(lines))
    if kind == "json":
        assert json.loads(lines[0])["id"] == 'id\\u{a}1.0 http forged/1 200 ok\\u{d}\\u{1b}[2J\\u{0}\\u{9b}" \\'
        assert json.loads(lines[0])["outcome"] == "ok"
    else:
        assert ' id=id\\u{a}1.0 http forged/1 200 ok\\u{d}\\u{1b}[2J\\u{0}\\u{9b}" \\' in lines[0]


@pytest.mark.parametrize("kind", ["text", "json"])
def test_unprintable_text_is_escaped_and_long_text_truncated(
    kind: Literal["text", "json"], logged: Callable[..., list[str]]
) -> None:
    turned = "a\u202eb\u2066c\u2028d\u2029e\u200ff\ufeff é"
    escaped = r"a\u{202e}b\u{2066}c\u{2028}d\u{2029}e\u{200f}f\u{feff} é"

    def send_requests(server: Server) -> None:
        assert infer(server.http_url, "same", X, id=turned).json()["id"] == turned
        # Their message repeats a name that the client sent; the response has it unescaped.
        wrong = infer(server.http_url, "same", {turned: X["x"]})
        assert (wrong.status, turned in wrong.error()) == (400, True)
        assert infer(server.http_url, "same", X, id="x" * 2_000_000).status == 200
        infer_grpc(server, turned * 100)

    lines = logged(kind, send_requests, 4)
    assert not set(turned[1::2][:6]) & set("".join(lines))
    assert max(map(len, lines)) < 2500
    if kind == "json":
        entries = [json.loads(line) for line in lines]
        ids, error = [entry["id"] for entry in entries], entries[1]["error"]
    else:
        ids, error = [line.partition(" id=")[2] for line in lines], lines[1].partition(" error=")[2]
    assert (ids[0], ids[2]) == (escaped, "x" * 256 + "…")
    assert escaped in error
    assert ids[3].startswith(escaped + escaped)
    assert ids[3].endswith("…")


def test_requests_of_unknown_models_and_paths_are_logged(logged: Callable[..., list[str]]) -> None:
    def send_requests(server: Server) -> None:
        assert infer(server.http_url, "nope", X, id="a").status == 404
        assert post(server.http_url, "/nope", b"").status == 404
        assert post(server.http_url, "/v2/health/live", b"").status == 405

    entries = [json.loads(line) for line in logged("json", send_requests, 3)]
    assert [(one["status"], one["outcome"], one["model"]) for one in entries] == [
        (404, "not_found", None),
        (404, "not_found", None),
        (405, "method_not_allowed", None),
    ]
    assert [one["error"] for one in entries] == [
        "unknown model 'nope'",
        "POST /nope: no such path",
        "POST /v2/health/live: the path has no such method",
    ]
    texts = logged("text", lambda server: post(server.http_url, "/nope", b""), 1)
    assert re.fullmatch(rf'{TIME} http -/- 404 not_found .* error="POST /nope: no such path"', texts[0])


WRONG = {
    "none": (lambda: None, "model 'wrong' returned a NoneType for output 'y', declared FP32 (float32)"),
    "shape": (lambda: np.ones((2, 3), np.float32), "model 'wrong' returned output 'y' with shape [2, 3], declared [2]"),
    "dtype": (lambda: np.ones(2), "model 'wrong' returned an array of float64 for output 'y', declared FP32 (float32)"),
    "type": (object, "model 'wrong' returned an? object for output 'y'"),
    "raised": (lambda: 1 / 0, "model 'wrong' failed: ZeroDivisionError"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_each_failure_of_a_handler_is_logged_with_its_cause(kind: str, capfd: pytest.CaptureFixture[str]) -> None:
    returned, cause = WRONG[kind]

    @model(name="wrong", inputs=[Tensor("x", np.float32, [2, 2])], outputs=[Tensor("y", np.float32, [2])])
    def wrong(x: Any) -> Any:
        return returned()

    log = ""

    def is_there() -> bool:
        nonlocal log
        log += capfd.readouterr().err
        pattern = cause if kind == "type" else re.escape(cause)
        return bool(re.search(rf"^{TIME} error http wrong/1 500: {pattern}", log, re.MULTILINE))

    with Server(wrong, http="127.0.0.1:0", grpc=None) as server:
        assert infer(server.http_url, "wrong", X).status == 500
        until(is_there, "the cause in the log")


@pytest.mark.parametrize(("level", "is_logged"), [("info", False), ("debug", True)])
def test_refused_requests_are_logged_at_level_debug(
    level: Literal["info", "debug"], is_logged: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    log = ""
    with Server(same, http="127.0.0.1:0", grpc=None, log_level=level) as server:
        assert infer(server.http_url, "same", {"x": X["x"][:, :1]}).status == 400
        assert post(server.http_url, "/nope", b"").status == 404

    def has_ended() -> bool:
        nonlocal log
        log += capfd.readouterr().err
        return "the server drains" in log

    # The last line, so that those before it are there.
    until(has_ended, "the log")
    assert ("debug http same/1 400: " in log, "debug http 404: POST /nope: no such path" in log) == (is_logged,) * 2


def test_handler_errors_are_logged_without_their_message(logged: Callable[..., list[str]]) -> None:
    def send_requests(server: Server) -> None:
        infer(server.http_url, "same", {"x": np.zeros((1, 2), np.float32)}, id="boom")

    entries = [json.loads(line) for line in logged("json", send_requests, 1) if line.startswith("{")]
    (entry,) = entries
    assert (entry["outcome"], entry["status"], entry["error"]) == ("handler", 500, "model 'same' failed: RuntimeError")
    assert entry["id"] == "boom"


def test_timing_headers_are_sent_when_enabled() -> None:
    names = ["x-penstock-queue-seconds", "x-penstock-compute-seconds", "x-penstock-batch-size"]
    with Server(same, http="127.0.0.1:0", grpc="127.0.0.1:0", timing_headers=True) as server:
        response = infer(server.http_url, "same", X)
        _, call = infer_grpc(server)
        metadata = dict(call.initial_metadata())
    for headers in (response.headers, metadata):
        queue, compute, rows = (headers[name] for name in names)
        assert 0 <= float(queue) < 20
        assert 0 < float(compute) < 20
        assert rows == "2"
    with Server(same, http="127.0.0.1:0", grpc=None) as server:
        assert not set(names) & set(infer(server.http_url, "same", X).headers)


@pytest.mark.parametrize("identifier", ["a", "ünï-côde ☃", "x" * 2000, NASTY])
def test_request_id_is_returned(identifier: str) -> None:
    with Server(same, http="127.0.0.1:0", grpc="127.0.0.1:0") as server:
        assert infer(server.http_url, "same", X, id=identifier).json()["id"] == identifier
        response, _ = infer_grpc(server, identifier)
        assert response.id == identifier
