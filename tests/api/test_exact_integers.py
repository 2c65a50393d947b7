"""Lists for integer tensors: exact elements are accepted, others refused by value and index."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from penstock import (
    Batching,
    Context,
    HandlerError,
    LoadError,
    PenstockError,
    Ragged,
    Server,
    Tensor,
    Warmup,
    model,
)
from penstock._cli.call_arguments import _array
from penstock._spec.elements import WrongElement, exact_array
from penstock.testing import Client

INT64 = "an integer from -9223372036854775808 to 9223372036854775807"
UINT8 = "an integer from 0 to 255"
BOOL = "a bool, 0 or 1"

REFUSED: dict[str, tuple[Any, Any, str]] = {
    "fraction": ([1, 1.5], np.uint8, f"got 1.5 at index 1, expected {UINT8}"),
    "fraction of an array in a list": ([np.array([1.5])], np.uint8, f"got 1.5 at index [0, 0], expected {UINT8}"),
    "fraction of a bare number": (1.5, np.int64, f"got 1.5, expected {INT64}"),
    "too large": ([[0, 300]], np.uint8, f"got 300 at index [0, 1], expected {UINT8}"),
    "too large as a float": ([300.0], np.uint8, f"got 300.0 at index 0, expected {UINT8}"),
    "too small": ([-1], np.uint8, f"got -1 at index 0, expected {UINT8}"),
    "negative for 64 bits": ([-1], np.uint64, "got -1 at index 0, expected an integer from 0 to 18446744073709551615"),
    "beyond 64 bits": ([2**70], np.int64, f"got {2**70} at index 0, expected {INT64}"),
    "rounded by numpy": ([-1, 2**63], np.int64, f"got {2**63} at index 1, expected {INT64}"),
    "nan": ([1.0, float("nan")], np.int64, f"got nan at index 1, expected {INT64}"),
    "infinity": ([float("inf")], np.int64, f"got inf at index 0, expected {INT64}"),
    "decimal": ([Decimal("1.5")], np.int64, f"got Decimal('1.5') at index 0, expected {INT64}"),
    "text": (["1"], np.int64, f"got '1' at index 0, expected {INT64}"),
    "none": ([None], np.bool_, f"got None at index 0, expected {BOOL}"),
    "not a bool": ([True, 2], np.bool_, f"got 2 at index 1, expected {BOOL}"),
}
"""Value, dtype, and the error."""

TAKEN: dict[str, tuple[Any, Any, list[Any]]] = {
    "integers": ([0, 255], np.uint8, [0, 255]),
    "floats without a fraction": ([1.0, -2], np.int8, [1, -2]),
    "large integers among floats": ([2**63 - 1, 1.0], np.int64, [2**63 - 1, 1]),
    "ends of 64 bits": ([2**64 - 1, 0], np.uint64, [2**64 - 1, 0]),
    "arrays": ([np.array([1.0]), np.array([2], np.uint8)], np.int32, [[1], [2]]),
    "decimals": ([Decimal(3)], np.int64, [3]),
    "bools": ([True, False, 1, 0.0], np.bool_, [True, False, True, False]),
    "empty": ([[]], np.uint8, [[]]),
}


@pytest.mark.parametrize(("value", "dtype", "text"), REFUSED.values(), ids=REFUSED)
def test_wrong_elements_are_refused(value: Any, dtype: Any, text: str) -> None:
    with pytest.raises(WrongElement) as raised:
        exact_array(value, np.dtype(dtype))
    assert str(raised.value) == text


@pytest.mark.parametrize(("value", "dtype", "expected"), TAKEN.values(), ids=TAKEN)
def test_exact_elements_are_accepted(value: Any, dtype: Any, expected: list[Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        array = exact_array(value, np.dtype(dtype))
    assert (array.tolist(), array.dtype) == (expected, dtype)


def test_array_of_the_dtype_is_not_copied() -> None:
    array = np.arange(3)
    assert exact_array(array, array.dtype) is array


def returning(make: Callable[[], Any], datatype: Any, **options: Any) -> Any:
    output = Tensor("y", datatype, options.pop("shape", [-1]), **options)
    return model(lambda x: make(), name="m", inputs=[Tensor("x", np.uint8)], outputs=[output])


@pytest.mark.parametrize(
    ("datatype", "shape", "value", "found"),
    [
        (np.uint8, [-1], [1.5], "1.5 at index 0"),
        (np.int64, [-1], [1, 1.5], "1.5 at index 1"),
        (np.uint8, [-1, -1], [[1], [300]], "300 at index [1, 0]"),
        (np.int64, [-1], [float("nan")], "nan at index 0"),
        (np.int64, [], 1.5, "1.5"),
        (np.int32, [], 2**31, "2147483648"),
        (np.bool_, [-1], [2], "2 at index 0"),
        (np.uint8, [-1], np.array([1.0]), "an array of float64"),
        (np.uint8, [], np.float64(1), "an array of float64"),
    ],
)
def test_wrong_output_elements_are_refused(datatype: Any, shape: list[int], value: Any, found: str) -> None:
    served = returning(lambda: value, datatype, shape=shape)
    declared = f"{served.outputs[0].datatype} ({np.dtype(datatype)})"
    with Client(served) as client, pytest.raises(HandlerError) as raised:
        client.infer("m", {"x": 1})
    assert str(raised.value) == f"model 'm' returned {found} for output 'y', declared {declared}"


def test_output_list_may_have_whole_floats() -> None:
    with Client(returning(lambda: [1.0, 2], np.uint8)) as client:
        answered = client.infer("m", {"x": 1})["y"]
    assert (answered.tolist(), answered.dtype) == ([1, 2], np.uint8)


def test_wrong_elements_of_ragged_rows_are_refused() -> None:
    with pytest.raises(WrongElement, match=r"got 1\.5 at index 1, expected an integer from 0 to 255"):
        Ragged.of([[1, 1.5]], np.uint8)
    served = model(
        lambda x: [[1, 1.5]],
        name="m",
        inputs=[Tensor("x", np.uint8)],
        outputs=[Tensor("y", np.uint8, [-1], ragged=True)],
        batching=Batching(),
    )
    with Client(served) as client, pytest.raises(HandlerError) as raised:
        client.infer("m", {"x": [1]})
    assert str(raised.value) == (
        f"model 'm' returned a list for output 'y', whose rows do not fit: got 1.5 at index 1, expected {UINT8}"
    )


def test_wrong_elements_for_peers_are_refused() -> None:
    @model(inputs=[Tensor("x", np.uint8, [-1])], outputs=[Tensor("y", np.uint8, [-1])])
    def inner(x: Any) -> Any:
        return x

    @model
    def outer(value: float, ctx: Context) -> int:
        return int(ctx.models["inner"](x=[value]).sum())

    with Client(inner, outer) as client:
        assert client.infer("outer", {"value": 1.0})["output"] == 1
        with pytest.raises(HandlerError, match="model 'outer' failed: InvalidInput"):
            client.infer("outer", {"value": 1.5})


def test_wrong_elements_of_the_test_client_are_refused() -> None:
    text = f"input 'x' cannot be converted to UINT8: got 300, expected {UINT8}"
    with Client(returning(lambda: [1], np.uint8)) as client, pytest.raises(ValueError, match=text):
        client.infer("m", {"x": 300})


@pytest.mark.parametrize("batching", [None, Batching()])
def test_wrong_elements_of_warmup_samples_are_refused(batching: Batching | None) -> None:
    served = model(
        lambda x: x,
        name="m",
        inputs=[Tensor("x", np.uint8, [1])],
        outputs=[Tensor("y", np.uint8, [1])],
        batching=batching,
        warmup=Warmup([{"x": [300]}]),
    )
    text = f"warm-up sample 0: input 'x' cannot be converted to UINT8: got 300 at index 0, expected {UINT8}"
    with pytest.raises(LoadError, match=text), Server(served, http="127.0.0.1:0", grpc=None):
        pass


def test_wrong_elements_of_penstock_infer_are_refused() -> None:
    document = {"name": "x", "datatype": "UINT8", "shape": [1], "data": [1.5]}
    with pytest.raises(ValueError, match=rf"input 'x' cannot be converted to UINT8: got 1\.5 at index 0, .* {UINT8}"):
        _array(document)
    assert _array({**document, "data": [1.0]}).tolist() == [1]


@pytest.mark.parametrize("element", [1.0, 1.5, 255, 256, -1, True, "1"])
def test_json_requests_have_the_same_rule(element: Any) -> None:
    # Except for a bool, which is a number in Python but not in JSON.
    served = model(lambda x: x, name="m", inputs=[Tensor("x", np.uint8, [1])], outputs=[Tensor("y", np.uint8, [1])])
    tensor = {"name": "x", "datatype": "UINT8", "shape": [1], "data": [element]}
    with Client(served) as client:
        status = client.post("/v2/models/m/infer", json.dumps({"inputs": [tensor]}).encode()).status
        try:
            client.infer("m", {"x": [element]}, binary=False)
            taken = True
        except (PenstockError, ValueError):
            taken = False
    assert taken == (status == 200 or element is True)
