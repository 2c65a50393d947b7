"""`Context`: what a handler learns of its callers, and what it may tell beside its outputs."""

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


def watching(look: Callable[[Context], Any], batching: Batching | None = None) -> Model[..., Any]:
    """A model that looks at its context and gives its input back."""

    @model(
        name="m",
        inputs=[Tensor("x", np.float32, [-1, 2] if batching is None else [2])],
        outputs=[Tensor("y", np.float32, [-1, 2] if batching is None else [2])],
        batching=batching,
    )
    def handler(x: Any, ctx: Context) -> Any:
        look(ctx)
        return x

    return handler


def seen(look: Callable[[Context], Any], **sent: Any) -> Any:
    """What `look` gives for one request."""
    found: list[Any] = []
    with Client(watching(lambda ctx: found.append(look(ctx)))) as client:
        client.infer("m", {"x": X}, **sent)
    return found[0]


def test_the_requests_id() -> None:
    assert seen(lambda ctx: ctx.request_id, request_id="r-1") == "r-1"
    assert seen(lambda ctx: ctx.request_id) == ""


def test_headers_are_by_name_in_lower_case() -> None:
    headers = seen(lambda ctx: ctx.headers, headers={"X-Tenant": "blue", "traceparent": "00-ab"})
    assert (headers["x-tenant"], headers["traceparent"]) == ("blue", "00-ab")


@pytest.mark.parametrize("binary", [True, False])
def test_parameters_keep_their_types(binary: bool) -> None:
    parameters = seen(lambda ctx: ctx.parameters, parameters=PARAMETERS, binary=binary)
    assert parameters == PARAMETERS
    assert {name: type(value) for name, value in parameters.items()} == {
        name: type(value) for name, value in PARAMETERS.items()
    }


def test_over_grpc_everything_is_there_too() -> None:
    found: list[Any] = []
    look = watching(lambda ctx: found.append((ctx.request_id, ctx.headers, ctx.parameters, ctx.deadline)))
    with Server(look, http=None, grpc="127.0.0.1:0") as server, grpc.insecure_channel(server.grpc_url) as channel:
        request = service_pb2.ModelInferRequest(model_name="m", id="g-1", raw_input_contents=[X.tobytes()])
        request.inputs.add(name="x", datatype="FP32", shape=[2, 2])
        request.parameters["flag"].bool_param = True
        request.parameters["count"].int64_param = -7
        request.parameters["text"].string_param = "ü"
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        stub.ModelInfer(request, timeout=15, metadata=(("x-tenant", "blue"),))
        stub.ModelInfer(request)
    (identifier, headers, parameters, deadline), (*_, unlimited) = found
    assert (identifier, headers["x-tenant"]) == ("g-1", "blue")
    assert parameters == {"flag": True, "count": -7, "text": "ü"}
    assert parameters["flag"] is True
    assert 0 < deadline <= 15
    assert unlimited is None


@pytest.mark.parametrize("instances", [Threads(1), Processes(1)])
def test_the_outputs_that_were_asked_for(instances: Any) -> None:
    with Server(asking.with_options(instances=instances), http="127.0.0.1:0", grpc="127.0.0.1:0") as server:

        def names(answer: Any) -> list[str]:
            return sorted({element.decode() for one in answer.values() for element in one})

        for url in (server.http_url, f"grpc://{server.grpc_url}"):
            with NetworkClient(url) as client:
                assert names(client.infer("asking", {"x": X}, outputs=["b"])) == ["b"]
                assert names(client.infer("asking", {"x": X}, outputs=["b", "a"])) == ["b a"]
                assert names(client.infer("asking", {"x": X})) == ["a b"]


@model(
    inputs=[Tensor("x", np.float32, [-1, 2])],
    outputs=[Tensor("a", str, [1]), Tensor("b", str, [1])],
)
def asking(x: Any, ctx: Context) -> Any:
    told = np.array([" ".join(ctx.requests[0].outputs)], object)
    return told, told


def test_reserved_parameters_are_not_shown() -> None:
    assert seen(lambda ctx: ctx.parameters, parameters={"binary_data_output": True, "mine": 1}) == {"mine": 1}


def test_the_deadline_is_what_is_left() -> None:
    found: list[Any] = []
    served = watching(lambda ctx: found.append((ctx.deadline, ctx.requests[0].deadline)))
    with Client(served, request_timeout=30.0) as client:
        client.infer("m", {"x": X})
    ((shortcut, own),) = found
    assert 0 < own <= shortcut <= 30
    assert seen(lambda ctx: ctx.deadline) is None


def test_the_requests_own_timeout_is_its_deadline() -> None:
    # In microseconds, as the protocol's `timeout` parameter is.
    assert 0 < seen(lambda ctx: ctx.deadline, parameters={"timeout": 20_000_000}) <= 20


def test_the_models_name_version_and_logger(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    def look(ctx: Context) -> Any:
        ctx.logger.info("seen %s", "it")
        return ctx.model_name, ctx.model_version

    assert seen(look) == ("m", "1")
    assert [(record.name, record.getMessage()) for record in caplog.records] == [("penstock.m", "seen it")]


def test_set_parameter_goes_into_the_answer_with_its_type() -> None:
    def look(ctx: Context) -> None:
        for name, value in PARAMETERS.items():
            ctx.set_parameter(name, "first")
            ctx.set_parameter(name, value)

    with Client(watching(look)) as client:
        client.infer("m", {"x": X}, binary=False)
        assert client.last_response is not None
        answered = client.last_response.json()["parameters"]
    assert answered == PARAMETERS
    assert answered["flag"] is True
    assert type(answered["whole"]) is float


def test_set_parameter_over_grpc() -> None:
    def look(ctx: Context) -> None:
        for name, value in {**PARAMETERS, "huge": 2**63}.items():
            ctx.set_parameter(name, value)

    with (
        Server(watching(look), http=None, grpc="127.0.0.1:0") as server,
        grpc.insecure_channel(server.grpc_url) as channel,
    ):
        request = service_pb2.ModelInferRequest(model_name="m", raw_input_contents=[X.tobytes()])
        request.inputs.add(name="x", datatype="FP32", shape=[2, 2])
        answered = service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelInfer(request).parameters
    assert {name: answered[name].WhichOneof("parameter_choice") for name in answered} == {
        "flag": "bool_param",
        "off": "bool_param",
        "count": "int64_param",
        "large": "int64_param",
        "huge": "uint64_param",
        "share": "double_param",
        "whole": "double_param",
        "text": "string_param",
    }
    assert answered["huge"].uint64_param == 2**63


@pytest.mark.parametrize(("value", "shown"), [([1], "list"), (None, "NoneType"), (1j, "complex")])
def test_a_parameter_of_another_type_is_the_handlers_mistake(value: Any, shown: str) -> None:
    problem: list[TypeError] = []

    def look(ctx: Context) -> None:
        with pytest.raises(TypeError) as raised:
            ctx.set_parameter("p", value)
        problem.append(raised.value)

    seen(look)
    assert str(problem[0]) == f"a parameter is a bool, int, float or str, got {shown}"


def test_counters_add_up_in_the_metrics() -> None:
    def look(ctx: Context) -> None:
        ctx.counter("calls")
        ctx.counter("weight", 0.25)

    with Client(watching(look)) as client:
        for _ in range(3):
            client.infer("m", {"x": X})
        text = client.get("/metrics").body.decode()
    assert metric(text, "penstock_custom_total", model="m", name="calls") == 3
    assert metric(text, "penstock_custom_total", model="m", name="weight") == 0.75


@pytest.mark.parametrize("value", [-1.0, math.nan, math.inf])
def test_a_counter_only_grows(value: float) -> None:
    def look(ctx: Context) -> str:
        with pytest.raises(ValueError, match="counter 'calls' can only grow, got") as raised:
            ctx.counter("calls", value)
        return str(raised.value)

    assert seen(look)


def joined(look: Callable[[Context], Any], count: int = 3) -> list[Any]:
    """What `look` gives for a batch of that many requests, of one row more each than the one before."""
    gate, found = Gate(), []

    def handler(ctx: Context) -> None:
        if len(ctx.requests) == count:
            found.append(look(ctx))
        else:
            gate.enter()

    with Client(watching(handler, Batching(max_size=64))) as client:

        def ask(index: int) -> dict[str, Any]:
            rows = np.full((index + 1, 2), index, np.float32)
            return client.infer("m", {"x": rows}, request_id=f"r{index}", parameters={"index": index})

        (first,) = at_once([lambda: ask(0)])
        gate.await_entered()
        rest = []
        for index in range(count):
            rest += at_once([lambda index=index: ask(index)])

            def waiting(wanted: int = index + 1) -> bool:
                return metric(client.get("/metrics").body.decode(), "penstock_queue_depth") == wanted

            until(waiting)
        gate.open()
        for index, future in enumerate([first, *rest]):
            own = max(0, index - 1)
            assert future.result()["y"].tolist() == [[own, own]] * (own + 1)
    assert len(found) == 1, "the requests did not share a batch"
    return found[0]


def test_a_batch_of_several_requests_lists_each() -> None:
    def look(ctx: Context) -> Any:
        assert all(isinstance(one, RequestInfo) for one in ctx.requests)
        return [(one.id, one.rows, one.parameters, one.deadline, one.cancelled) for one in ctx.requests]

    assert joined(look) == [
        ("r0", 1, {"index": 0}, None, False),
        ("r1", 2, {"index": 1}, None, False),
        ("r2", 3, {"index": 2}, None, False),
    ]


@pytest.mark.parametrize("name", ["request_id", "headers", "parameters", "deadline"])
def test_shortcuts_refuse_a_batch_of_several_requests(name: str) -> None:
    def look(ctx: Context) -> str:
        with pytest.raises(RuntimeError) as raised:
            getattr(ctx, name)
        return str(raised.value)

    assert joined(look) == "this batch joins 3 requests, so there is no single one: use ctx.requests"


def test_a_shortcut_that_the_handler_does_not_guard_fails_its_callers() -> None:
    with pytest.raises(HandlerError, match="model 'm' failed: RuntimeError"):
        joined(lambda ctx: ctx.request_id)


def test_parameters_of_a_batch_go_to_each_caller() -> None:
    gate = Gate()

    def look(ctx: Context) -> None:
        if len(ctx.requests) == 1:
            gate.enter()
        ctx.set_parameter("together", len(ctx.requests))

    with Server(watching(look, Batching(max_size=8)), http="127.0.0.1:0", grpc=None) as server:
        url = server.http_url
        (first,) = at_once([lambda: infer(url, "m", {"x": X})])
        gate.await_entered()
        others = at_once([lambda: infer(url, "m", {"x": X})] * 2)
        until(lambda: metric_at(url, "penstock_queue_depth") == 2)
        gate.open()
        answers = [future.result().json()["parameters"]["together"] for future in (first, *others)]
    assert answers == [1, 2, 2]


@pytest.mark.fault("leaves in compute")
def test_cancelled_turns_true_when_the_client_leaves() -> None:
    gate, found = Gate(), []

    def look(ctx: Context) -> None:
        found.append((ctx.cancelled, ctx.requests[0].cancelled))
        gate.enter()
        until(lambda: ctx.cancelled, "the handler to learn that its client left")
        found.append((ctx.cancelled, ctx.requests[0].cancelled))

    with Server(watching(look), http="127.0.0.1:0", grpc=None) as server:
        body, headers = binary_body({"x": X})
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        sock = connect(server.http_url)
        head = f"POST /v2/models/m/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n{lines}\r\n"
        sock.sendall(head.encode() + body)
        gate.await_entered()
        gate.open()
        sock.close()
        until(lambda: len(found) == 2)
    assert found == [(False, False), (True, True)]


def test_cancelled_turns_true_when_a_grpc_caller_cancels() -> None:
    gate, found = Gate(), []

    def look(ctx: Context) -> None:
        gate.enter()
        found.append(until(lambda: ctx.cancelled))

    with (
        Server(watching(look), http=None, grpc="127.0.0.1:0") as server,
        grpc.insecure_channel(server.grpc_url) as channel,
    ):
        request = service_pb2.ModelInferRequest(model_name="m", raw_input_contents=[X.tobytes()])
        request.inputs.add(name="x", datatype="FP32", shape=[2, 2])
        call = service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelInfer.future(request)
        gate.await_entered()
        gate.open()
        call.cancel()
        until(lambda: found)
    assert found == [True]


@pytest.mark.fault("sleeps past deadline")
def test_a_deadline_that_passes_while_the_handler_runs_answers_timeout_and_cancels() -> None:
    found: list[Any] = []

    def look(ctx: Context) -> None:
        found.append(until(lambda: ctx.cancelled))
        assert ctx.deadline == 0.0

    with Server(watching(look), http="127.0.0.1:0", grpc=None, request_timeout=0.2) as server:
        answer = infer(server.http_url, "m", {"x": X})
        assert (answer.status, answer.error()) == (504, "model 'm' did not answer within the deadline")
        until(lambda: found)
    assert found == [True]


def test_a_context_may_be_kept_after_the_call() -> None:
    kept: list[Context] = []
    with Client(watching(kept.append)) as client:
        client.infer("m", {"x": X}, request_id="kept")
    assert kept[0].request_id == "kept"
    kept[0].set_parameter("too", "late")
    assert kept[0].cancelled in (True, False)


def test_a_context_is_found_by_its_name_in_a_lambda() -> None:
    served = model(
        lambda x, ctx: x * int(ctx.request_id),
        name="m",
        inputs=[Tensor("x", np.float32, [2, 2])],
        outputs=[Tensor("y", np.float32, [2, 2])],
    )
    with Client(served) as client:
        assert client.infer("m", {"x": X}, request_id="3")["y"].tolist() == (X * 3).tolist()
