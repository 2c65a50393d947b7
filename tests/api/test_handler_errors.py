"""Statuses and messages of handler exceptions, over REST and gRPC."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any

import grpc
import numpy as np
import pytest
from tritonclient.grpc import service_pb2, service_pb2_grpc

import penstock
from http_by_hand import infer
from penstock import Server, model

RAISED: list[BaseException] = []


@model
def failing(x: int) -> int:
    if RAISED:
        raise RAISED[0]
    return x


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(failing, http="127.0.0.1:0", grpc="127.0.0.1:0") as server:
        yield server


@pytest.fixture
def _raised() -> Iterator[None]:
    yield
    RAISED.clear()


def over_rest(server: Server, error: BaseException) -> Any:
    RAISED[:] = [error]
    return infer(server.http_url, "failing", {"x": np.array(1)})


def over_grpc(server: Server, error: BaseException) -> Any:
    RAISED[:] = [error]
    request = service_pb2.ModelInferRequest(model_name="failing", raw_input_contents=[np.int64(1).tobytes()])
    request.inputs.add(name="x", datatype="INT64", shape=[])
    with grpc.insecure_channel(server.grpc_url) as channel, pytest.raises(grpc.RpcError) as rpc_error:
        service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelInfer(request)
    return rpc_error.value


STATUSES = [
    (penstock.InvalidInput, 400, "INVALID_ARGUMENT"),
    (penstock.Forbidden, 403, "PERMISSION_DENIED"),
    (penstock.NotFound, 404, "NOT_FOUND"),
    (penstock.MethodNotAllowed, 405, "UNIMPLEMENTED"),
    (penstock.TooLarge, 413, "RESOURCE_EXHAUSTED"),
    (penstock.UnsupportedEncoding, 415, "UNIMPLEMENTED"),
    (penstock.Overloaded, 429, "RESOURCE_EXHAUSTED"),
    (penstock.Cancelled, 499, "CANCELLED"),
    (penstock.HandlerError, 500, "INTERNAL"),
    (penstock.InternalError, 500, "INTERNAL"),
    (penstock.Unsupported, 501, "UNIMPLEMENTED"),
    (penstock.Unavailable, 503, "UNAVAILABLE"),
    (penstock.Timeout, 504, "DEADLINE_EXCEEDED"),
]


@pytest.mark.usefixtures("_raised")
@pytest.mark.parametrize(("error", "status", "code"), STATUSES)
def test_penstock_errors_set_status_and_message(
    error: type[penstock.PenstockError], status: int, code: str, server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    text = 'the "image" is 100 % black\nand ünusable'
    response = over_rest(server, error(text))
    assert (response.status, response.error()) == (status, text)
    rpc_error = over_grpc(server, error(text))
    assert (rpc_error.code(), rpc_error.details()) == (grpc.StatusCode[code], text)
    # The error was raised on purpose, so the log stays empty.
    assert caplog.records == []


@pytest.mark.usefixtures("_raised")
def test_error_subclass_uses_its_parents_status(server: Server) -> None:
    class TooDark(penstock.InvalidInput):
        pass

    response = over_rest(server, TooDark("too dark"))
    assert (response.status, response.error()) == (400, "too dark")


@pytest.mark.fault("raises", "KeyboardInterrupt", "SystemExit")
@pytest.mark.usefixtures("_raised")
@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("secret in /home/me/weights.bin at 0x7f00"),
        KeyError("secret"),
        ValueError("secret"),
        MemoryError(),
        RecursionError("secret"),
        StopIteration("secret"),
        KeyboardInterrupt("secret"),
        SystemExit(3),
        GeneratorExit("secret"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_other_exceptions_are_500_and_only_logged_in_detail(
    error: BaseException, server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    name = type(error).__name__
    response = over_rest(server, error)
    assert (response.status, response.error()) == (500, f"model 'failing' failed: {name}")
    whole_response = json.dumps([response.headers, response.body.decode()])
    assert not [word for word in ("secret", "Traceback", ".py", "/home", "0x", "line ") if word in whole_response]
    (record,) = [one for one in caplog.records if one.name == "penstock.failing"]
    assert record.levelno == logging.ERROR
    assert "Traceback (most recent call last)" in caplog.text
    assert "test_handler_errors.py" in caplog.text
    rpc_error = over_grpc(server, error)
    assert (rpc_error.code(), rpc_error.details()) == (grpc.StatusCode.INTERNAL, f"model 'failing' failed: {name}")
    # The server continues after the failed request.
    RAISED.clear()
    assert infer(server.http_url, "failing", {"x": np.array(5)}).array("output").tolist() == 5


@pytest.mark.usefixtures("_raised")
def test_unprintable_exception_still_gets_a_response(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    class Hostile(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text either")

        __repr__ = __str__

    response = over_rest(server, Hostile())
    assert (response.status, response.error()) == (500, "model 'failing' failed: Hostile")
    assert "Hostile" in caplog.text


@pytest.mark.fault("endless recursion")
def test_endless_recursion_fails_only_its_request() -> None:
    @model
    def recurses(x: int) -> int:
        return recurses(x) + 1

    with Server(recurses, failing, http="127.0.0.1:0", grpc=None) as server:
        response = infer(server.http_url, "recurses", {"x": np.array(1)})
        assert (response.status, response.error()) == (500, "model 'recurses' failed: RecursionError")
        assert infer(server.http_url, "failing", {"x": np.array(1)}).status == 200
