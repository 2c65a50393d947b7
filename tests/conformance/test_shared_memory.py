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
    """A server that lets local callers share memory."""
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
    made = Object()
    yield made
    os.unlink(made.path)


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


def fill(given: Any, parameters: dict[str, Any]) -> None:
    """Sets a message's parameters, each in the field of its type."""
    for name, value in parameters.items():
        field = "bool_param" if isinstance(value, bool) else "string_param" if isinstance(value, str) else "int64_param"
        setattr(given[name], field, value)


def message(
    model: str, inputs: list[dict[str, Any]], outputs: list[dict[str, Any]], raw: list[bytes] | None = None
) -> pb.ModelInferRequest:
    """The same request as `post` sends."""
    request = pb.ModelInferRequest(model_name=model, raw_input_contents=raw or [])
    for given in inputs:
        entry = request.inputs.add(name=given["name"], datatype=given["datatype"], shape=given["shape"])
        fill(entry.parameters, given.get("parameters", {}))
    for wanted in outputs:
        fill(request.outputs.add(name=wanted["name"]).parameters, wanted.get("parameters", {}))
    return request


def refusal(http: Rest, rpc: GrpcProtocol, model: str, inputs: list[Any], outputs: list[Any], status: int) -> list[str]:
    """The messages of a request that both protocols refuse."""
    answer = rpc.send(message(model, inputs, outputs))
    assert answer.status == status, answer.message
    return [post(http, model, inputs, outputs).refusal(status), answer.message]


# F11: register, status, unregister


def test_f11_life_of_a_region(http: Rest, memory: Object) -> None:
    assert http.request("GET", f"{SYSTEM}/status").json() == []
    registered(http, "r", memory, offset=8, byte_size=64)
    registered(http, "a b/ü".replace("/", "-"), memory)
    shown = {"name": "r", "key": memory.key, "offset": 8, "byte_size": 64}
    assert http.request("GET", f"{SYSTEM}/region/r/status").json() == [shown]
    assert names(http) == ["a b-ü", "r"]
    assert http.request("POST", f"{SYSTEM}/region/r/unregister").status == 200
    assert names(http) == ["a b-ü"]
    assert http.request("POST", f"{SYSTEM}/region/r/unregister").status == 200, "an unknown one is no error"
    assert http.request("POST", f"{SYSTEM}/unregister").status == 200
    assert names(http) == []


def test_f11_life_of_a_region_over_grpc(rpc: GrpcProtocol, memory: Object) -> None:
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


def test_f11_the_same_name_twice(http: Rest, rpc: GrpcProtocol, memory: Object) -> None:
    registered(http, "r", memory)
    expected = "shared memory region 'r' is registered already, unregister it first"
    assert register(http, "r", memory).refusal(400) == expected
    request = pb.SystemSharedMemoryRegisterRequest(name="r", key=memory.key, byte_size=8)
    found = grpc_error(rpc.stub.SystemSharedMemoryRegister, request)
    assert found == (grpc.StatusCode.ALREADY_EXISTS, expected)


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
def test_f11_registrations_that_cannot_be(
    http: Rest, rpc: GrpcProtocol, memory: Object, fields: dict[str, Any], part: str
) -> None:
    text = register(http, "r", memory, **fields).refusal(400)
    assert part in text
    request = pb.SystemSharedMemoryRegisterRequest(name="r", **{"key": memory.key, "byte_size": 256, **fields})
    assert grpc_error(rpc.stub.SystemSharedMemoryRegister, request) == (grpc.StatusCode.INVALID_ARGUMENT, text)
    assert names(http) == []
    assert "/dev" not in text


@pytest.mark.parametrize("body", [b"", b"[]", b'{"key":"k"}', b'{"byte_size":1}', b'{"key":1,"byte_size":1}', b"\xff"])
def test_f11_registrations_that_are_none(http: Rest, body: bytes) -> None:
    text = http.request("POST", f"{SYSTEM}/region/r/register", body).refusal(400)
    assert "'key', 'byte_size' and perhaps 'offset'" in text


def test_f11_a_folder_or_a_link_is_no_object(http: Rest, memory: Object) -> None:
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


def test_f11_web_pages_register_nothing(http: Rest, memory: Object) -> None:
    body = json.dumps({"key": memory.key, "byte_size": 256}).encode()
    reply = http.request("POST", f"{SYSTEM}/region/r/register", body, {"Origin": "http://127.0.0.1:9"})
    assert "the header 'Origin' is 'http://127.0.0.1:9'" in reply.refusal(403)
    assert names(http) == []


def test_f13_answers_in_other_formats_have_no_place_for_it(http: Rest, memory: Object) -> None:
    registered(http, "r", memory)
    document = {
        "inputs": [x(shared("r", 8))],
        "outputs": [{"name": "y", "parameters": shared("r", 8, 8)}],
    }
    reply = infer(http, "ident_FP32", document, headers={"Accept": "application/x-npy"})
    expected = "output 'y' cannot go to shared memory with a response in this format"
    assert reply.refusal(400) == expected


def test_f11_there_may_be_so_many(http: Rest, memory: Object) -> None:
    for number in range(1024):
        registered(http, f"r{number}", memory)
    assert register(http, "one more", memory).refusal(429) == "1024 shared memory regions are registered, the limit"
    assert http.request("POST", f"{SYSTEM}/region/r7/unregister").status == 200
    registered(http, "one more", memory)
    assert register(http, "x" * 257, memory).refusal(400).endswith("has 1 to 256 bytes, this one has 257")


# F12: tensors in and out


@pytest.mark.parametrize("datatype", list(SAMPLES))
def test_f12_in_and_out_at_offsets(http: Rest, rpc: GrpcProtocol, memory: Object, datatype: str) -> None:
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
    answer = rpc.stub.ModelInfer(request)
    assert list(answer.raw_output_contents) == [b""], "T2: an empty entry for each output in shared memory"
    assert not answer.outputs[0].parameters
    assert list(answer.outputs[0].shape) == [count]
    assert memory.get(186, len(raw)) == raw


@pytest.mark.trap("T3")
def test_f12_some_inputs_have_raw_entries_and_others_have_none(http: Rest, rpc: GrpcProtocol, memory: Object) -> None:
    # T3: the entry belongs to the next input that is not in shared memory, not to the input of its index.
    call = add(2)
    memory.put(call.inputs[0].raw)
    registered(http, "r", memory)
    rows = [2, 4]
    a = {"name": "a", "datatype": "FP32", "shape": rows, "parameters": shared("r", 32)}
    b = {"name": "b", "datatype": "FP32", "shape": rows}
    for inputs in ([a, b], [b, a]):
        answer = rpc.send(message("add", inputs, [], [call.inputs[1].raw]))
        assert answer.outputs == (summed(2),), answer.message
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
def test_f12_outputs_in_memory_beside_others(http: Rest, rpc: GrpcProtocol, memory: Object) -> None:
    registered(http, "r", memory)
    given = tensor("x", "FP32", [1.0, 5.0])
    outputs = [{"name": "o1", "parameters": shared("r", 8)}, {"name": "o2"}]
    inputs = [{"name": "x", "datatype": "FP32", "shape": [2]}]
    answer = rpc.stub.ModelInfer(message("two_out", inputs, outputs, [given.raw]))
    assert list(answer.raw_output_contents) == [b"", pack("INT64", [1, 5])]
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


# F13: what cannot be


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
def test_f13_spans_that_cannot_be(
    http: Rest, rpc: GrpcProtocol, memory: Object, parameters: dict[str, Any], status: int, part: str
) -> None:
    registered(http, "r", memory, byte_size=64)
    for text in refusal(http, rpc, "ident_FP32", [x(parameters)], [], status):
        assert part in text
        assert "'x'" in text
    given = {"name": "x", "datatype": "FP32", "shape": [1], "data": [1.0]}
    outputs = [{"name": "y", "parameters": parameters}]
    assert part in post(http, "ident_FP32", [given], outputs).refusal(status)
    answer = rpc.send(message("ident_FP32", [given], outputs, [bytes(4)]))
    assert (answer.status, part in answer.message) == (status, True)


@pytest.mark.parametrize("offset", [2**63, 2**64 - 1])
def test_f13_offsets_that_overflow(http: Rest, rpc: GrpcProtocol, memory: Object, offset: int) -> None:
    registered(http, "r", memory, offset=8, byte_size=64)
    assert f"from byte {offset} on" in post(http, "ident_FP32", [x(shared("r", 8, offset))], []).refusal(400)
    request = message("ident_FP32", [x(shared("r", 8))], [])
    request.inputs[0].parameters["shared_memory_offset"].uint64_param = offset
    answer = rpc.send(request)
    assert (answer.status, f"from byte {offset} on" in answer.message) == (400, True)


def test_f13_a_size_that_is_not_the_shapes(http: Rest, rpc: GrpcProtocol, memory: Object) -> None:
    registered(http, "r", memory)
    for text in refusal(http, rpc, "ident_FP32", [x(shared("r", 12))], [], 400):
        assert text.endswith("has 'shared_memory_byte_size' 12, datatype FP32 and shape [2] take 8")


@pytest.mark.trap("T67")
def test_f13_broken_bytes(http: Rest, rpc: GrpcProtocol, memory: Object) -> None:
    memory.put(b"\x09\0\0\0ab")
    registered(http, "r", memory)
    for text in refusal(http, rpc, "echo_s", [x(shared("r", 6), "BYTES", (1,))], [], 400):
        assert text == "input 'x': BYTES element 0 runs past the end of the data"


def test_f13_an_input_twice_or_missing(http: Rest, rpc: GrpcProtocol, memory: Object) -> None:
    registered(http, "r", memory)
    a = {"name": "a", "datatype": "FP32", "shape": [1, 4], "parameters": shared("r", 16)}
    for text in refusal(http, rpc, "add", [a, a], [], 400):
        assert text == "input 'a' is given twice"
    for text in refusal(http, rpc, "add", [a], [], 400):
        assert text == "input 'b' is missing, model 'add' expects 'a', 'b'"
    two = {"name": "b", "datatype": "FP32", "shape": [2, 4], "parameters": shared("r", 32)}
    for text in refusal(http, rpc, "add", [a, two], [], 400):
        assert text == "input 'b' has a batch of 2 rows, the inputs before it have 1"


def test_f13_data_beside_shared_memory(http: Rest, rpc: GrpcProtocol, memory: Object) -> None:
    registered(http, "r", memory)
    both = {**x(shared("r", 8)), "data": [1.0, 2.0]}
    expected = "input 'x' has 'data' or 'binary_data_size' together with 'shared_memory_region'"
    assert post(http, "ident_FP32", [both], []).refusal(400) == expected
    binary = {"inputs": [x(shared("r", 8, binary_data_size=8))]}
    assert infer(http, "ident_FP32", binary, bytes(8)).refusal(400) == expected
    request = message("ident_FP32", [x(shared("r", 8))], [])
    request.inputs[0].contents.fp32_contents.extend([1.0, 2.0])
    answer = rpc.send(request)
    assert (answer.status, answer.message) == (400, "input 'x' has contents together with 'shared_memory_region'")


@pytest.mark.parametrize(("model", "size"), [("ident_FP32", 7), ("rows", 7)])
def test_f13_an_output_that_is_too_large(http: Rest, rpc: GrpcProtocol, memory: Object, model: str, size: int) -> None:
    registered(http, "r", memory)
    shape = [2] if model == "ident_FP32" else [1, 2]
    given = {"name": "x", "datatype": "FP32", "shape": shape, "data": [1.0, 2.0]}
    outputs = [{"name": "y", "parameters": shared("r", size)}]
    expected = "output 'y' has 8 bytes, 'shared_memory_byte_size' leaves it 7 of region 'r'"
    assert post(http, model, [given], outputs).refusal(400) == expected
    answer = rpc.send(message(model, [given], outputs, [bytes(8)]))
    assert (answer.status, answer.message) == (400, expected)
    assert memory.get() == bytes(256), "nothing of it is written"


def test_f13_an_output_known_to_be_too_large_is_not_computed(http: Rest, memory: Object) -> None:
    registered(http, "r", memory)
    given = {"name": "x", "datatype": "FP32", "shape": [1], "data": [1.0]}
    # The handler of this model would fail.
    outputs = [{"name": "y", "parameters": shared("r", 7)}]
    expected = "output 'y' has 8 bytes, 'shared_memory_byte_size' leaves it 7 of region 'r'"
    assert post(http, "wrong_shape", [given], outputs).refusal(400) == expected


def test_f13_more_than_may_be_held() -> None:
    memory = Object(2048)
    config = ServerConfig(http="127.0.0.1:0", grpc=None, shared_memory="local", max_inflight_bytes=1024)
    with Server(*MODELS, config=config) as server:
        http = Rest(server.http_url)
        registered(http, "r", memory, byte_size=2048)
        os.unlink(memory.path)
        text = post(http, "ident_UINT8", [x(shared("r", 1025), "UINT8", (1025,))], []).refusal(413)
        assert text == "the request's shared memory has 1025 bytes, at most 1024 are accepted"
        # Together with what its body holds, it is too much for now.
        text = post(http, "ident_UINT8", [x(shared("r", 1024), "UINT8", (1024,))], []).refusal(429)
        assert text == "the server is at max_inflight_bytes, retry later"
        assert post(http, "ident_UINT8", [x(shared("r", 512), "UINT8", (512,))], []).status == 200


def test_f13_an_object_that_shrinks_under_the_server(http: Rest, rpc: GrpcProtocol, memory: Object) -> None:
    registered(http, "r", memory)
    os.truncate(memory.path, 4)
    part = "the object of shared memory region 'r' is smaller than when it was registered"
    for text in refusal(http, rpc, "ident_FP32", [x(shared("r", 8))], [], 400):
        assert text == f"input 'x': {part}"
    given = {"name": "x", "datatype": "FP32", "shape": [2], "data": [1.0, 2.0]}
    outputs = [{"name": "y", "parameters": shared("r", 8)}]
    assert post(http, "ident_FP32", [given], outputs).refusal(400) == f"output 'y': {part}"
    assert os.path.getsize(memory.path) == 4, "and the server does not make it larger"
    assert http.request("GET", "/v2/health/ready").status == 200, "it lives"


def test_f13_an_object_that_shrinks_while_it_is_read_and_written(http: Rest) -> None:
    # A server that mapped it would be killed by SIGBUS.
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


# F14: what does not go together


def test_f14_beside_classification_or_binary(http: Rest, rpc: GrpcProtocol, memory: Object) -> None:
    registered(http, "r", memory)
    given = [{"name": "x", "datatype": "FP32", "shape": [1], "data": [1.0]}]
    expected = "output 'y' has 'classification' together with 'shared_memory_region'"
    outputs = [{"name": "y", "parameters": shared("r", 8, classification=1)}]
    assert post(http, "ident_FP32", given, outputs).refusal(400) == expected
    answer = rpc.send(message("ident_FP32", given, outputs, [bytes(4)]))
    assert (answer.status, answer.message) == (400, expected)
    outputs = [{"name": "y", "parameters": shared("r", 8, binary_data=True)}]
    expected = "output 'y' has 'binary_data' as true together with 'shared_memory_region'"
    assert post(http, "ident_FP32", given, outputs).refusal(400) == expected
    outputs = [{"name": "y", "parameters": shared("r", 8, binary_data=False)}]
    assert post(http, "ident_FP32", given, outputs).status == 200


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

    def ask() -> None:
        if protocol == "rest":
            statuses.append(post(http, "slow", inputs, outputs).status)
        else:
            statuses.append(rpc.send(message("slow", inputs, outputs)).status)

    asking = threading.Thread(target=ask)
    asking.start()
    gate.await_entered()
    assert http.request("POST", f"{SYSTEM}/region/r/unregister").status == 200
    assert names(http) == []
    assert "is not registered" in post(http, "ident_FP32", inputs, []).refusal(404)
    gate.opened.set()
    asking.join()
    assert statuses == [200]
    assert memory.get(64, 4) == pack("FP32", [7.0]), "the request completes with the region that it had"
    assert gate.seen == [7.0]


# F16: CUDA without a GPU


@pytest.mark.trap("T55")
@pytest.mark.parametrize("which", ["server", "sharing"])
def test_f16_cuda(which: str, request: pytest.FixtureRequest) -> None:
    server: Server = request.getfixturevalue(which)
    http, rpc = Rest(server.http_url), GrpcProtocol("grpc-raw", server.grpc_url, typed=False)
    assert http.request("GET", f"{CUDA}/status").json() == []
    # T55: perf_analyzer unregisters whether there is a GPU or not.
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
    found = grpc_error(rpc.stub.CudaSharedMemoryRegister, register_request)
    assert found == (grpc.StatusCode.INVALID_ARGUMENT, expected)
    found = grpc_error(rpc.stub.CudaSharedMemoryStatus, pb.CudaSharedMemoryStatusRequest(name="r"))
    assert found == (grpc.StatusCode.NOT_FOUND, unknown)
    rpc.channel.close()


# T54: off by default, and for this machine only


@pytest.mark.trap("T54")
def test_off_by_default(rest: Rest, in_process: Transport, grpc_raw: GrpcProtocol, memory: Object) -> None:
    expected = "system shared memory is off, as the server's setting 'shared_memory' has it"
    for http in (rest, in_process):
        assert register(http, "r", memory).refusal(501) == expected
        assert http.request("GET", f"{SYSTEM}/status").refusal(501) == expected
        assert http.request("POST", f"{SYSTEM}/unregister").refusal(501) == expected
        assert post(http, "ident_FP32", [x(shared("r", 8))], []).refusal(501) == expected
        assert "system_shared_memory" not in http.request("GET", "/v2").json()["extensions"]
    answer = grpc_raw.send(message("ident_FP32", [x(shared("r", 8))], []))
    assert (answer.status, answer.message) == (501, expected)
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
def test_addresses_that_others_reach(setting: Any, status: int, memory: Object) -> None:
    config = ServerConfig(http="0.0.0.0:0", grpc=None, shared_memory=setting)
    with Server(*MODELS, config=config) as server:
        http = Rest(server.http_url.replace("0.0.0.0", "127.0.0.1"))
        reply = register(http, "r", memory)
        assert reply.status == status
        listed = "system_shared_memory" in http.request("GET", "/v2").json()["extensions"]
        assert listed == (status == 200)
        if status == 501:
            assert "is for loopback addresses and Unix sockets only" in reply.refusal(501)


def test_in_this_process(memory: Object) -> None:
    memory.put(pack("FP32", [1.0, 2.0]))
    with Client(*MODELS, config=ServerConfig(shared_memory="local")) as client:
        body = json.dumps({"key": memory.key, "byte_size": 256})
        assert client.post(f"{SYSTEM}/region/r/register", body).status == 200
        document = {"inputs": [x(shared("r", 8))]}
        answer = client.post("/v2/models/ident_FP32/infer", json.dumps(document))
    assert answer.json()["outputs"][0]["data"] == [1.0, 2.0]


def test_a_handler_cannot_see_the_client_write(http: Rest, memory: Object, gate: Gate) -> None:
    # Inputs are the request's own: what the client writes later is no part of it.
    memory.put(pack("FP32", [3.0]))
    registered(http, "r", memory)
    found: list[Any] = []
    asking = threading.Thread(
        target=lambda: found.append(post(http, "slow", [x(shared("r", 4), shape=(1,))], []).json())
    )
    asking.start()
    gate.await_entered()
    memory.put(pack("FP32", [9.0]))
    gate.opened.set()
    asking.join()
    assert found[0]["outputs"][0]["data"] == [3.0]


def test_a_stream_is_refused_what_a_single_call_is(rpc: GrpcProtocol) -> None:
    request = message("ident_FP32", [x(shared("nowhere", 8))], [])
    (answer,) = rpc.stub.ModelStreamInfer(iter([request]), timeout=20)
    assert answer.error_message == "input 'x': shared memory region 'nowhere' is not registered"


def test_plain_requests_go_on_as_before(rpc: GrpcProtocol) -> None:
    assert rpc.infer(one("ident_FP32")).outputs == (tensor("y", "FP32", [1.0]),)
