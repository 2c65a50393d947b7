"""What a caller is told of an exception that a handler raises, over REST and over gRPC."""

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
def fails(x: int) -> int:
    if RAISED:
        raise RAISED[0]
    return x


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(fails, http="127.0.0.1:0", grpc="127.0.0.1:0") as server:
        yield server


@pytest.fixture
def _raised() -> Iterator[None]:
    yield
    RAISED.clear()


def rest(server: Server, error: BaseException) -> Any:
    RAISED[:] = [error]
    return infer(server.http_url, "fails", {"x": np.array(1)})


def over_grpc(server: Server, error: BaseException) -> Any:
    RAISED[:] = [error]
    request = service_pb2.ModelInferRequest(model_name="fails", raw_input_contents=[np.int64(1).tobytes()])
    request.inputs.add(name="x", datatype="INT64", shape=[])
    with grpc.insecure_channel(server.grpc_url) as channel, pytest.raises(grpc.RpcError) as refused:
        service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelInfer(request)
    return refused.value


ANSWERS = [
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
@pytest.mark.parametrize(("error", "status", "code"), ANSWERS)
def test_penstocks_own_errors_are_the_answer(
    error: type[penstock.PenstockError], status: int, code: str, server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    text = 'the "image" is 100 % black\nand ünusable'
    answer = rest(server, error(text))
    assert (answer.status, answer.error()) == (status, text)
    refused = over_grpc(server, error(text))
    assert (refused.code(), refused.details()) == (grpc.StatusCode[code], text)
    # It was meant: nothing to look at in the log.
    assert caplog.records == []


@pytest.mark.usefixtures("_raised")
def test_a_child_of_one_answers_like_its_parent(server: Server) -> None:
    class TooDark(penstock.InvalidInput):
        pass

    answer = rest(server, TooDark("too dark"))
    assert (answer.status, answer.error()) == (400, "too dark")


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
def test_any_other_is_500_and_its_traceback_is_in_the_log_only(
    error: BaseException, server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    name = type(error).__name__
    answer = rest(server, error)
    assert (answer.status, answer.error()) == (500, f"model 'fails' failed: {name}")
    everything = json.dumps([answer.headers, answer.body.decode()])
    assert not [word for word in ("secret", "Traceback", ".py", "/home", "0x", "line ") if word in everything]
    (record,) = [one for one in caplog.records if one.name == "penstock.fails"]
    assert record.levelno == logging.ERROR
    assert "Traceback (most recent call last)" in caplog.text
    assert "test_handler_errors.py" in caplog.text
    refused = over_grpc(server, error)
    assert (refused.code(), refused.details()) == (grpc.StatusCode.INTERNAL, f"model 'fails' failed: {name}")
    # One request's end is not the server's.
    RAISED.clear()
    assert infer(server.http_url, "fails", {"x": np.array(5)}).array("output").tolist() == 5


@pytest.mark.usefixtures("_raised")
def test_an_exception_that_cannot_be_shown_is_still_answered(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    class Hostile(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text either")

        __repr__ = __str__

    answer = rest(server, Hostile())
    assert (answer.status, answer.error()) == (500, "model 'fails' failed: Hostile")
    assert "Hostile" in caplog.text


@pytest.mark.fault("endless recursion")
def test_a_recursion_without_end_is_one_requests_failure() -> None:
    @model
    def recurses(x: int) -> int:
        return recurses(x) + 1

    with Server(recurses, fails, http="127.0.0.1:0", grpc=None) as server:
        answer = infer(server.http_url, "recurses", {"x": np.array(1)})
        assert (answer.status, answer.error()) == (500, "model 'recurses' failed: RecursionError")
        assert infer(server.http_url, "fails", {"x": np.array(1)}).status == 200
