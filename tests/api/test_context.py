"""`Context`: request attributes, response parameters and counters."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from typing import Any

import grpc
import numpy as np
import pytest
from tritonclient.grpc import service_pb2, service_pb2_grpc

from http_by_hand import binary_body, connect, infer, metric, metric_at
from penstock import Batching, Context, HandlerError, Model, Processes, RequestInfo, Server, Tensor, Threads, model
from penstock import Client as NetworkClient
from penstock.testing import Client
from waiting import Gate, at_once, until

X = np.ones((2, 2), np.float32)
PARAMETERS = {"flag": True, "off": False, "count": 7, "large": 2**53 + 1, "share": 0.5, "whole": 2.0, "text": "ü☃"}


def observing(observe: Callable[[Context], Any], batching: Batching | None = None) -> Model[..., Any]:
    """A model that passes its context to `observe` and returns its input."""

    @model(
        name="m",
        inputs=[Tensor("x", np.float32, [-1, 2] if batching is None else [2])],
        outputs=[Tensor("y", np.float32, [-1, 2] if batching is None else [2])],
        batching=batching,
    )
    def handler(x: Any, ctx: Context) -> Any:
        observe(ctx)
        return x

    return handler


def observe_one(observe: Callable[[Context], Any], **sent: Any) -> Any:
    """The result of `observe` for one request."""
    results: list[Any] = []
    with Client(observing(lambda ctx: results.append(observe(ctx)))) as client:
        client.infer("m", {"x": X}, **sent)
    return results[0]


def test_request_id_is_visible() -> None:
    assert observe_one(lambda ctx: ctx.request_id, request_id="r-1") == "r-1"
    assert observe_one(lambda ctx: ctx.request_id) == ""


def test_header_names_are_lowercase() -> None:
    headers = observe_one(lambda ctx: ctx.headers, headers={"X-Tenant": "blue", "traceparent": "00-ab"})
    assert (headers["x-tenant"], headers["traceparent"]) == ("blue", "00-ab")


@pytest.mark.parametrize("binary", [True, False])
def test_request_parameters_keep_their_types(binary: bool) -> None:
    parameters = observe_one(lambda ctx: ctx.parameters, parameters=PARAMETERS, binary=binary)
    assert parameters == PARAMETERS
    assert {name: type(value) for name, value in parameters.items()} == {
        name: type(value) for name, value in PARAMETERS.items()
    }


def test_grpc_requests_provide_the_same_attributes() -> None:
    results: list[Any] = []
    observe = observing(lambda ctx: results.append((ctx.request_id, ctx.headers, ctx.parameters, ctx.deadline)))
    with Server(observe, http=None, grpc="127.0.0.1:0") as server, grpc.insecure_channel(server.grpc_url) as channel:
        request = service_pb2.ModelInferRequest(model_name="m", id="g-1", raw_input_contents=[X.tobytes()])
        request.inputs.add(name="x", datatype="FP32", shape=[2, 2])
        request.parameters["flag"].bool_param = True
        request.parameters["count"].int64_param = -7
        request.parameters["text"].string_param = "ü"
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        stub.ModelInfer(request, timeout=15, metadata=(("x-tenant", "blue"),))
        stub.ModelInfer(request)
    (identifier, headers, parameters, deadline), (*_, unlimited) = results
    assert (identifier, headers["x-tenant"]) == ("g-1", "blue")
    assert parameters == {"flag": True, "count": -7, "text": "ü"}
    assert parameters["flag"] is True
    assert 0 < deadline <= 15
    assert unlimited is None


@pytest.mark.parametrize("instances", [Threads(1), Processes(1)])
def test_requested_outputs_are_listed(instances: Any) -> None:
    with Server(requested.with_options(instances=instances), http="127.0.0.1:0", grpc="127.0.0.1:0") as server:

        def names(response: Any) -> list[str]:
            return sorted({element.decode() for array in response.values() for element in array})

        for url in (server.http_url, f"grpc://{server.grpc_url}"):
            with NetworkClient(url) as client:
                assert names(client.infer("requested", {"x": X}, outputs=["b"])) == ["b"]
                assert names(client.infer("requested", {"x": X}, outputs=["b", "a"])) == ["b a"]
                assert names(client.infer("requested", {"x": X})) == ["a b"]


@model(
    inputs=[Tensor("x", np.float32, [-1, 2])],
    outputs=[Tensor("a", str, [1]), Tensor("b", str, [1])],
)
def requested(x: Any, ctx: Context) -> Any:
    requested_names = np.array([" ".join(ctx.requests[0].outputs)], object)
    return requested_names, requested_names


def test_reserved_parameters_are_hidden() -> None:
    assert observe_one(lambda ctx: ctx.parameters, parameters={"binary_data_output": True, "mine": 1}) == {"mine": 1}


def test_deadline_is_the_remaining_time() -> None:
    results: list[Any] = []
    served = observing(lambda ctx: results.append((ctx.deadline, ctx.requests[0].deadline)))
    with Client(served, request_timeout=30.0) as client:
        client.infer("m", {"x": X})
    ((shortcut, expected),) = results
    assert 0 < expected <= shortcut <= 30
    assert observe_one(lambda ctx: ctx.deadline) is None


def test_timeout_parameter_sets_the_deadline() -> None:
    # The protocol's `timeout` parameter counts microseconds.
    assert 0 < observe_one(lambda ctx: ctx.deadline, parameters={"timeout": 20_000_000}) <= 20


def test_model_name_version_and_logger_are_available(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    def observe(ctx: Context) -> Any:
        ctx.logger.info("seen %s", "it")
        return ctx.model_name, ctx.model_version

    assert observe_one(observe) == ("m", "1")
    assert [(record.name, record.getMessage()) for record in caplog.records] == [("penstock.m", "seen it")]


def test_set_parameter_preserves_types_in_the_response() -> None:
    def observe(ctx: Context) -> None:
        for name, value in PARAMETERS.items():
            ctx.set_parameter(name, "first")
            ctx.set_parameter(name, value)

    with Client(observing(observe)) as client:
        client.infer("m", {"x": X}, binary=False)
        assert client.last_response is not None
        response_parameters = client.last_response.json()["parameters"]
    assert response_parameters == PARAMETERS
    assert response_parameters["flag"] is True
    assert type(response_parameters["whole"]) is float


def test_set_parameter_over_grpc() -> None:
    def observe(ctx: Context) -> None:
        for name, value in {**PARAMETERS, "huge": 2**63}.items():
            ctx.set_parameter(name, value)

    with (
        Server(observing(observe), http=None, grpc="127.0.0.1:0") as server,
        grpc.insecure_channel(server.grpc_url) as channel,
    ):
        request = service_pb2.ModelInferRequest(model_name="m", raw_input_contents=[X.tobytes()])
        request.inputs.add(name="x", datatype="FP32", shape=[2, 2])
        response_parameters = service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelInfer(request).parameters
    assert {name: response_parameters[name].WhichOneof("parameter_choice") for name in response_parameters} == {
        "flag": "bool_param",
        "off": "bool_param",
        "count": "int64_param",
        "large": "int64_param",
        "huge": "uint64_param",
        "share": "double_param",
        "whole": "double_param",
        "text": "string_param",
    }
    assert response_parameters["huge"].uint64_param == 2**63


@pytest.mark.parametrize(("value", "type_name"), [([1], "list"), (None, "NoneType"), (1j, "complex")])
def test_set_parameter_rejects_other_types(value: Any, type_name: str) -> None:
    errors: list[TypeError] = []

    def observe(ctx: Context) -> None:
        with pytest.raises(TypeError) as raised:
            ctx.set_parameter("p", value)
        errors.append(raised.value)

    observe_one(observe)
    assert str(errors[0]) == f"a parameter is a bool, int, float or str, got {type_name}"


def test_counters_accumulate_in_the_metrics() -> None:
    def observe(ctx: Context) -> None:
        ctx.counter("calls")
        ctx.counter("weight", 0.25)

    with Client(observing(observe)) as client:
        for _ in range(3):
            client.infer("m", {"x": X})
        text = client.get("/metrics").body.decode()
    assert metric(text, "penstock_custom_total", model="m", name="calls") == 3
    assert metric(text, "penstock_custom_total", model="m", name="weight") == 0.75


@pytest.mark.parametrize("value", [-1.0, math.nan, math.inf])
def test_counter_rejects_negative_and_non_finite_values(value: float) -> None:
    def observe(ctx: Context) -> str:
        with pytest.raises(ValueError, match="counter 'calls' can only grow, got") as raised:
            ctx.counter("calls", value)
        return str(raised.value)

    assert observe_one(observe)


def observe_batch(observe: Callable[[Context], Any], count: int = 3) -> list[Any]:
    """The result of `observe` for one batch of `count` requests with 1, 2, 3... rows."""
    gate, results = Gate(), []

    def handler(ctx: Context) -> None:
        if len(ctx.requests) == count:
            results.append(observe(ctx))
        else:
            gate.enter()

    with Client(observing(handler, Batching(max_size=64))) as client:

        def send(index: int) -> dict[str, Any]:
            rows = np.full((index + 1, 2), index, np.float32)
            return client.infer("m", {"x": rows}, request_id=f"r{index}", parameters={"index": index})

        (first,) = at_once([lambda: send(0)])
        gate.await_entered()
        rest = []
        for index in range(count):
            rest += at_once([lambda index=index: send(index)])

            def is_queued(wanted: int = index + 1) -> bool:
                return metric(client.get("/metrics").body.decode(), "penstock_queue_depth") == wanted

            until(is_queued)
        gate.open()
        for index, future in enumerate([first, *rest]):
            expected = max(0, index - 1)
            assert future.result()["y"].tolist() == [[expected, expected]] * (expected + 1)
    assert len(results) == 1, "the requests did not share a batch"
    return results[0]


def test_batch_context_lists_each_request() -> None:
    def observe(ctx: Context) -> Any:
        assert all(isinstance(request, RequestInfo) for request in ctx.requests)
        return [
            (request.id, request.rows, request.parameters, request.deadline, request.cancelled)
            for request in ctx.requests
        ]

    assert observe_batch(observe) == [
        ("r0", 1, {"index": 0}, None, False),
        ("r1", 2, {"index": 1}, None, False),
        ("r2", 3, {"index": 2}, None, False),
    ]


@pytest.mark.parametrize("name", ["request_id", "headers", "parameters", "deadline"])
def test_shortcuts_raise_for_a_batch_of_several_requests(name: str) -> None:
    def observe(ctx: Context) -> str:
        with pytest.raises(RuntimeError) as raised:
            getattr(ctx, name)
        return str(raised.value)

    assert observe_batch(observe) == "this batch joins 3 requests, so there is no single one: use ctx.requests"


def test_uncaught_shortcut_error_fails_the_batch() -> None:
    with pytest.raises(HandlerError, match="model 'm' failed: RuntimeError"):
        observe_batch(lambda ctx: ctx.request_id)


def test_batch_parameters_reach_every_response() -> None:
    gate = Gate()

    def observe(ctx: Context) -> None:
        if len(ctx.requests) == 1:
            gate.enter()
        ctx.set_parameter("together", len(ctx.requests))

    with Server(observing(observe, Batching(max_size=8)), http="127.0.0.1:0", grpc=None) as server:
        url = server.http_url
        (first,) = at_once([lambda: infer(url, "m", {"x": X})])
        gate.await_entered()
        others = at_once([lambda: infer(url, "m", {"x": X})] * 2)
        until(lambda: metric_at(url, "penstock_queue_depth") == 2)
        gate.open()
        responses = [future.result().json()["parameters"]["together"] for future in (first, *others)]
    assert responses == [1, 2, 2]


@pytest.mark.fault("leaves in compute")
def test_cancelled_is_true_after_a_client_disconnect() -> None:
    gate, results = Gate(), []

    def observe(ctx: Context) -> None:
        results.append((ctx.cancelled, ctx.requests[0].cancelled))
        gate.enter()
        until(lambda: ctx.cancelled, "the cancelled flag after the client disconnected")
        results.append((ctx.cancelled, ctx.requests[0].cancelled))

    with Server(observing(observe), http="127.0.0.1:0", grpc=None) as server:
        body, headers = binary_body({"x": X})
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        sock = connect(server.http_url)
        head = f"POST /v2/models/m/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n{lines}\r\n"
        sock.sendall(head.encode() + body)
        gate.await_entered()
        gate.open()
        sock.close()
        until(lambda: len(results) == 2)
    assert results == [(False, False), (True, True)]


def test_cancelled_is_true_after_a_grpc_cancel() -> None:
    gate, results = Gate(), []

    def observe(ctx: Context) -> None:
        gate.enter()
        results.append(until(lambda: ctx.cancelled))

    with (
        Server(observing(observe), http=None, grpc="127.0.0.1:0") as server,
        grpc.insecure_channel(server.grpc_url) as channel,
    ):
        request = service_pb2.ModelInferRequest(model_name="m", raw_input_contents=[X.tobytes()])
        request.inputs.add(name="x", datatype="FP32", shape=[2, 2])
        call = service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelInfer.future(request)
        gate.await_entered()
        gate.open()
        call.cancel()
        until(lambda: results)
    assert results == [True]


@pytest.mark.fault("sleeps past deadline")
def test_expired_deadline_returns_504_and_cancels_the_handler() -> None:
    results: list[Any] = []

    def observe(ctx: Context) -> None:
        results.append(until(lambda: ctx.cancelled))
        assert ctx.deadline == 0.0

    with Server(observing(observe), http="127.0.0.1:0", grpc=None, request_timeout=0.2) as server:
        response = infer(server.http_url, "m", {"x": X})
        assert (response.status, response.error()) == (504, "model 'm' did not answer within the deadline")
        until(lambda: results)
    assert results == [True]


def test_context_may_be_used_after_the_call() -> None:
    contexts: list[Context] = []
    with Client(observing(contexts.append)) as client:
        client.infer("m", {"x": X}, request_id="retained")
    assert contexts[0].request_id == "retained"
    contexts[0].set_parameter("too", "late")
    assert contexts[0].cancelled in (True, False)


def test_lambda_receives_context_by_parameter_name() -> None:
    served = model(
        lambda x, ctx: x * int(ctx.request_id),
        name="m",
        inputs=[Tensor("x", np.float32, [2, 2])],
        outputs=[Tensor("y", np.float32, [2, 2])],
    )
    with Client(served) as client:
        assert client.infer("m", {"x": X}, request_id="3")["y"].tolist() == (X * 3).tolist()
