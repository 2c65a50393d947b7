"""tritonclient with its shared memory: both protocols, every datatype (case F12 and part of G5)."""

from __future__ import annotations

import os
import queue
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as tgrpc
import tritonclient.http as thttp

from models.protocol import MODELS
from penstock import Server, ServerConfig, Tensor, model

from .content import DTYPES, SAMPLES

if sys.platform != "linux":
    pytest.skip("shared memory objects are files on Linux only", allow_module_level=True)

import tritonclient.utils.shared_memory as shm
from tritonclient.utils import InferenceServerException, serialize_byte_tensor

SIZE = 1024


@model(inputs=[Tensor("count", np.int32, [1])], outputs=[Tensor("left", np.int32, [1])])
def countdown(count: Any) -> Iterator[Any]:
    for remaining in range(int(count[0]), 0, -1):
        yield np.array([remaining], np.int32)


@pytest.fixture(scope="module", params=[thttp, tgrpc], ids=["http", "grpc"])
def module(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture(scope="module")
def client(module: Any) -> Iterator[Any]:
    config = ServerConfig(http="127.0.0.1:0", grpc="127.0.0.1:0", shared_memory="local")
    with Server(*MODELS, countdown, config=config) as server:
        address = server.http_url.removeprefix("http://") if module is thttp else server.grpc_url
        with module.InferenceServerClient(address) as client:
            yield client


@pytest.fixture
def region(client: Any) -> Iterator[Callable[[str], Any]]:
    """Creates and registers regions, and removes all at the end."""
    handles = []

    def make(name: str) -> Any:
        key = f"/penstock-client-{os.getpid()}-{name}"
        handle = shm.create_shared_memory_region(name, key, SIZE)
        handles.append(handle)
        client.register_system_shared_memory(name, key, SIZE)
        return handle

    yield make
    client.unregister_system_shared_memory()
    for handle in handles:
        shm.destroy_shared_memory_region(handle)


def array_of(datatype: str) -> np.ndarray[Any, Any]:
    if datatype == "BYTES":
        return np.array([text.encode() for text in SAMPLES["BYTES"]], object)
    if "INT" in datatype:
        return np.array(SAMPLES[datatype], DTYPES[datatype])
    return np.array(SAMPLES[datatype]).astype(DTYPES[datatype])


def test_status_and_duplicates(client: Any, module: Any, region: Callable[[str], Any]) -> None:
    region("a")
    region("b")
    status = client.get_system_shared_memory_status()
    names = [one["name"] for one in status] if module is thttp else sorted(status.regions)
    assert names == ["a", "b"]
    with pytest.raises(InferenceServerException, match="'a' is registered already"):
        client.register_system_shared_memory("a", "/any", SIZE)
    client.unregister_system_shared_memory("a")
    with pytest.raises(InferenceServerException, match="'a' is not registered"):
        client.get_system_shared_memory_status("a")


def test_cuda_status_and_unregister_calls(client: Any, module: Any) -> None:
    client.unregister_cuda_shared_memory()
    status = client.get_cuda_shared_memory_status()
    assert (status if module is thttp else list(status.regions)) == []
    with pytest.raises(InferenceServerException, match="this server has no GPU support"):
        client.register_cuda_shared_memory("a", b"aGFuZGxl", 0, 8)


@pytest.mark.parametrize("datatype", list(SAMPLES))
def test_every_datatype_in_and_out(client: Any, module: Any, region: Callable[[str], Any], datatype: str) -> None:
    handle, sent = region("r"), array_of(datatype)
    stored = serialize_byte_tensor(sent).item() if datatype == "BYTES" else sent.tobytes()
    size = len(stored)
    # At an odd offset, because elements in shared memory may be unaligned.
    written = np.frombuffer(b"\0" * 3 + stored, np.uint8)
    shm.set_shared_memory_region(handle, [written])
    tensor_in = module.InferInput("x", list(sent.shape), datatype)
    tensor_in.set_shared_memory("r", size, offset=3)
    requested = module.InferRequestedOutput("y")
    requested.set_shared_memory("r", 2 * size, offset=512)
    result = client.infer(f"ident_{datatype}", [tensor_in], outputs=[requested])
    got = shm.get_contents_as_numpy(handle, np.uint8, [size], offset=512)
    assert got.tobytes() == stored
    output = result.get_output("y")
    shape = output["shape"] if module is thttp else list(output.shape)
    assert shape == list(sent.shape)
    assert (output["datatype"] if module is thttp else output.datatype) == datatype


def test_bytes_as_numpy(client: Any, module: Any, region: Callable[[str], Any]) -> None:
    handle, sent = region("r"), array_of("BYTES")
    stored = serialize_byte_tensor(sent)
    size = len(stored.item())
    shm.set_shared_memory_region(handle, [stored])
    tensor_in, requested = module.InferInput("x", [len(sent)], "BYTES"), module.InferRequestedOutput("y")
    tensor_in.set_shared_memory("r", size)
    requested.set_shared_memory("r", 256, offset=512)
    client.infer("echo_s", [tensor_in], outputs=[requested])
    assert shm.get_contents_as_numpy(handle, np.object_, [len(sent)], offset=512).tolist() == sent.tolist()


def test_outputs_in_two_regions_and_in_the_response(client: Any, module: Any, region: Callable[[str], Any]) -> None:
    first, second = region("first"), region("second")
    shm.set_shared_memory_region(first, [np.array([1.5, 2.0], np.float32)])
    tensor_in = module.InferInput("x", [2], "FP32")
    tensor_in.set_shared_memory("first", 8)
    o1, o2 = module.InferRequestedOutput("o1"), module.InferRequestedOutput("o2")
    o1.set_shared_memory("second", 8)
    result = client.infer("two_out", [tensor_in], outputs=[o1, o2])
    assert shm.get_contents_as_numpy(second, np.float32, [2]).tolist() == [3.0, 4.0]
    assert result.as_numpy("o2").tolist() == [1, 2]


class Stream:
    """Requests and responses on one `ModelStreamInfer` call."""

    def __init__(self, client: Any) -> None:
        self.client, self.answers = client, queue.Queue[tuple[Any, Any]]()

    def __enter__(self) -> Stream:
        self.client.start_stream(lambda result, error: self.answers.put((result, error)))
        return self

    def __exit__(self, *_: object) -> None:
        self.client.stop_stream()

    def send_request(self, *arguments: Any, **named: Any) -> None:
        self.client.async_stream_infer(*arguments, **named)

    def next_response(self) -> tuple[Any, str]:
        result, error = self.answers.get(timeout=20)
        return result, "" if error is None else error.message()


@pytest.fixture
def stream(module: Any, client: Any) -> Iterator[Stream]:
    if module is thttp:
        pytest.skip("streams are gRPC's")
    with Stream(client) as stream:
        yield stream


def shared_call(size: int) -> tuple[Any, Any]:
    tensor_in, requested = tgrpc.InferInput("x", [4], "FP32"), tgrpc.InferRequestedOutput("y")
    tensor_in.set_shared_memory("r", 16)
    requested.set_shared_memory("r", size, offset=512)
    return tensor_in, requested


def test_stream_of_requests(stream: Stream, region: Callable[[str], Any]) -> None:
    handle = region("r")
    for factor in (1, 2, 3):
        sent = np.arange(4, dtype=np.float32) * factor
        shm.set_shared_memory_region(handle, [sent])
        tensor_in, requested = shared_call(16)
        stream.send_request("ident_FP32", [tensor_in], outputs=[requested], request_id=str(factor))
        result, error = stream.next_response()
        assert error == ""
        assert result.get_response().id == str(factor)
        assert list(result.get_output("y").shape) == [4]
        assert result.get_response().raw_output_contents == [b""]
        assert shm.get_contents_as_numpy(handle, np.float32, [4], offset=512).tolist() == sent.tolist()


def test_stream_continues_after_a_refusal(stream: Stream, region: Callable[[str], Any]) -> None:
    handle, sent = region("r"), np.ones(4, np.float32)
    shm.set_shared_memory_region(handle, [sent])
    tensor_in, requested = shared_call(15)
    stream.send_request("ident_FP32", [tensor_in], outputs=[requested])
    assert "output 'y' has 16 bytes, 'shared_memory_byte_size' leaves it 15 of region 'r'" in stream.next_response()[1]
    tensor_in.set_shared_memory("nowhere", 16)
    stream.send_request("ident_FP32", [tensor_in])
    assert "input 'x': " in stream.next_response()[1]
    tensor_in.set_shared_memory("r", 16)
    stream.send_request("ident_FP32", [tensor_in])
    assert stream.next_response()[0].as_numpy("y").tolist() == [1] * 4


def test_streaming_model(stream: Stream, region: Callable[[str], Any]) -> None:
    handle = region("r")
    shm.set_shared_memory_region(handle, [np.array([3], np.int32)])
    tensor_in = tgrpc.InferInput("count", [1], "INT32")
    tensor_in.set_shared_memory("r", 4)
    stream.send_request("countdown", [tensor_in], enable_empty_final_response=True)
    got = []
    while True:
        result, error = stream.next_response()
        assert error == ""
        if result.get_response().parameters["triton_final_response"].bool_param and not result.get_response().outputs:
            break
        got.append(int(result.as_numpy("left")[0]))
    assert got == [3, 2, 1]
    requested = tgrpc.InferRequestedOutput("left")
    requested.set_shared_memory("r", 4, offset=512)
    stream.send_request("countdown", [tensor_in], outputs=[requested], enable_empty_final_response=True)
    for _ in range(4):
        result, error = stream.next_response()
        assert error == ""
    assert shm.get_contents_as_numpy(handle, np.int32, [1], offset=512).tolist() == [1]
