"""Shapes against the model's and against the data (cases B17 to B28 and B68)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from .content import Call, add, ident, summed, tensor
from .protocols import BINARY, FRAMED, GRPC, JSON, AnyProtocol, GrpcProtocol, assert_located, on_all, refused, served
from .transports import Transport, infer


def shaped(shape: list[int], **changes: Any) -> Call:
    """`add` with a first input of that shape and as many elements."""
    count = 1
    for size in shape:
        count *= size
    return replace(add(), inputs=(tensor("a", "FP32", [0.0] * count, shape), add().inputs[1]), **changes)


def x(data: object, shape: object = (2,), datatype: str = "FP32", **more: object) -> dict[str, Any]:
    return {"inputs": [{"name": "x", "shape": shape, "datatype": datatype, "data": data, **more}]}


@on_all
def test_b17_size_of_a_fixed_axis(protocol: AnyProtocol) -> None:
    refused(protocol.infer(shaped([1, 5])), 400, "'a'", "[1, 5]", "[-1, 4]")


@on_all
@pytest.mark.parametrize("shape", [[4], [1, 1, 4], [1, 4, 1], []])
def test_b18_rank_mismatch(protocol: AnyProtocol, shape: list[int]) -> None:
    refused(protocol.infer(shaped(shape)), 400, "'a'", str(shape), "[-1, 4]")


@on_all
def test_b19_batch_over_the_maximum(protocol: AnyProtocol) -> None:
    served(protocol.infer(add(rows=8)), summed(rows=8))
    refused(protocol.infer(add(rows=9)), 400, "'a'", "9", "at most 8")


@on_all
def test_b20_different_batch_axes(protocol: AnyProtocol) -> None:
    differing = replace(add(rows=2), inputs=(add(rows=2).inputs[0], add(rows=1).inputs[1]))
    refused(protocol.infer(differing), 400, "'b'", "1", "2")


@pytest.mark.trap("T10")
@on_all
@pytest.mark.parametrize("count", [3, 5, 0, 8])
def test_b21_wrong_element_count(protocol: AnyProtocol, count: int) -> None:
    wrong = replace(add(), inputs=(tensor("a", "FP32", [0.5] * count, [1, 4]), add().inputs[1]))
    refused(protocol.infer(wrong), 400, "'a'", "4" if protocol.name in (*JSON, "grpc-typed") else "16")


@pytest.mark.trap("T51")
@pytest.mark.parametrize(
    "data", [[[0, 1, 2], [3]], [[0, 1, 2, 3], []], [0, [1, 2, 3]], [[0, 1], [2, 3]], [[[0]], [[1]], [[2]], [[3]]]]
)
def test_b22_nesting_that_differs_from_the_shape(http: Transport, data: object) -> None:
    inputs = x(data, [1, 4])["inputs"] + x([0, 0, 0, 0], [1, 4])["inputs"]
    inputs[0]["name"], inputs[1]["name"] = "a", "b"
    assert "'a'" in infer(http, "add", {"inputs": inputs}).refusal(400)


@pytest.mark.trap("T10")
@on_all
@pytest.mark.parametrize("shape", [(-1,), (-(2**63),)])
def test_b23_negative_dimension(protocol: AnyProtocol, shape: tuple[int, ...]) -> None:
    refused(protocol.infer(ident("FP32", [1.0]).with_input(0, shape=shape)), 400, "shape")
    assert_located(protocol.infer(ident("FP32", [1.0]).with_input(0, shape=shape)).message, "x")


@pytest.mark.parametrize("protocol", [*JSON, *BINARY, *GRPC], indirect=True)
@pytest.mark.parametrize("shape", [(2**4, 2**60 + 2), (2**63 - 1, 4), (2**32, 2**32)])
def test_b24_product_overflow(protocol: AnyProtocol, shape: tuple[int, ...]) -> None:
    # The only model with two axes has a fixed row, so the overflow or the shape is refused.
    refused(protocol.infer(add().with_input(0, shape=shape)), 400, "'a'")


@on_all
@pytest.mark.parametrize("size", [2**62, 2**63 - 1])
def test_b24_size_in_bytes_overflows(protocol: AnyProtocol, size: int) -> None:
    response = protocol.infer(ident("FP64", [1.0]).with_input(0, shape=(size,)))
    refused(response, 400, str(size))
    assert_located(response.message, "x")


@pytest.mark.parametrize(
    "shape", ["[18446744073709551616]", "[1e400]", "[1.5]", '["1"]', "[null]", "[[1]]", "1", "null"]
)
def test_b24_invalid_dimension(http: Transport, shape: str) -> None:
    text = f'{{"inputs":[{{"name":"x","shape":{shape},"datatype":"FP32","data":[1]}}]}}'
    assert infer(http, "ident_FP32", text).refusal(400)


@on_all
def test_b25_no_rows(protocol: AnyProtocol) -> None:
    empty = replace(add(), inputs=(tensor("a", "FP32", [], [0, 4]), tensor("b", "FP32", [], [0, 4])))
    served(protocol.infer(empty), tensor("sum", "FP32", [], [0, 4]))


def test_b25_no_rows_in_json(http: Transport) -> None:
    empty = {"shape": [0, 4], "datatype": "FP32", "data": []}
    reply = infer(http, "add", {"inputs": [{"name": "a", **empty}, {"name": "b", **empty}]})
    assert reply.json()["outputs"] == [{"name": "sum", "datatype": "FP32", "shape": [0, 4], "data": []}]


@pytest.mark.trap("T10")
@pytest.mark.parametrize("data", [1, "1", None, True, {}, {"b64": "AA=="}])
def test_b26_non_array_data(http: Transport, data: object) -> None:
    assert "data" in infer(http, "ident_FP32", x(data, [1])).refusal(400)


def test_b27_data_and_binary_data_size(http: Transport) -> None:
    both = x([1], [1], parameters={"binary_data_size": 4})
    message = infer(http, "ident_FP32", both, tail=b"\0\0\0\0").refusal(400)
    assert "'x'" in message
    assert "binary_data_size" in message


def test_b28_no_data_at_all(http: Transport) -> None:
    nothing = {"inputs": [{"name": "x", "shape": [1], "datatype": "FP32"}]}
    message = infer(http, "ident_FP32", nothing).refusal(400)
    assert "'x'" in message
    assert "data" in message


def test_b28_no_contents(grpc_raw: GrpcProtocol) -> None:
    message = grpc_raw.message(ident("FP32", [1.0]))
    message.ClearField("raw_input_contents")
    refused(grpc_raw.send(message), 400, "'x'")


@pytest.mark.trap("T49")
@on_all
def test_b68_scalar(protocol: AnyProtocol) -> None:
    served(protocol.infer(Call("scalar", (tensor("x", "FP32", [2.5], []),))), tensor("y", "FP32", [2.5], []))


@pytest.mark.parametrize("protocol", [*JSON, *FRAMED], indirect=True)
@pytest.mark.parametrize("values", [[], [1.0, 2.0]])
def test_b68_scalar_with_a_wrong_element_count(protocol: AnyProtocol, values: list[float]) -> None:
    refused(protocol.infer(Call("scalar", (tensor("x", "FP32", values, []),))), 400, "'x'")
