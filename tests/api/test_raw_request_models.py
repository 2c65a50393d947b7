"""Raw-request models: handlers of whole requests with undeclared tensors, and a response to each."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import numpy as np
import pytest

import penstock
from http_by_hand import metric_at
from penstock import (
    Batching,
    Context,
    Final,
    HandlerError,
    InvalidInput,
    NotFound,
    Overloaded,
    Processes,
    Queueing,
    Request,
    Response,
    Server,
    Tensor,
    Unsupported,
    model,
)
from penstock.testing import Client
from waiting import Gate, at_once, until

ARRAYS: dict[str, Any] = {
    "?": np.array([True, False]),
    "u1": np.array([1, 255], np.uint8),
    "u2": np.array([1, 65535], np.uint16),
    "u4": np.array([[1], [2**32 - 1]], np.uint32),
    "u8": np.array([2**64 - 1], np.uint64),
    "i1": np.array([-128, 127], np.int8),
    "i2": np.array([[[-1]]], np.int16),
    "i4": np.array([-1, 2], np.int32),
    "i8": np.array(-(2**63), np.int64),
    "f2": np.array([0.5], np.float16),
    "f4": np.zeros((0, 3), np.float32),
    "f8": np.array([[1.5, -2.5]], np.float64),
    "text": np.array([b"\xff\x00", "ü".encode(), b""], object),
}
NAMES = ["BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64", "FP16", "FP32", "FP64"]


def describe(request: Request) -> str:
    """The attributes of a request besides its tensors, as JSON text for the response."""
    return json.dumps(
        {
            "id": request.id,
            "parameters": request.parameters,
            "outputs": request.outputs,
            "protocol": request.protocol,
            "datatypes": list(request.datatypes.items()),
            "tensor_parameters": request.tensor_parameters,
            "binary": request.binary,
            "priority": request.priority,
            "tenant": request.headers.get("x-tenant"),
            "route": [request.route, request.method, request.path, request.query, request.path_params],
            "bodies": len(request.body),
            "deadline": request.deadline is not None,
            "cancelled": request.cancelled,
        }
    )


@model(name="echo")
def echo(request: Request) -> Response:
    return Response(outputs=request.tensors, parameters={"described": describe(request)})


@model(name="echo_dict", batching=Batching(max_size=8))
def echo_dict(requests: list[Request]) -> list[dict[str, Any]]:
    return [dict(one.tensors) for one in requests]


@model(name="echo_async")
async def echo_async(request: Request) -> Response:
    return Response(outputs=request.tensors, parameters={"described": describe(request)})


@model(name="echo_in_process", instances=Processes(1), batching=Batching(max_size=8))
def echo_in_process(requests: list[Request]) -> list[Response]:
    return [
        Response(outputs=one.tensors, parameters={"described": describe(one), "pid": os.getpid()}) for one in requests
    ]


ECHOES = [echo, echo_dict, echo_async, echo_in_process]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(*ECHOES, http="127.0.0.1:0", grpc="127.0.0.1:0") as server:
        yield server


@pytest.fixture(params=["http", "grpc"])
def client(server: Server, request: pytest.FixtureRequest) -> Iterator[penstock.Client]:
    address = server.http_url if request.param == "http" else f"grpc://{server.grpc_url}"
    assert address is not None
    with penstock.Client(address) as client:
        yield client


@pytest.mark.parametrize("name", [one.name for one in ECHOES])
def test_undeclared_tensors_round_trip_by_name(client: penstock.Client, name: str) -> None:
    result = client.infer(name, ARRAYS)
    assert list(result) == list(ARRAYS)
    for key, sent in ARRAYS.items():
        assert result[key].dtype == sent.dtype
        assert result[key].shape == sent.shape
        assert result[key].tolist() == sent.tolist()


@pytest.mark.parametrize("name", ["echo", "echo_async", "echo_in_process"])
def test_request_attributes_are_visible_to_the_handler(client: penstock.Client, name: str) -> None:
    result = client.infer(
        name,
        ARRAYS,
        request_id="r7",
        parameters={"p": 1, "q": "x"},
        headers={"X-Tenant": "h"},
        outputs=["f4"],
        timeout=60,
    )
    assert list(result) == ["f4"]
    described = json.loads(str(result.parameters["described"]))
    assert described == {
        "id": "r7",
        "parameters": {"p": 1, "q": "x"},
        "outputs": ["f4"],
        "protocol": "http" if client.url.startswith("http") else "grpc",
        "datatypes": [list(pair) for pair in zip(ARRAYS, [*NAMES, "BYTES"], strict=True)],
        "tensor_parameters": {key: {} for key in ARRAYS},
        "binary": True,
        "priority": 0,
        "tenant": "h",
        "route": [None, "", "", "", {}],
        "bodies": 0,
        "deadline": described["deadline"],
        "cancelled": False,
    }


def test_process_instance_runs_in_a_child_process(client: penstock.Client) -> None:
    assert client.infer("echo_in_process", ARRAYS).parameters["pid"] != os.getpid()


def test_client_converts_python_values_with_numpy(client: penstock.Client) -> None:
    result = client.infer("echo", {"n": [1, 2], "f": 0.5, "s": "a", "t": ["b", "c"]}, datatypes={"n": "INT8"})
    assert result["n"].dtype == np.int8
    assert result["f"].dtype == np.float64
    assert result["s"].tolist() == b"a"
    assert result["t"].tolist() == [b"b", b"c"]
    with pytest.raises(InvalidInput, match=r"input 'n' cannot be converted to UINT8"):
        client.infer("echo", {"n": [300]}, datatypes={"n": "UINT8"})
    with pytest.raises(InvalidInput, match=r"input 'n' cannot be converted to an array"):
        client.infer("echo", {"n": [[1], [1, 2]]})


def test_metadata_lists_no_tensors(client: penstock.Client) -> None:
    metadata = client.metadata("echo")
    assert metadata.get("inputs", []) == []
    assert metadata.get("outputs", []) == []


def infer_json(body: object, name: str = "echo", **headers: str) -> tuple[int, Any]:
    with Client(*ECHOES) as client:
        response = client.post(f"/v2/models/{name}/infer", json.dumps(body), headers=headers)
        return response.status, response.json()


def tensor(
    name: str, datatype: str = "FP32", shape: tuple[int, ...] = (1,), data: object = (1,), **members: Any
) -> Any:
    return {"name": name, "datatype": datatype, "shape": shape, "data": data, **members}


def test_json_tensor_parameters_are_visible() -> None:
    first = tensor("a", parameters={"content_type": "np", "own": 2})
    last = tensor("c", "BYTES", parameters={"content_type": "base64"}, data=["AAE="])
    status, response = infer_json({"inputs": [first, tensor("b"), last]})
    assert status == 200
    described = json.loads(response["parameters"]["described"])
    # Parameters that the server consumed while decoding are removed.
    assert described["tensor_parameters"] == {"a": {"content_type": "np", "own": 2}, "b": {}, "c": {}}
    assert not described["binary"]
    assert response["outputs"][2]["data"] == ["AAE="]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, "the request has no 'inputs'"),
        ({"inputs": [tensor("x", "FP33")]}, "input 'x': unknown datatype 'FP33', expected one of BOOL, UINT8,"),
        ({"inputs": [tensor("x", shape=(2,))]}, "input 'x' has 1 elements in 'data', shape [2] expects 2"),
        ({"inputs": [tensor("x", data=["a"])]}, "input 'x'"),
        ({"inputs": [tensor("x"), tensor("y"), tensor("x")]}, "input 'x' is given twice"),
        ({"inputs": [tensor("")]}, "'inputs[0]' has an empty 'name'"),
        ({"inputs": [tensor("x" * 1025)]}, "'inputs[0]' has a name of 1025 bytes, at most 1024 are accepted"),
        ({"inputs": [{"datatype": "FP32", "shape": [1], "data": [1]}]}, "'inputs[0]' has no 'name'"),
        ({"inputs": [tensor("x")], "outputs": [{"name": "x"}] * 2}, "output 'x' is requested twice"),
        (
            {"inputs": [tensor("x"), tensor("y")], "outputs": [{"name": "z"}]},
            "unexpected inference output 'z' for model 'echo', expected 'x', 'y'",
        ),
    ],
)
def test_invalid_bodies_are_rejected_with_the_reason(body: object, message: str) -> None:
    status, response = infer_json(body)
    assert (status, response["error"][: len(message)]) == (400, message)


def test_classification_of_undeclared_outputs_is_unsupported() -> None:
    requested = {"name": "x", "parameters": {"classification": 2}}
    status, response = infer_json({"inputs": [tensor("x")], "outputs": [requested]})
    assert status == 501
    assert response["error"] == "output 'x' cannot be classified: model 'echo' does not declare its outputs"


def test_repeated_json_members_use_the_last_value() -> None:
    with Client(echo) as client:
        one, other = json.dumps(tensor("x")), json.dumps(tensor("y"))
        text = f'{{"outputs":[{{"name":"z"}}],"inputs":[{one},{other}],"inputs":[{other}],"outputs":[]}}'
        response = client.post("/v2/models/echo/infer", text).json()
    assert [output["name"] for output in response["outputs"]] == ["y"]
    assert json.loads(response["parameters"]["described"])["outputs"] is None


def test_json_data_may_precede_the_name() -> None:
    status, response = infer_json({"inputs": [{"data": [3], "shape": [1], "datatype": "INT8", "name": "late"}]})
    assert (status, response["outputs"]) == (200, [{"name": "late", "datatype": "INT8", "shape": [1], "data": [3]}])


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/models/echo:predict", '{"instances": [1]}'),
        ("/v2/models/echo/generate", '{"x": "1"}'),
    ],
)
def test_v1_and_generate_are_unsupported_without_declared_inputs(path: str, body: str) -> None:
    with Client(echo) as client:
        response = client.post(path, body)
    assert response.status == 501
    assert response.error().startswith("model 'echo' declares no inputs, so ")


def infer_in_one_batch(*tensors: dict[str, Any], handler: Callable[[list[Request]], Any]) -> list[Any]:
    """Responses to requests of which the first runs alone and the others share one batch."""
    gate, sizes = Gate(), list[int]()

    @model(name="m", batching=Batching(max_size=16))
    def handle_batch(requests: list[Request]) -> Any:
        sizes.append(len(requests))
        if len(sizes) == 1:
            gate.enter()
            return [{} for _ in requests]
        return handler(requests)

    def infer_or_error(client: penstock.Client, inputs: dict[str, Any]) -> Any:
        try:
            return dict(client.infer("m", inputs))
        except penstock.PenstockError as error:
            return error

    with Server(handle_batch, http="127.0.0.1:0", grpc=None) as server, penstock.Client(str(server.http_url)) as client:
        first = at_once([lambda: infer_or_error(client, {"x": np.zeros(1)})])
        gate.await_entered()
        rest = []
        for index, inputs in enumerate(tensors, 1):
            rest += at_once([lambda inputs=inputs: infer_or_error(client, inputs)])
            until(lambda index=index: depth(server) == index)
        gate.open()
        assert first[0].result() == {}
        responses = [one.result() for one in rest]
    assert sizes == [1, len(tensors)]
    return responses


def depth(server: Server) -> float:
    return metric_at(str(server.http_url), "penstock_queue_depth")


def test_batched_requests_may_have_different_tensors() -> None:
    def handle_batch(requests: list[Request]) -> list[Any]:
        return [{name: array.sum(keepdims=True) for name, array in one.tensors.items()} for one in requests]

    responses = infer_in_one_batch(
        {"a": np.ones(3)},
        {"b": np.ones((2, 2), np.int8), "c": np.ones(1)},
        {"a": np.ones((4, 4, 4))},
        handler=handle_batch,
    )
    assert [{name: array.item() for name, array in one.items()} for one in responses] == [
        {"a": 3},
        {"b": 4, "c": 1},
        {"a": 64},
    ]


def test_batched_requests_succeed_or_fail_separately() -> None:
    def handle_batch(requests: list[Request]) -> list[Any]:
        return [
            {"y": np.ones(1)},
            InvalidInput("not this one"),
            ValueError("secret"),
            "plain",
            Response("gone", status=404),
            7,
            None,
        ]

    one, two, three, four, five, six, seven = infer_in_one_batch(*[{"x": np.ones(1)}] * 7, handler=handle_batch)
    assert one["y"].tolist() == [1]
    assert isinstance(two, InvalidInput)
    assert str(two) == "not this one"
    assert isinstance(three, HandlerError)
    assert str(three) == "model 'm' failed: ValueError"
    assert isinstance(four, penstock.PenstockError)
    assert isinstance(five, NotFound)
    expected = "model 'm' returned {} for a request, expected a Response, a dict of arrays by name, bytes or str"
    assert [str(six), str(seven)] == [expected.format("a int"), expected.format("a NoneType")]


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ({"y": [1]}, "model 'm' returned a dict, expected a list of an answer to each request"),
        ([{}], "model 'm' returned answers to 1 requests, the batch has 2"),
    ],
)
def test_batch_handler_must_return_one_response_per_request(returned: Any, message: str) -> None:
    responses = infer_in_one_batch({"x": np.ones(1)}, {"x": np.ones(1)}, handler=lambda requests: returned)
    assert [str(one) for one in responses] == [message, message]


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        ({"y": None}, "returned None for output 'y'"),
        ({"y": np.ones(1, np.complex64)}, "returned an array of complex64 for output 'y'"),
        ({"y": [object()]}, "returned an element of type a object for output 'y'"),
        ({1: np.ones(1)}, "returned an output whose name is a int, expected a str"),
    ],
)
def test_outputs_must_have_a_protocol_datatype(outputs: Any, message: str) -> None:
    @model(name="m")
    def wrong(request: Request) -> Any:
        return outputs

    with Client(wrong) as client, pytest.raises(HandlerError, match="model 'm'") as raised:
        client.infer("m", {"x": np.ones(1)})
    assert message in str(raised.value)


def test_outputs_are_converted_with_numpy() -> None:
    @model(name="m")
    def convertible(request: Request) -> Any:
        return {
            "texts": ["a", b"b"],
            "numbers": [[1, 2]],
            "scalar": np.float32(2),
            "strided": np.arange(6, dtype=np.int16).reshape(2, 3).T,
            "swapped": np.array([1, 2], ">i4"),
            "fixed": np.array(["x", "yy"]),
        }

    with Client(convertible) as client:
        response = client.infer("m", {})
    assert response["texts"].tolist() == [b"a", b"b"]
    assert (response["numbers"].dtype, response["numbers"].tolist()) == (np.int64, [[1, 2]])
    assert (response["scalar"].shape, response["scalar"].dtype) == ((), np.float32)
    assert response["strided"].tolist() == [[0, 3], [1, 4], [2, 5]]
    assert response["swapped"].tolist() == [1, 2]
    assert response["fixed"].tolist() == [b"x", b"yy"]


def test_input_arrays_are_cached_and_writable() -> None:
    retained = []

    @model(name="m")
    def retain(request: Request) -> Any:
        array = request.tensors["x"]
        assert request.tensors["x"] is array
        array += 1
        retained.append(array)
        return {"x": array}

    with Client(retain) as client:
        assert client.infer("m", {"x": np.zeros(2)})["x"].tolist() == [1, 1]
        assert client.infer("m", {"x": np.full(2, 5.0)})["x"].tolist() == [6, 6]
    assert retained[0].tolist() == [1, 1]


def test_bfloat16_is_float32_in_python() -> None:
    status, response = infer_json({"inputs": [tensor("x", "BF16", data=[1.5])]})
    assert (status, response["outputs"][0]["datatype"], response["outputs"][0]["data"]) == (200, "FP32", [1.5])
    assert json.loads(response["parameters"]["described"])["datatypes"] == [["x", "BF16"]]


def test_handler_may_accept_context_and_request() -> None:
    @model(name="m")
    def both(ctx: Context, request: Request) -> Any:
        ctx.set_parameter("by", "ctx")
        requested = list(ctx.requests[0].outputs)
        return Response(outputs={"y": [ctx.request_id, request.id]}, parameters={"own": 1, "requested": str(requested)})

    with Client(both) as client:
        outputs = client.infer("m", {}, request_id="same", outputs=["y"])
        assert client.last_response is not None
        assert client.last_response.json()["parameters"] == {"by": "ctx", "own": 1, "requested": "['y']"}
    assert outputs["y"].tolist() == [b"same", b"same"]


def test_class_is_constructed_once() -> None:
    @model(name="m")
    class Counts:
        def __init__(self) -> None:
            self.count = 0

        def predict(self, request: Request) -> dict[str, Any]:
            self.count += 1
            return {"n": [self.count]}

        def explain(self, anything: Any) -> Any:
            raise AssertionError("explain is not called")

    with Client(Counts) as client:
        assert [client.infer("m", {})["n"].item() for _ in range(2)] == [1, 2]


def count_up(request: Request) -> Iterator[Any]:
    for number in range(int(request.tensors["n"].item())):
        yield Response(outputs={"i": [number]}, parameters={"of": request.id})
    if "fails" in request.tensors:
        raise InvalidInput("no more")


async def count_up_async(request: Request) -> AsyncIterator[Any]:
    for chunk in count_up(request):
        yield chunk


@model(name="plain")
def count(request: Request) -> Iterator[Any]:
    yield from count_up(request)


@model(name="async")
async def count_async(request: Request) -> AsyncIterator[Any]:
    async for chunk in count_up_async(request):
        yield chunk


@model(name="process", instances=Processes(1))
def count_in_process(request: Request) -> Iterator[Any]:
    yield from count_up(request)


COUNTERS = [count, count_async, count_in_process]


@pytest.fixture(scope="module")
def streaming() -> Iterator[Server]:
    with Server(*COUNTERS, http="127.0.0.1:0", grpc="127.0.0.1:0") as server:
        yield server


@pytest.mark.parametrize("name", [one.name for one in COUNTERS])
@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_streamed_chunks_have_their_own_output_names(streaming: Server, protocol: str, name: str) -> None:
    url = str(streaming.http_url) if protocol == "http" else f"grpc://{streaming.grpc_url}"
    with penstock.Client(url) as client:
        chunks = list(client.stream(name, {"n": np.array([3])}, request_id="s"))
        assert [chunk["i"].tolist() for chunk in chunks] == [[0], [1], [2]]
        assert chunks[0].parameters["of"] == "s"
        # Errors within a stream are plain texts without an error kind.
        with pytest.raises(HandlerError, match="no more"):
            list(client.stream(name, {"n": np.array([1]), "fails": np.array([1])}))
        # A unary call accepts a stream of one chunk.
        assert client.infer(name, {"n": np.array([1])})["i"].tolist() == [0]
        for number in (0, 2):
            with pytest.raises(HandlerError, match=r"exactly 1 answer is expected here"):
                client.infer(name, {"n": np.array([number])})


def test_streams_of_one_batch_end_separately() -> None:
    gate, sizes = Gate(), list[int]()

    @model(name="m", batching=Batching(max_size=8))
    def handle_batch(requests: list[Request]) -> Iterator[list[Any]]:
        sizes.append(len(requests))
        if len(sizes) == 1:
            gate.enter()
            yield [Final({}) for _ in requests]
            return
        limits = [one.tensors["n"].item() for one in requests]
        for step in range(max(limits)):
            yield [
                None if step > limit else Final({"i": [step]}) if step == limit else {"i": [step]} for limit in limits
            ]
        yield [Overloaded("late"), *[None] * (len(requests) - 1)]

    def infer_or_error(client: penstock.Client, number: int) -> list[Any]:
        chunks: list[Any] = []
        try:
            chunks.extend(chunk["i"].item() for chunk in client.stream("m", {"n": np.array([number])}))
        except HandlerError as error:
            chunks.append(str(error))
        return chunks

    with Server(handle_batch, http="127.0.0.1:0", grpc=None) as server, penstock.Client(str(server.http_url)) as client:
        first = at_once([lambda: list(client.stream("m", {"n": np.array([0])}))])
        gate.await_entered()
        rest = []
        for index, number in enumerate([4, 1, 2], 1):
            rest += at_once([lambda number=number: infer_or_error(client, number)])
            until(lambda index=index: depth(server) == index)
        gate.open()
        first[0].result()
        assert [one.result() for one in rest] == [[0, 1, 2, 3, "late"], [0, 1], [0, 1, 2]]


@model(name="outer", inputs=[Tensor("x", np.float32, [-1])], outputs=[Tensor("y", np.float32, [-1])])
def outer(x: Any, ctx: Context) -> Any:
    response = ctx.models["echo"].with_parameters(p=1)(a=x, b=["t", "u"], c=None)
    described = json.loads(ctx.models["describes"](x=x).item())
    assert list(response) == ["a", "b"]
    assert response["b"].tolist() == [b"t", b"u"]
    assert (described["protocol"], described["datatypes"]) == ("inprocess", [["x", "FP32"]])
    return response["a"] * 2


@model(name="describes")
def describes(request: Request) -> Any:
    return {"description": np.array(describe(request).encode(), object)}


@model(name="refuses")
def refuse(request: Request) -> Any:
    return Response("no resource", status=404) if "gone" in request.tensors else b"body"


@model(name="declares", inputs=[Tensor("n", np.int64, [1])], outputs=[Tensor("names", str, [-1])])
def declares(request: Request) -> Any:
    return {"names": np.array([*request.tensors], object)}


def test_models_call_raw_request_models_by_name() -> None:
    @model(name="wrong", inputs=[Tensor("x", np.float32, [1])], outputs=[Tensor("y", np.float32, [1])])
    def wrong(x: Any, ctx: Context) -> Any:
        with pytest.raises(InvalidInput, match=r"^model 'echo' declares no inputs: pass arrays by name$"):
            ctx.models["echo"](x)
        with pytest.raises(NotFound, match=r"^no resource$"):
            ctx.models["refuses"](gone=x)
        with pytest.raises(Unsupported, match=r"answered with a body, and only outputs come back here$"):
            ctx.models["refuses"](x=x)
        assert [chunk.item() for chunk in ctx.models["plain"].stream(n=np.array([2]))] == [0, 1]
        assert ctx.models["plain"](n=np.array([1])).item() == 0
        # Declared tensors of a raw-request model are metadata only.
        assert ctx.models["declares"](x=x, y=x).tolist() == [b"x", b"y"]
        assert ctx.models["declares"](n=x).tolist() == [b"n"]
        return x

    with Client(outer, echo, describes, refuse, wrong, count, declares) as client:
        assert client.infer("outer", {"x": np.ones(2, np.float32)})["y"].tolist() == [2, 2]
        client.infer("wrong", {"x": np.ones(1, np.float32)})


def test_queued_tensor_bytes_are_bounded() -> None:
    gate = Gate()

    @model(name="m", queueing=Queueing(max_bytes=100))
    def wait_for_gate(request: Request) -> Any:
        gate.enter()
        return {}

    with (
        Server(wait_for_gate, http="127.0.0.1:0", grpc=None) as server,
        penstock.Client(str(server.http_url)) as client,
    ):
        first = at_once([lambda: client.infer("m", {"x": np.ones(1)})])
        gate.await_entered()
        second = at_once([lambda: client.infer("m", {"x": np.ones(10)})])
        until(lambda: depth(server) == 1)
        with pytest.raises(Overloaded, match=r"has 80 of its maximum of 100 bytes waiting, and the request has 24"):
            client.infer("m", {"x": np.ones(3)})
        gate.open()
        assert [dict(one.result()) for one in (*first, *second)] == [{}, {}]
