"""tritonclient with its own shared memory: both protocols, every datatype (cases F12 and G5 in part)."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as tgrpc
import tritonclient.http as thttp

from models.protocol import MODELS
from penstock import Server, ServerConfig

from .content import DTYPES, SAMPLES

if sys.platform != "linux":
    pytest.skip("shared memory objects are files on Linux only", allow_module_level=True)

import tritonclient.utils.shared_memory as shm
from tritonclient.utils import InferenceServerException, serialize_byte_tensor

SIZE = 1024


@pytest.fixture(scope="module", params=[thttp, tgrpc], ids=["http", "grpc"])
def module(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture(scope="module")
def client(module: Any) -> Iterator[Any]:
    config = ServerConfig(http="127.0.0.1:0", grpc="127.0.0.1:0", shared_memory="local")
    with Server(*MODELS, config=config) as server:
        address = server.http_url.removeprefix("http://") if module is thttp else server.grpc_url
        with module.InferenceServerClient(address) as client:
            yield client


@pytest.fixture
def region(client: Any) -> Iterator[Callable[[str], Any]]:
    """Makes and registers regions; all are gone at the end."""
    made = []

    def make(name: str) -> Any:
        key = f"/penstock-client-{os.getpid()}-{name}"
        handle = shm.create_shared_memory_region(name, key, SIZE)
        made.append(handle)
        client.register_system_shared_memory(name, key, SIZE)
        return handle

    yield make
    client.unregister_system_shared_memory()
    for handle in made:
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


def test_cuda_calls_of_a_client_that_cleans_up(client: Any, module: Any) -> None:
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
    # At an odd offset, for elements in shared memory need not be aligned.
    written = np.frombuffer(b"\0" * 3 + stored, np.uint8)
    shm.set_shared_memory_region(handle, [written])
    given = module.InferInput("x", list(sent.shape), datatype)
    given.set_shared_memory("r", size, offset=3)
    wanted = module.InferRequestedOutput("y")
    wanted.set_shared_memory("r", 2 * size, offset=512)
    result = client.infer(f"ident_{datatype}", [given], outputs=[wanted])
    found = shm.get_contents_as_numpy(handle, np.uint8, [size], offset=512)
    assert found.tobytes() == stored
    output = result.get_output("y")
    shape = output["shape"] if module is thttp else list(output.shape)
    assert shape == list(sent.shape)
    assert (output["datatype"] if module is thttp else output.datatype) == datatype


def test_bytes_as_numpy(client: Any, module: Any, region: Callable[[str], Any]) -> None:
    handle, sent = region("r"), array_of("BYTES")
    stored = serialize_byte_tensor(sent)
    size = len(stored.item())
    shm.set_shared_memory_region(handle, [stored])
    given, wanted = module.InferInput("x", [len(sent)], "BYTES"), module.InferRequestedOutput("y")
    given.set_shared_memory("r", size)
    wanted.set_shared_memory("r", 256, offset=512)
    client.infer("echo_s", [given], outputs=[wanted])
    assert shm.get_contents_as_numpy(handle, np.object_, [len(sent)], offset=512).tolist() == sent.tolist()


def test_outputs_in_two_regions_and_in_the_answer(client: Any, module: Any, region: Callable[[str], Any]) -> None:
    first, second = region("first"), region("second")
    shm.set_shared_memory_region(first, [np.array([1.5, 2.0], np.float32)])
    given = module.InferInput("x", [2], "FP32")
    given.set_shared_memory("first", 8)
    o1, o2 = module.InferRequestedOutput("o1"), module.InferRequestedOutput("o2")
    o1.set_shared_memory("second", 8)
    result = client.infer("two_out", [given], outputs=[o1, o2])
    assert shm.get_contents_as_numpy(second, np.float32, [2]).tolist() == [3.0, 4.0]
    assert result.as_numpy("o2").tolist() == [1, 2]
