"""Arrays that a handler returns: later writes to them do not change a response."""

from __future__ import annotations

import json
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from http_by_hand import binary_body, connect, infer, read_response
from penstock import Model, Server, Tensor, model
from penstock.testing import Client
from waiting import until

LARGE = 4 << 20
"""Elements; 16 MiB exceed a socket's buffer, so most of a response waits in the server."""

CALLS: list[int] = []


class Reusing:
    """Handler whose calls overwrite the array that earlier calls returned."""

    def __init__(self, expose: Callable[[Any], Any]) -> None:
        self.buffer = np.zeros(LARGE, np.float32)
        self.expose = expose

    def __call__(self, x: Any) -> Any:
        CALLS.append(int(x))
        self.buffer[...] = x
        return self.expose(self.buffer)


RETAINED_DICT: dict[str, Any] = {}


def retained_dict(buffer: Any) -> Any:
    RETAINED_DICT["y"] = buffer
    return RETAINED_DICT


@pytest.mark.parametrize(
    "expose",
    [
        lambda buffer: buffer,
        lambda buffer: buffer[:],
        lambda buffer: buffer.reshape(2, -1).reshape(-1),
        lambda buffer: (buffer,),
        retained_dict,
        lambda buffer: np.frombuffer(buffer, np.float32),
        lambda buffer: np.asarray(memoryview(buffer)),
    ],
    ids=["itself", "slice", "reshaped", "tuple", "retained-dict", "frombuffer", "memoryview"],
)
@pytest.mark.parametrize("protocol", ["binary", "json"])
def test_reused_buffer_does_not_change_an_earlier_response(expose: Callable[[Any], Any], protocol: str) -> None:
    size = LARGE if protocol == "binary" else 1 << 16
    reusing = Reusing(expose)
    reusing.buffer = np.zeros(size, np.float32)
    check_earlier_response(reusing, size, protocol)


class Weak:
    """Handler whose calls overwrite the previous array, if a weak reference still reaches it."""

    def __init__(self, make_reference: Callable[[Any], Callable[[], Any]]) -> None:
        self.earlier: Callable[[], Any] = lambda: None
        self.make_reference = make_reference

    def __call__(self, x: Any) -> Any:
        CALLS.append(int(x))
        if (earlier := self.earlier()) is not None:
            earlier[...] = x
        fresh = np.full(LARGE, x, np.float32)
        self.earlier = self.make_reference(fresh)
        return fresh


def proxied(array: Any) -> Callable[[], Any]:
    proxy = weakref.proxy(array)

    def resolve() -> Any:
        try:
            return proxy[:]
        except ReferenceError:
            return None

    return resolve


@pytest.mark.parametrize("make_reference", [weakref.ref, proxied], ids=["reference", "proxy"])
def test_weakly_referenced_array_does_not_change_an_earlier_response(
    make_reference: Callable[[Any], Callable[[], Any]],
) -> None:
    check_earlier_response(Weak(make_reference), LARGE, "binary")


def check_earlier_response(handler: Callable[[Any], Any], size: int, protocol: str) -> None:
    """Reads the first response only after later calls have completed."""
    CALLS.clear()
    served = model(
        handler.__call__,
        name="m",
        inputs=[Tensor("x", np.float32)],
        outputs=[Tensor("y", np.float32, [size])],
    )
    with Server(served, http="127.0.0.1:0", grpc=None) as server, connect(server.http_url) as early:
        body, headers = binary_body({"x": np.float32(7)[...]})
        if protocol == "json":
            described = {"name": "x", "shape": [], "datatype": "FP32", "data": [7]}
            body, headers = json.dumps({"inputs": [described]}).encode(), {}
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        head = f"POST /v2/models/m/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n{lines}\r\n"
        early.sendall(head.encode() + body)
        until(lambda: CALLS == [7], "the first call")
        for value in range(8, 11):
            assert set(infer(server.http_url, "m", {"x": np.array(value, np.float32)}).array("y").tolist()) == {value}
        # The first response is read last.
        response = read_response(early)
        values = response.array("y").tolist() if protocol == "binary" else response.json()["outputs"][0]["data"]
        assert len(values) == size
        assert set(values) == {7}


def model_of(make: Callable[[Any], Any], outputs: list[Tensor]) -> Model[..., Any]:
    return model(make, name="m", inputs=[Tensor("x", np.float32, [-1])], outputs=outputs)


def test_one_array_serves_two_outputs() -> None:
    def twice(x: Any) -> Any:
        fresh = x + 1
        return fresh, fresh

    outputs = [Tensor("y", np.float32, [-1]), Tensor("z", np.float32, [-1])]
    x = np.arange(50_000, dtype=np.float32)
    with Client(model_of(twice, outputs)) as client:
        outputs_by_name = client.infer("m", {"x": x})
    assert np.array_equal(outputs_by_name["y"], x + 1)
    assert np.array_equal(outputs_by_name["z"], x + 1)


def test_two_halves_of_one_array_serve_two_outputs() -> None:
    def halves(x: Any) -> Any:
        fresh = x + 1
        return fresh[: len(x) // 2], fresh[len(x) // 2 :]

    outputs = [Tensor("y", np.float32, [-1]), Tensor("z", np.float32, [-1])]
    x = np.arange(50_000, dtype=np.float32)
    with Client(model_of(halves, outputs)) as client:
        outputs_by_name = client.infer("m", {"x": x})
    assert np.array_equal(np.concatenate([outputs_by_name["y"], outputs_by_name["z"]]), x + 1)


@pytest.mark.parametrize("count", [0, 1, 16_383, 16_384, 100_000])
def test_outputs_around_the_copy_threshold_are_correct(count: int) -> None:
    with Client(model_of(lambda x: x + 1, [Tensor("y", np.float32, [-1])])) as client:
        x = np.arange(count, dtype=np.float32)
        assert np.array_equal(client.infer("m", {"x": x})["y"], x + 1)


def test_response_memory_is_released() -> None:
    def resident_kb() -> int:
        with open("/proc/self/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))

    with Server(model_of(lambda x: x + 1, [Tensor("y", np.float32, [-1])]), http="127.0.0.1:0", grpc=None) as server:
        x = np.zeros(1 << 20, np.float32)
        for _ in range(5):
            infer(server.http_url, "m", {"x": x})
        before = resident_kb()
        for _ in range(60):
            infer(server.http_url, "m", {"x": x})
        # Each request moves eight megabytes; retaining one copy of each would take hundreds.
        assert resident_kb() - before < 64 << 10


def test_python_values_are_converted_to_the_declared_datatype() -> None:
    outputs = [Tensor("i", np.int8), Tensor("f", np.float16, [2]), Tensor("b", bool, [2]), Tensor("s", str, [2])]
    with Client(model_of(lambda x: (3, [1, 2.5], [True, False], ["a", b"b"]), outputs)) as client:
        outputs_by_name = client.infer("m", {"x": np.zeros(1, np.float32)})
    assert {name: (array.dtype.name, array.tolist()) for name, array in outputs_by_name.items()} == {
        "i": ("int8", 3),
        "f": ("float16", [1.0, 2.5]),
        "b": ("bool", [True, False]),
        "s": ("object", [b"a", b"b"]),
    }
