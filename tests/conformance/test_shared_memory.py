"""System shared memory over REST and gRPC, by hand and by real clients (cases F11 to F16; traps T2, T3, T54, T55)."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import grpc
import pytest
from tritonclient.grpc import service_pb2 as pb

from models.protocol import MODELS, Gate
from penstock import Server, ServerConfig
from penstock.testing import Client

from .content import SAMPLES, add, one, pack, summed, tensor
from .protocols import CODES, GrpcProtocol, decode
from .transports import Reply, Rest, Transport, infer

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="shared memory objects are files on Linux only")

SYSTEM = "/v2/systemsharedmemory"
CUDA = "/v2/cudasharedmemory"


class Object:
    """A POSIX shared memory object of this process."""

    def __init__(self, size: int = 256) -> None:
        self.key = f"/penstock-{os.getpid()}-{os.urandom(4).hex()}"
        self.path = "/dev/shm" + self.key
        with open(self.path, "wb") as file:
            file.truncate(size)

    def put(self, data: bytes, offset: int = 0) -> None:
        with open(self.path, "r+b") as file:
            file.seek(offset)
            file.write(data)

    def get(self, offset: int = 0, size: int = -1) -> bytes:
        with open(self.path, "rb") as file:
            file.seek(offset)
            return file.read(size)


@pytest.fixture(scope="module")
def sharing() -> Iterator[Server]:
    """A server with shared memory for local clients."""
    config = ServerConfig(http="127.0.0.1:0", grpc="127.0.0.1:0", shared_memory="local")
    with Server(*MODELS, config=config) as server:
        yield server


@pytest.fixture
def http(sharing: Server) -> Iterator[Rest]:
    rest = Rest(sharing.http_url)
    yield rest
    rest.request("POST", f"{SYSTEM}/unregister")


@pytest.fixture
def rpc(sharing: Server, http: Rest) -> Iterator[GrpcProtocol]:
    protocol = GrpcProtocol("grpc-raw", sharing.grpc_url, typed=False)
    yield protocol
    protocol.channel.close()


@pytest.fixture
def memory() -> Iterator[Object]:
    region = Object()
    yield region
    os.unlink(region.path)


def register(http: Transport, name: str, memory: Object, **fields: Any) -> Reply:
    body = {"key": memory.key, "byte_size": 256, **fields}
    return http.request("POST", f"{SYSTEM}/region/{quote(name)}/register", json.dumps(body).encode())


def registered(http: Transport, name: str, memory: Object, **fields: Any) -> None:
    assert register(http, name, memory, **fields).status == 200


def names(http: Transport) -> list[str]:
    return [region["name"] for region in http.request("GET", f"{SYSTEM}/status").json()]


def shared(region: str, size: int, offset: int | None = None, **more: Any) -> dict[str, Any]:
    """The parameters of a tensor in shared memory."""
    offsets = {} if offset is None else {"shared_memory_offset": offset}
    return {"shared_memory_region": region, "shared_memory_byte_size": size, **offsets, **more}


def post(http: Transport, model: str, inputs: list[dict[str, Any]], outputs: list[dict[str, Any]]) -> Reply:
    document: dict[str, Any] = {"inputs": inputs}
    if outputs:
        document["outputs"] = outputs
    return infer(http, model, document)


def x(parameters: dict[str, Any], datatype: str = "FP32", shape: tuple[int, ...] = (2,)) -> dict[str, Any]:
    return {"name": "x", "datatype": datatype, "shape": list(shape), "parameters": parameters}


def fill(fields: Any, parameters: dict[str, Any]) -> None:
    """Sets a message's parameters, each in the field of its type."""
    for name, value in parameters.items():
        field = "bool_param" if isinstance(value, bool) else "string_param" if isinstance(value, str) else "int64_param"
        setattr(fields[name], field, value)


def message(
    model: str, inputs: list[dict[str, Any]], outputs: list[dict[str, Any]], raw: list[bytes] | None = None
) -> pb.ModelInferRequest:
    """The gRPC form of the request that `post` sends."""
    request = pb.ModelInferRequest(model_name=model, raw_input_contents=raw or [])
    for tensor_json in inputs:
        entry = request.inputs.add(
            name=tensor_json["name"], datatype=tensor_json["datatype"], shape=tensor_json["shape"]
        )
        fill(entry.parameters, tensor_json.get("parameters", {}))
    for output in outputs:
        fill(request.outputs.add(name=output["name"]).parameters, output.get("parameters", {}))
    return request


def refusal(http: Rest, rpc: GrpcProtocol, model: str, inputs: list[Any], outputs: list[Any], status: int) -> list[str]:
    """The error messages of a request that both protocols refuse."""
    response = rpc.send(message(model, inputs, outputs))
    assert response.status == status, response.message
    return [post(http, model, inputs, outputs).refusal(status), response.message]


# F11: register, status, unregister


def test_f11_region_lifecycle(http: Rest, memory: Object) -> None:
    assert http.request("GET", f"{SYSTEM}/status").json() == []
    registered(http, "r", memory, offset=8, byte_size=64)
    registered(http, "a b/ü".replace("/", "-"), memory)
    status = {"name": "r", "key": memory.key, "offset": 8, "byte_size": 64}
    assert http.request("GET", f"{SYSTEM}/region/r/status").json() == [status]
    assert names(http) == ["a b-ü", "r"]
    assert http.request("POST", f"{SYSTEM}/region/r/unregister").status == 200
    assert names(http) == ["a b-ü"]
    assert http.request("POST", f"{SYSTEM}/region/r/unregister").status == 200, "an unknown region is not an error"
    assert http.request("POST", f"{SYSTEM}/unregister").status == 200
    assert names(http) == []


def test_f11_region_lifecycle_over_grpc(rpc: GrpcProtocol, memory: Object) -> None:
    stub = rpc.stub
    stub.SystemSharedMemoryRegister(pb.SystemSharedMemoryRegisterRequest(name="r", key=memory.key, byte_size=64))
    stub.SystemSharedMemoryRegister(
        pb.SystemSharedMemoryRegisterRequest(name="s", key=memory.key.lstrip("/"), offset=4, byte_size=8)
    )
    status = stub.SystemSharedMemoryStatus(pb.SystemSharedMemoryStatusRequest())
    assert sorted(status.regions) == ["r", "s"]
    one = stub.SystemSharedMemoryStatus(pb.SystemSharedMemoryStatusRequest(name="s")).regions
    assert (one["s"].name, one["s"].key, one["s"].offset, one["s"].byte_size) == ("s", memory.key.lstrip("/"), 4, 8)
    stub.SystemSharedMemoryUnregister(pb.SystemSharedMemoryUnregisterRequest(name="none"))
    stub.SystemSharedMemoryUnregister(pb.SystemSharedMemoryUnregisterRequest(name="s"))
    assert list(stub.SystemSharedMemoryStatus(pb.SystemSharedMemoryStatusRequest()).regions) == ["r"]
    stub.SystemSharedMemoryUnregister(pb.SystemSharedMemoryUnregisterRequest())
    assert not stub.SystemSharedMemoryStatus(pb.SystemSharedMemoryStatusRequest()).regions


def grpc_error(call: Any, request: Any) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.RpcError) as raised:
        call(request, timeout=20)
    return raised.value.code(), raised.value.details()


def test_f11_duplicate_region_name(http: Rest, rpc: GrpcProtocol, memory: Object) -> None:
    registered(http, "r", memory)
    expected = "shared memory region 'r' is registered already, unregister it first"
    assert register(http, "r", memory).refusal(400) == expected
    request = pb.SystemSharedMemoryRegisterRequest(name="r", key=memory.key, byte_size=8)
    got = grpc_error(rpc.stub.SystemSharedMemoryRegister, request)
    assert got == (grpc.StatusCode.ALREADY_EXISTS, expected)


def test_f11_status_of_an_unknown_region(http: Rest, rpc: GrpcProtocol) -> None:
    expected = "shared memory region 'none' is not registered"
    assert http.request("GET", f"{SYSTEM}/region/none/status").refusal(404) == expected
    request = pb.SystemSharedMemoryStatusRequest(name="none")
    assert grpc_error(rpc.stub.SystemSharedMemoryStatus, request) == (grpc.StatusCode.NOT_FOUND, expected)


@pytest.mark.parametrize(
    ("fields", "part"),
    [
        ({"byte_size": 257}, "takes 257 bytes from byte 0 on, expected 1 or more bytes within the 256 of its object"),
        ({"offset": 256, "byte_size": 1}, "takes 1 bytes from byte 256 on"),
        ({"offset": 2**64 - 1}, "takes 256 bytes from byte 18446744073709551615 on"),
        ({"byte_size": 0}, "takes 0 bytes"),
        ({"key": "/penstock-no-such"}, "cannot be opened for reading and writing"),
        ({"key": "/../etc/passwd"}, "is not an object's name"),
        ({"key": ".."}, "is not an object's name"),
        ({"key": "///"}, "is not an object's name"),
        ({"key": ""}, "is not an object's name"),
        ({"key": "/sem.x"}, "is reserved"),
        ({"key": "triton_python_backend_shm_region_1"}, "is reserved"),
    ],
)
def test_f11_impossible_registrations(
    http: Rest, rpc: GrpcProtocol, memory: Object, fields: dict[str, Any], part: str
) -> None:
    text = register(http, "r", memory, **fields).refusal(400)
    assert part in text
    request = pb.SystemSharedMemoryRegisterRequest(name="r", **{"key": memory.key, "byte_size": 256, **fields})
    assert grpc_error(rpc.stub.SystemSharedMemoryRegister, request) == (grpc.StatusCode.INVALID_ARGUMENT, text)
    assert names(http) == []
    assert "/dev" not in text


@pytest.mark.parametrize("body", [b"", b"[]", b'{"key":"k"}', b'{"byte_size":1}', b'{"key":1,"byte_size":1}', b"\xff"])
def test_f11_malformed_registrations(http: Rest, body: bytes) -> None:
    text = http.request("POST", f"{SYSTEM}/region/r/register", body).refusal(400)
    assert "'key', 'byte_size' and perhaps 'offset'" in text


def test_f11_folders_and_links_are_not_objects(http: Rest, memory: Object) -> None:
    link = memory.path + "-link"
    os.symlink("/etc/hostname", link)
    os.mkdir(folder := memory.path + "-folder")
    try:
        for path in (link, folder):
            key = path.removeprefix("/dev/shm")
            assert "cannot be opened" in register(http, "r", memory, key=key, byte_size=1).refusal(400)
    finally:
        os.unlink(link)
        os.rmdir(folder)


def test_f11_cross_origin_requests_register_nothing(http: Rest, memory: Object) -> None:
    body = json.dumps({"key": memory.key, "byte_size": 256}).encode()
    reply = http.request("POST", f"{SYSTEM}/region/r/register", body, {"Origin": "http://127.0.0.1:9"})
    assert "the header 'Origin' is 'http://127.0.0.1:9'" in reply.refusal(403)
    assert names(http) == []


def test_f13_other_response_formats_cannot_use_shared_memory(http: Rest, memory: Object) -> None:
    registered(http, "r", memory)
    document = {
        "inputs": [x(shared("r", 8))],
        "outputs": [{"name": "y", "parameters": shared("r", 8, 8)}],
    }
    reply = infer(http, "ident_FP32", document, headers={"Accept": "application/x-npy"})
    expected = "output 'y' cannot go to shared memory with a response in this format"
    assert reply.refusal(400) == expected


def test_f11_number_of_regions_is_limited(http: Rest, memory: Object) -> None:
    for number in range(1024):
        registered(http, f"r{number}", memory)
    assert register(http, "one more", memory).refusal(429) == "1024 shared memory regions are registered, the limit"
    assert http.request("POST", f"{SYSTEM}/region/r7/unregister").status == 200
    registered(http, "one more", memory)
    assert register(http, "x" * 257, memory).refusal(400).endswith("has 1 to 256 bytes, this one has 257")


# F12: tensors in and out


@pytest.mark.parametrize("datatype", list(SAMPLES))
def test_f12_inputs_and_outputs_at_offsets(http: Rest, rpc: GrpcProtocol, memory: Object, datatype: str) -> None:
    raw, count = pack(datatype, SAMPLES[datatype]), len(SAMPLES[datatype])
    memory.put(raw, 16 + 3)
    registered(http, "r", memory, offset=16, byte_size=240)
    inputs = [x(shared("r", len(raw), 3), datatype, (count,))]
    reply = post(http, f"ident_{datatype}", inputs, [{"name": "y", "parameters": shared("r", len(raw) + 5, 100)}])
    assert reply.status == 200, reply.body
    assert reply.headers["content-type"] == "application/json"
    (output,) = reply.json()["outputs"]
    assert output == {"name": "y", "datatype": datatype, "shape": [count]}, "neither data nor parameters"
    assert memory.get(116, len(raw) + 1) == raw + b"\0"
    request = message(f"ident_{datatype}", inputs, [{"name": "y", "parameters": shared("r", len(raw), 170)}])
    response = rpc.stub.ModelInfer(request)
    assert list(response.raw_output_contents) == [b""], "T2: an empty entry for each output in shared memory"
    assert not response.outputs[0].parameters
    assert list(response.outputs[0].shape) == [count]
    assert memory.get(186, len(raw)) == raw


@pytest.mark.trap("T3")
def test_f12_inputs_with_and_without_raw_entries(http: Rest, rpc: GrpcProtocol, memory: Object) -> None:
    # T3: an entry belongs to the next input outside shared memory, not to the input with its index.
    call = add(2)
    memory.put(call.inputs[0].raw)
    registered(http, "r", memory)
    rows = [2, 4]
    a = {"name": "a", "datatype": "FP32", "shape": rows, "parameters": shared("r", 32)}
    b = {"name": "b", "datatype": "FP32", "shape": rows}
    for inputs in ([a, b], [b, a]):
        response = rpc.send(message("add", inputs, [], [call.inputs[1].raw]))
        assert response.outputs == (summed(2),), response.message
    for extra in ([], [call.inputs[1].raw] * 2):
        assert rpc.send(message("add", [a, b], [], extra)).status == 400
    typed = message("add", [a, b], [])
    typed.inputs[1].contents.fp32_contents.extend(call.inputs[1].values())
    assert rpc.send(typed).outputs == (summed(2),)
    document = {"inputs": [a, {**b, "data": call.inputs[1].values()}]}
    assert decode(infer(http, "add", document)).outputs == (summed(2),)
    binary = {"inputs": [{**b, "parameters": {"binary_data_size": 32}}, a]}
    assert decode(infer(http, "add", binary, call.inputs[1].raw)).outputs == (summed(2),)


@pytest.mark.trap("T2")
def test_f12_outputs_with_and_without_shared_memory(http: Rest, rpc: GrpcProtocol, memory: Object) -> None:
    registered(http, "r", memory)
    plain = tensor("x", "FP32", [1.0, 5.0])
    outputs = [{"name": "o1", "parameters": shared("r", 8)}, {"name": "o2"}]
    inputs = [{"name": "x", "datatype": "FP32", "shape": [2]}]
    response = rpc.stub.ModelInfer(message("two_out", inputs, outputs, [plain.raw]))
    assert list(response.raw_output_contents) == [b"", pack("INT64", [1, 5])]
    assert memory.get(0, 8) == pack("FP32", [2.0, 10.0])
    reply = infer(
        http,
        "two_out",
        {
            "inputs": [{**inputs[0], "data": [2.0, 6.0]}],
            "outputs": outputs,
            "parameters": {"binary_data_output": True},
        },
    )
    first, second = reply.json()["outputs"]
    assert list(first) == ["name", "datatype", "shape"]
    assert second["parameters"] == {"binary_data_size": 16}
    assert reply.tail() == pack("INT64", [2, 6])
    assert memory.get(0, 8) == pack("FP32", [4.0, 12.0])


def test_f12_no_elements(http: Rest, rpc: GrpcProtocol, memory: Object) -> None:
    registered(http, "r", memory)
    inputs = [x(shared("r", 0, 256), shape=(0,))]
    outputs = [{"name": "y", "parameters": shared("r", 0)}]
    assert post(http, "ident_FP32", inputs, outputs).json()["outputs"][0]["shape"] == [0]
    assert rpc.send(message("ident_FP32", inputs, outputs)).status == 200


def test_f12_large_tensors(http: Rest, rpc: GrpcProtocol) -> None:
    size = 4 << 20
    memory = Object(2 * size)
    try:
        raw = os.urandom(size)
        memory.put(raw)
        registered(http, "r", memory, byte_size=2 * size)
        inputs = [x(shared("r", size), "UINT8", (size,))]
        outputs = [{"name": "y", "parameters": shared("r", size, size)}]
        assert post(http, "ident_UINT8", inputs, outputs).status == 200
        assert memory.get(size) == raw
        memory.put(bytes(size), size)
        assert rpc.send(message("ident_UINT8", inputs, outputs)).status == 200
        assert memory.get(size) == raw
    finally:
        os.unlink(memory.path)


# F13: invalid spans and sizes


@pytest.mark.parametrize(
    ("parameters", "status", "part"),
    [
        (shared("none", 8), 404, "shared memory region 'none' is not registered"),
        (shared("r", 8, 57), 400, "8 bytes from byte 57 on are not within the 64 of shared memory region 'r'"),
        (shared("r", 8, 2**63 - 1), 400, "8 bytes from byte 9223372036854775807 on"),
        ({"shared_memory_region": "r"}, 400, "'shared_memory_region' is given without 'shared_memory_byte_size'"),
        ({"shared_memory_byte_size": 8}, 400, "'shared_memory_byte_size' is given without 'shared_memory_region'"),
        ({"shared_memory_offset": 8}, 400, "'shared_memory_offset' is given without 'shared_memory_region'"),
        (shared("r", 8, -1), 400, "parameter 'shared_memory_offset' must be an integer of 0 or more"),
        (shared("r", -8), 400, "parameter 'shared_memory_byte_size' must be an integer of 0 or more"),
        ({**shared("r", 8), "shared_memory_region": 5}, 400, "parameter 'shared_memory_region' must be a string"),
    ],
)
def test_f13_spans_outside_the_region(
    http: Rest, rpc: GrpcProtocol, memory: Object, parameters: dict[str, Any], status: int, part: str
) -> None:
    registered(http, "r", memory, byte_size=64)
    for text in refusal(http, rpc, "ident_FP32", [x(parameters)], [], status):
        assert part in text
        assert "'x'" in text
    input_json = {"name": "x", "datatype": "FP32", "shape": [1], "data": [1.0]}
    outputs = [{"name": "y", "parameters": parameters}]
    assert part in post(http, "ident_FP32", [input_json], outputs).refusal(status)
    response = rpc.send(message("ident_FP32", [input_json], outputs, [bytes(4)]))
    assert (response.status, part in response.message) == (status, True)


@pytest.mark.parametrize("offset", [2**63, 2**64 - 1])
def test_f13_overflowing_offsets(http: Rest, rpc: GrpcProtocol, memory: Object, offset: int) -> None:
    registered(http, "r", memory, offset=8, byte_size=64)
    assert f"from byte {offset} on" in post(http, "ident_FP32", [x(shared("r", 8, offset))], []).refusal(400)
    request = message("ident_FP32", [x(shared("r", 8))], [])
    request.inputs[0].parameters["shared_memory_offset"].uint64_param = offset
    response = rpc.send(request)
    assert (response.status, f"from byte {offset} on" in response.message) == (400, True)


def test_f13_size_that_differs_from_the_shape(http: Rest, rpc: GrpcProtocol, memory: Object) -> None:
    registered(http, "r", memory)
    for text in refusal(http, rpc, "ident_FP32", [x(shared("r", 12))], [], 400):
        assert text.endswith("has 'shared_memory_byte_size' 12, datatype FP32 and shape [2] take 8")


@pytest.mark.trap("T67")
def test_f13_broken_bytes(http: Rest, rpc: GrpcProtocol, memory: Object) -> None:
    memory.put(b"\x09\0\0\0ab")
    registered(http, "r", memory)
    for text in refusal(http, rpc, "echo_s", [x(shared("r", 6), "BYTES", (1,))], [], 400):
        assert text == "input 'x': BYTES element 0 runs past the end of the data"


def test_f13_duplicate_or_missing_input(http: Rest, rpc: GrpcProtocol, memory: Object) -> None:
    registered(http, "r", memory)
    a = {"name": "a", "datatype": "FP32", "shape": [1, 4], "parameters": shared("r", 16)}
    for text in refusal(http, rpc, "add", [a, a], [], 400):
        assert text == "input 'a' is given twice"
    for text in refusal(http, rpc, "add", [a], [], 400):
        assert text == "input 'b' is missing, model 'add' expects 'a', 'b'"
    two = {"name": "b", "datatype": "FP32", "shape": [2, 4], "parameters": shared("r", 32)}
    for text in refusal(http, rpc, "add", [a, two], [], 400):
        assert text == "input 'b' has a batch of 2 rows, the inputs before it have 1"


def test_f13_data_in_addition_to_shared_memory(http: Rest, rpc: GrpcProtocol, memory: Object) -> None:
    registered(http, "r", memory)
    both = {**x(shared("r", 8)), "data": [1.0, 2.0]}
    expected = "input 'x' has 'data' or 'binary_data_size' together with 'shared_memory_region'"
    assert post(http, "ident_FP32", [both], []).refusal(400) == expected
    binary = {"inputs": [x(shared("r", 8, binary_data_size=8))]}
    assert infer(http, "ident_FP32", binary, bytes(8)).refusal(400) == expected
    request = message("ident_FP32", [x(shared("r", 8))], [])
    request.inputs[0].contents.fp32_contents.extend([1.0, 2.0])
    response = rpc.send(request)
    assert (response.status, response.message) == (400, "input 'x' has contents together with 'shared_memory_region'")


@pytest.mark.parametrize(("model", "size"), [("ident_FP32", 7), ("rows", 7)])
def test_f13_output_larger_than_its_region(
    http: Rest, rpc: GrpcProtocol, memory: Object, model: str, size: int
) -> None:
    registered(http, "r", memory)
    shape = [2] if model == "ident_FP32" else [1, 2]
    input_json = {"name": "x", "datatype": "FP32", "shape": shape, "data": [1.0, 2.0]}
    outputs = [{"name": "y", "parameters": shared("r", size)}]
    expected = "output 'y' has 8 bytes, 'shared_memory_byte_size' leaves it 7 of region 'r'"
    assert post(http, model, [input_json], outputs).refusal(400) == expected
    response = rpc.send(message(model, [input_json], outputs, [bytes(8)]))
    assert (response.status, response.message) == (400, expected)
    assert memory.get() == bytes(256), "the region is not written"


def test_f13_output_known_to_be_too_large_is_not_computed(http: Rest, memory: Object) -> None:
    registered(http, "r", memory)
    input_json = {"name": "x", "datatype": "FP32", "shape": [1], "data": [1.0]}
    # The handler of this model would fail if it ran.
    outputs = [{"name": "y", "parameters": shared("r", 7)}]
    expected = "output 'y' has 8 bytes, 'shared_memory_byte_size' leaves it 7 of region 'r'"
    assert post(http, "wrong_shape", [input_json], outputs).refusal(400) == expected


def test_f13_shared_memory_beyond_the_memory_limit() -> None:
    memory = Object(2048)
    config = ServerConfig(http="127.0.0.1:0", grpc=None, shared_memory="local", max_inflight_bytes=1024)
    with Server(*MODELS, config=config) as server:
        http = Rest(server.http_url)
        registered(http, "r", memory, byte_size=2048)
        os.unlink(memory.path)
        text = post(http, "ident_UINT8", [x(shared("r", 1025), "UINT8", (1025,))], []).refusal(413)
        assert text == "the request's shared memory has 1025 bytes, at most 1024 are accepted"
        # Together with the body's bytes, it exceeds the limit.
        text = post(http, "ident_UINT8", [x(shared("r", 1024), "UINT8", (1024,))], []).refusal(429)
        assert text == "the server is at max_inflight_bytes, retry later"
        assert post(http, "ident_UINT8", [x(shared("r", 512), "UINT8", (512,))], []).status == 200


def test_f13_object_truncated_after_registration(http: Rest, rpc: GrpcProtocol, memory: Object) -> None:
    registered(http, "r", memory)
    os.truncate(memory.path, 4)
    part = "the object of shared memory region 'r' is smaller than when it was registered"
    for text in refusal(http, rpc, "ident_FP32", [x(shared("r", 8))], [], 400):
        assert text == f"input 'x': {part}"
    input_json = {"name": "x", "datatype": "FP32", "shape": [2], "data": [1.0, 2.0]}
    outputs = [{"name": "y", "parameters": shared("r", 8)}]
    assert post(http, "ident_FP32", [input_json], outputs).refusal(400) == f"output 'y': {part}"
    assert os.path.getsize(memory.path) == 4, "and the server does not enlarge it"
    assert http.request("GET", "/v2/health/ready").status == 200, "the server is alive"


def test_f13_object_truncated_during_reads_and_writes(http: Rest) -> None:
    # A server that mapped the object would be killed by SIGBUS.
    size = 1 << 20
    memory, done = Object(2 * size), threading.Event()

    def shake() -> None:
        while not done.is_set():
            os.truncate(memory.path, 0)
            os.truncate(memory.path, 2 * size)

    registered(http, "r", memory, byte_size=2 * size)
    shaker = threading.Thread(target=shake)
    shaker.start()
    try:
        outputs = [{"name": "y", "parameters": shared("r", size, size)}]
        replies = [post(http, "ident_UINT8", [x(shared("r", size), "UINT8", (size,))], outputs) for _ in range(40)]
    finally:
        done.set()
        shaker.join()
        os.unlink(memory.path)
    assert {reply.status for reply in replies} <= {200, 400}
    assert http.request("GET", "/v2/health/live").status == 200


# F14: conflicting options


def test_f14_with_classification_or_binary(http: Rest, rpc: GrpcProtocol, memory: Object) -> None:
    registered(http, "r", memory)
    input_json = [{"name": "x", "datatype": "FP32", "shape": [1], "data": [1.0]}]
    expected = "output 'y' has 'classification' together with 'shared_memory_region'"
    outputs = [{"name": "y", "parameters": shared("r", 8, classification=1)}]
    assert post(http, "ident_FP32", input_json, outputs).refusal(400) == expected
    response = rpc.send(message("ident_FP32", input_json, outputs, [bytes(4)]))
    assert (response.status, response.message) == (400, expected)
    outputs = [{"name": "y", "parameters": shared("r", 8, binary_data=True)}]
    expected = "output 'y' has 'binary_data' as true together with 'shared_memory_region'"
    assert post(http, "ident_FP32", input_json, outputs).refusal(400) == expected
    outputs = [{"name": "y", "parameters": shared("r", 8, binary_data=False)}]
    assert post(http, "ident_FP32", input_json, outputs).status == 200


# F15: unregistered while in use


@pytest.mark.parametrize("protocol", ["rest", "grpc"])
def test_f15_unregister_during_a_request(
    http: Rest, rpc: GrpcProtocol, memory: Object, gate: Gate, protocol: str
) -> None:
    memory.put(pack("FP32", [7.0]))
    registered(http, "r", memory)
    inputs = [x(shared("r", 4), shape=(1,))]
    outputs = [{"name": "y", "parameters": shared("r", 4, 64)}]
    statuses: list[int] = []

    def infer_slow() -> None:
        if protocol == "rest":
            statuses.append(post(http, "slow", inputs, outputs).status)
        else:
            statuses.append(rpc.send(message("slow", inputs, outputs)).status)

    request_thread = threading.Thread(target=infer_slow)
    request_thread.start()
    gate.await_entered()
    assert http.request("POST", f"{SYSTEM}/region/r/unregister").status == 200
    assert names(http) == []
    assert "is not registered" in post(http, "ident_FP32", inputs, []).refusal(404)
    gate.opened.set()
    request_thread.join()
    assert statuses == [200]
    assert memory.get(64, 4) == pack("FP32", [7.0]), "the request completes with its region"
    assert gate.seen == [7.0]


# F16: CUDA without a GPU


@pytest.mark.trap("T55")
@pytest.mark.parametrize("server_fixture", ["server", "sharing"])
def test_f16_cuda(server_fixture: str, request: pytest.FixtureRequest) -> None:
    server: Server = request.getfixturevalue(server_fixture)
    http, rpc = Rest(server.http_url), GrpcProtocol("grpc-raw", server.grpc_url, typed=False)
    assert http.request("GET", f"{CUDA}/status").json() == []
    # T55: perf_analyzer unregisters with or without a GPU.
    for path in (f"{CUDA}/unregister", f"{CUDA}/region/r/unregister"):
        assert http.request("POST", path).status == 200
    body = json.dumps({"raw_handle": {"b64": "AA=="}, "device_id": 0, "byte_size": 8}).encode()
    expected = "CUDA shared memory cannot be registered: this server has no GPU support"
    assert http.request("POST", f"{CUDA}/region/r/register", body).refusal(400) == expected
    unknown = "CUDA shared memory region 'r' is not registered"
    assert http.request("GET", f"{CUDA}/region/r/status").refusal(404) == unknown
    assert not rpc.stub.CudaSharedMemoryStatus(pb.CudaSharedMemoryStatusRequest()).regions
    for name in ("", "r"):
        rpc.stub.CudaSharedMemoryUnregister(pb.CudaSharedMemoryUnregisterRequest(name=name))
    register_request = pb.CudaSharedMemoryRegisterRequest(name="r", raw_handle=b"x", byte_size=8)
    got = grpc_error(rpc.stub.CudaSharedMemoryRegister, register_request)
    assert got == (grpc.StatusCode.INVALID_ARGUMENT, expected)
    got = grpc_error(rpc.stub.CudaSharedMemoryStatus, pb.CudaSharedMemoryStatusRequest(name="r"))
    assert got == (grpc.StatusCode.NOT_FOUND, unknown)
    rpc.channel.close()


# T54: off by default, and only for this machine


@pytest.mark.trap("T54")
def test_shared_memory_is_off_by_default(
    rest: Rest, in_process: Transport, grpc_raw: GrpcProtocol, memory: Object
) -> None:
    expected = "system shared memory is off, as the server's setting 'shared_memory' has it"
    for http in (rest, in_process):
        assert register(http, "r", memory).refusal(501) == expected
        assert http.request("GET", f"{SYSTEM}/status").refusal(501) == expected
        assert http.request("POST", f"{SYSTEM}/unregister").refusal(501) == expected
        assert post(http, "ident_FP32", [x(shared("r", 8))], []).refusal(501) == expected
        assert "system_shared_memory" not in http.request("GET", "/v2").json()["extensions"]
    response = grpc_raw.send(message("ident_FP32", [x(shared("r", 8))], []))
    assert (response.status, response.message) == (501, expected)
    stub = grpc_raw.stub
    for call, request in (
        (stub.SystemSharedMemoryStatus, pb.SystemSharedMemoryStatusRequest()),
        (stub.SystemSharedMemoryRegister, pb.SystemSharedMemoryRegisterRequest(name="r", key="k", byte_size=1)),
        (stub.SystemSharedMemoryUnregister, pb.SystemSharedMemoryUnregisterRequest()),
    ):
        assert grpc_error(call, request) == (grpc.StatusCode.UNIMPLEMENTED, expected)
    assert CODES[grpc.StatusCode.UNIMPLEMENTED] == 501


@pytest.mark.trap("T54")
@pytest.mark.parametrize(("setting", "status"), [("local", 501), ("on", 200)])
def test_shared_memory_is_refused_on_nonlocal_addresses(setting: Any, status: int, memory: Object) -> None:
    config = ServerConfig(http="0.0.0.0:0", grpc=None, shared_memory=setting)
    with Server(*MODELS, config=config) as server:
        http = Rest(server.http_url.replace("0.0.0.0", "127.0.0.1"))
        reply = register(http, "r", memory)
        assert reply.status == status
        listed = "system_shared_memory" in http.request("GET", "/v2").json()["extensions"]
        assert listed == (status == 200)
        if status == 501:
            assert "is for loopback addresses and Unix sockets only" in reply.refusal(501)


def test_shared_memory_with_the_testing_client(memory: Object) -> None:
    memory.put(pack("FP32", [1.0, 2.0]))
    with Client(*MODELS, config=ServerConfig(shared_memory="local")) as client:
        body = json.dumps({"key": memory.key, "byte_size": 256})
        assert client.post(f"{SYSTEM}/region/r/register", body).status == 200
        document = {"inputs": [x(shared("r", 8))]}
        response = client.post("/v2/models/ident_FP32/infer", json.dumps(document))
    assert response.json()["outputs"][0]["data"] == [1.0, 2.0]


def test_handler_does_not_see_later_client_writes(http: Rest, memory: Object, gate: Gate) -> None:
    # Inputs are copied: later writes of the client are not part of the request.
    memory.put(pack("FP32", [3.0]))
    registered(http, "r", memory)
    got: list[Any] = []
    request_thread = threading.Thread(
        target=lambda: got.append(post(http, "slow", [x(shared("r", 4), shape=(1,))], []).json())
    )
    request_thread.start()
    gate.await_entered()
    memory.put(pack("FP32", [9.0]))
    gate.opened.set()
    request_thread.join()
    assert got[0]["outputs"][0]["data"] == [3.0]


def test_stream_requests_are_refused_like_unary_requests(rpc: GrpcProtocol) -> None:
    request = message("ident_FP32", [x(shared("nowhere", 8))], [])
    (response,) = rpc.stub.ModelStreamInfer(iter([request]), timeout=20)
    assert response.error_message == "input 'x': shared memory region 'nowhere' is not registered"


def test_requests_without_shared_memory_are_unaffected(rpc: GrpcProtocol) -> None:
    assert rpc.infer(one("ident_FP32")).outputs == (tensor("y", "FP32", [1.0]),)
