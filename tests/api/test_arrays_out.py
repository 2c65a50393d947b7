"""The arrays that a handler returns: an answer is what they held then, whatever the handler does to them later."""

from __future__ import annotations

import json
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from http_by_hand import binary_body, connect, infer, read_answer
from penstock import Model, Server, Tensor, model
from penstock.testing import Client
from waiting import until

LARGE = 4 << 20
"""Elements; sixteen megabytes are more than a socket holds, so most of them wait in the server."""

CALLS: list[int] = []


class Reusing:
    """Every call overwrites what the calls before it have returned."""

    def __init__(self, give: Callable[[Any], Any]) -> None:
        self.buffer = np.zeros(LARGE, np.float32)
        self.give = give

    def __call__(self, x: Any) -> Any:
        CALLS.append(int(x))
        self.buffer[...] = x
        return self.give(self.buffer)


KEPT_DICT: dict[str, Any] = {}


def kept_dict(buffer: Any) -> Any:
    KEPT_DICT["y"] = buffer
    return KEPT_DICT


@pytest.mark.parametrize(
    "give",
    [
        lambda buffer: buffer,
        lambda buffer: buffer[:],
        lambda buffer: buffer.reshape(2, -1).reshape(-1),
        lambda buffer: (buffer,),
        kept_dict,
        lambda buffer: np.frombuffer(buffer, np.float32),
        lambda buffer: np.asarray(memoryview(buffer)),
    ],
    ids=["itself", "slice", "reshaped", "tuple", "kept-dict", "frombuffer", "memoryview"],
)
@pytest.mark.parametrize("protocol", ["binary", "json"])
def test_a_buffer_that_is_reused_does_not_change_an_earlier_answer(give: Callable[[Any], Any], protocol: str) -> None:
    size = LARGE if protocol == "binary" else 1 << 16
    reusing = Reusing(give)
    reusing.buffer = np.zeros(size, np.float32)
    check_an_earlier_answer(reusing, size, protocol)


class Weak:
    """Every call overwrites what the call before it has returned, if a weak reference still leads there."""

    def __init__(self, refer: Callable[[Any], Callable[[], Any]]) -> None:
        self.earlier: Callable[[], Any] = lambda: None
        self.refer = refer

    def __call__(self, x: Any) -> Any:
        CALLS.append(int(x))
        if (earlier := self.earlier()) is not None:
            earlier[...] = x
        fresh = np.full(LARGE, x, np.float32)
        self.earlier = self.refer(fresh)
        return fresh


def proxied(array: Any) -> Callable[[], Any]:
    proxy = weakref.proxy(array)

    def find() -> Any:
        try:
            return proxy[:]
        except ReferenceError:
            return None

    return find


@pytest.mark.parametrize("refer", [weakref.ref, proxied], ids=["reference", "proxy"])
def test_an_array_that_is_weakly_referred_to_does_not_change_an_earlier_answer(
    refer: Callable[[Any], Callable[[], Any]],
) -> None:
    check_an_earlier_answer(Weak(refer), LARGE, "binary")


def check_an_earlier_answer(handler: Callable[[Any], Any], size: int, protocol: str) -> None:
    """Reads an answer only after later calls have been answered."""
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
        # Only now is the first answer read.
        answer = read_answer(early)
        values = answer.array("y").tolist() if protocol == "binary" else answer.json()["outputs"][0]["data"]
        assert len(values) == size
        assert set(values) == {7}


def one(make: Callable[[Any], Any], outputs: list[Tensor]) -> Model[..., Any]:
    return model(make, name="m", inputs=[Tensor("x", np.float32, [-1])], outputs=outputs)


def test_one_array_for_two_outputs() -> None:
    def twice(x: Any) -> Any:
        fresh = x + 1
        return fresh, fresh

    outputs = [Tensor("y", np.float32, [-1]), Tensor("z", np.float32, [-1])]
    x = np.arange(50_000, dtype=np.float32)
    with Client(one(twice, outputs)) as client:
        answered = client.infer("m", {"x": x})
    assert np.array_equal(answered["y"], x + 1)
    assert np.array_equal(answered["z"], x + 1)


def test_two_halves_of_one_array() -> None:
    def halves(x: Any) -> Any:
        fresh = x + 1
        return fresh[: len(x) // 2], fresh[len(x) // 2 :]

    outputs = [Tensor("y", np.float32, [-1]), Tensor("z", np.float32, [-1])]
    x = np.arange(50_000, dtype=np.float32)
    with Client(one(halves, outputs)) as client:
        answered = client.infer("m", {"x": x})
    assert np.array_equal(np.concatenate([answered["y"], answered["z"]]), x + 1)


@pytest.mark.parametrize("count", [0, 1, 16_383, 16_384, 100_000])
def test_every_size_on_both_sides_of_the_border_between_copy_and_borrow(count: int) -> None:
    with Client(one(lambda x: x + 1, [Tensor("y", np.float32, [-1])])) as client:
        x = np.arange(count, dtype=np.float32)
        assert np.array_equal(client.infer("m", {"x": x})["y"], x + 1)


def test_memory_of_answers_is_given_back() -> None:
    def resident_kb() -> int:
        with open("/proc/self/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))

    with Server(one(lambda x: x + 1, [Tensor("y", np.float32, [-1])]), http="127.0.0.1:0", grpc=None) as server:
        x = np.zeros(1 << 20, np.float32)
        for _ in range(5):
            infer(server.http_url, "m", {"x": x})
        before = resident_kb()
        for _ in range(60):
            infer(server.http_url, "m", {"x": x})
        # Each request moves eight megabytes; one copy kept of each would be hundreds.
        assert resident_kb() - before < 64 << 10


def test_outputs_that_are_python_values_take_the_declared_type() -> None:
    outputs = [Tensor("i", np.int8), Tensor("f", np.float16, [2]), Tensor("b", bool, [2]), Tensor("s", str, [2])]
    with Client(one(lambda x: (3, [1, 2.5], [True, False], ["a", b"b"]), outputs)) as client:
        answered = client.infer("m", {"x": np.zeros(1, np.float32)})
    assert {name: (array.dtype.name, array.tolist()) for name, array in answered.items()} == {
        "i": ("int8", 3),
        "f": ("float16", [1.0, 2.5]),
        "b": ("bool", [True, False]),
        "s": ("object", [b"a", b"b"]),
    }
