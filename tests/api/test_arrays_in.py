"""Arrays that a handler receives: memory layout, and ownership after the call."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import numpy as np
import pytest
from tritonclient.grpc import service_pb2, service_pb2_grpc

from http_by_hand import infer, json_body, metric_at, post
from penstock import Batching, Model, Server, Tensor, model
from penstock.testing import Client
from waiting import Gate, at_once, until

DATATYPES = ["BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64", "FP16", "FP32", "FP64"]
RETAINED: list[Any] = []


@pytest.fixture(autouse=True)
def _clear_retained() -> Iterator[None]:
    yield
    RETAINED.clear()


def retaining_model(**options: Any) -> Model[..., Any]:
    """A model that retains its input arrays."""

    def retain(x: Any) -> Any:
        RETAINED.append(x)
        return x

    settings: dict[str, Any] = {
        "inputs": [Tensor("x", np.float32, [-1])],
        "outputs": [Tensor("y", np.float32, [-1])],
        **options,
    }
    return model(retain, name="m", **settings)


def check_layout(array: Any) -> None:
    assert type(array) is np.ndarray
    assert array.flags.c_contiguous
    assert array.flags.aligned
    assert array.flags.writeable
    assert array.ctypes.data % 64 == 0
    assert array.dtype.isnative


def over_rest_binary(server: Server, x: Any) -> None:
    assert infer(server.http_url, "m", {"x": x}).status == 200


def over_rest_json(server: Server, x: Any) -> None:
    assert post(server.http_url, "/v2/models/m/infer", json_body({"x": x})).status == 200


def over_grpc_raw(server: Server, x: Any) -> None:
    _grpc(server, x, raw=True)


def over_grpc_typed(server: Server, x: Any) -> None:
    _grpc(server, x, raw=False)


def _grpc(server: Server, x: Any, *, raw: bool) -> None:
    request = service_pb2.ModelInferRequest(model_name="m")
    tensor = request.inputs.add(name="x", datatype="FP32", shape=x.shape)
    if raw:
        request.raw_input_contents.append(x.tobytes())
    else:
        tensor.contents.fp32_contents.extend(x.ravel().tolist())
    with grpc.insecure_channel(server.grpc_url) as channel:
        service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelInfer(request)


TRANSPORTS = [over_rest_binary, over_rest_json, over_grpc_raw, over_grpc_typed]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(retaining_model(), http="127.0.0.1:0", grpc="127.0.0.1:0") as server:
        yield server


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("count", [0, 1, 3, 17, 100_000])
def test_input_arrays_are_contiguous_aligned_and_writable(
    transport: Callable[[Server, Any], None], count: int, server: Server
) -> None:
    x = np.arange(count, dtype=np.float32)
    transport(server, x)
    (array,) = RETAINED
    check_layout(array)
    assert array.dtype == np.float32
    assert array.shape == (count,)
    assert np.array_equal(array, x)


@pytest.mark.fault("mutates its input", "keeps a view")
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_input_arrays_may_be_written_and_retained(transport: Callable[[Server, Any], None], server: Server) -> None:
    for value in range(20):
        transport(server, np.full(1000, value, np.float32))
    gc.collect()
    assert [set(array.tolist()) for array in RETAINED] == [{value} for value in range(20)]
    for index, array in enumerate(RETAINED):
        array[...] = -index
    transport(server, np.full(1000, 99, np.float32))
    assert set(RETAINED.pop().tolist()) == {99}
    assert [set(array.tolist()) for array in RETAINED] == [{-index} for index in range(20)]
    assert not any(np.shares_memory(RETAINED[0], other) for other in RETAINED[1:])


@pytest.mark.fault("keeps a view")
def test_view_keeps_its_memory_alive(server: Server) -> None:
    over_rest_binary(server, np.arange(100_000, dtype=np.float32))
    view = RETAINED.pop()[500:502]
    gc.collect()
    for _ in range(10):
        over_rest_binary(server, np.zeros(100_000, np.float32))
    assert view.tolist() == [500, 501]


def test_arrays_outlive_their_server() -> None:
    with Server(retaining_model(), http="127.0.0.1:0", grpc=None) as own_server:
        over_rest_binary(own_server, np.arange(5000, dtype=np.float32))
    gc.collect()
    RETAINED[0] += 1
    assert np.array_equal(RETAINED[0], np.arange(5000) + 1)


@pytest.mark.parametrize("datatype", DATATYPES)
@pytest.mark.parametrize("shape", [[], [3], [2, 3]])
def test_every_datatype_and_rank_round_trips(datatype: str, shape: list[int]) -> None:
    served = retaining_model(inputs=[Tensor("x", datatype, shape)], outputs=[Tensor("y", datatype, shape)])
    dtype = served.inputs[0].dtype
    assert dtype is not None
    values = (np.arange(int(np.prod(shape))) + 1).astype(dtype).reshape(shape)
    with Client(served) as client:
        for binary in (True, False):
            output = client.infer("m", {"x": values}, binary=binary)["y"]
            assert (output.dtype, output.shape) == (dtype, tuple(shape))
            assert np.array_equal(output, values)
    for array in RETAINED:
        check_layout(array)
        assert (array.dtype, array.shape) == (dtype, tuple(shape))


def test_gathered_batch_has_the_same_layout() -> None:
    gate, sizes = Gate(), []

    def hold(x: Any) -> Any:
        RETAINED.append(x)
        sizes.append(len(x))
        if len(sizes) == 1:
            gate.enter()
        return x

    served = model(
        hold,
        name="m",
        inputs=[Tensor("x", np.float32, [3])],
        outputs=[Tensor("y", np.float32, [3])],
        batching=Batching(max_size=8),
    )
    with Server(served, http="127.0.0.1:0", grpc=None) as own_server:
        calls = [
            lambda value=value: infer(own_server.http_url, "m", {"x": np.full((1, 3), value, np.float32)})
            for value in range(4)
        ]
        first = at_once(calls[:1])
        gate.await_entered()
        others = at_once(calls[1:])
        until(lambda: metric_at(own_server.http_url, "penstock_queue_depth") == 3)
        gate.open()
        responses = [future.result().array("y")[0, 0] for future in first + others]
    assert responses == [0, 1, 2, 3]
    assert sizes == [1, 3]
    for array in RETAINED:
        check_layout(array)


def test_split_request_has_the_same_layout() -> None:
    served = retaining_model(
        inputs=[Tensor("x", np.float32, [2])],
        outputs=[Tensor("y", np.float32, [2])],
        batching=Batching(max_size=4, oversize="split"),
    )
    x = np.arange(22, dtype=np.float32).reshape(11, 2)
    with Client(served) as client:
        assert np.array_equal(client.infer("m", {"x": x})["y"], x)
    assert sorted(len(array) for array in RETAINED) == [3, 4, 4]
    for array in RETAINED:
        check_layout(array)
        array[...] = array + 1
    assert np.array_equal(np.concatenate(RETAINED), x + 1)


def test_bfloat16_is_float32_by_default_and_ml_dtypes_if_declared() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    values = np.array([1.0, -2.5, 3e38, 0.0], np.float32)
    rounded = values.astype(ml_dtypes.bfloat16)
    for datatype, dtype in (("BF16", np.float32), (ml_dtypes.bfloat16, ml_dtypes.bfloat16)):
        RETAINED.clear()
        served = retaining_model(inputs=[Tensor("x", datatype, [4])], outputs=[Tensor("y", datatype, [4])])
        with Client(served) as client:
            metadata = client.get("/v2/models/m").json()
            assert [one["datatype"] for one in metadata["inputs"] + metadata["outputs"]] == ["BF16", "BF16"]
            output = client.infer("m", {"x": values.astype(dtype)})["y"]
        assert np.array_equal(output, rounded.astype(np.float32))
        (array,) = RETAINED
        check_layout(array)
        assert array.dtype == dtype
        assert np.array_equal(array.astype(np.float32), rounded.astype(np.float32))


@pytest.mark.parametrize(("datatype", "element_type"), [(bytes, bytes), (str, str)])
@pytest.mark.parametrize("binary", [True, False])
def test_text_elements_are_bytes_or_str_as_declared(datatype: type, element_type: type, binary: bool) -> None:
    served = retaining_model(inputs=[Tensor("x", datatype, [-1])], outputs=[Tensor("y", datatype, [-1])])
    sent = ["", "plain", "ünï☃", "a\0b", "end\0"]
    with Client(served) as client:
        output = client.infer("m", {"x": sent}, binary=binary)["y"]
    (array,) = RETAINED
    assert array.dtype == object
    assert [type(one) for one in array] == [element_type] * 5
    assert array.tolist() == (sent if element_type is str else [one.encode() for one in sent])
    assert output.tolist() == [one.encode() for one in sent]
