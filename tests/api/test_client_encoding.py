"""The test client's encoding, byte by byte, so that it cannot share a mistake with the server."""

from __future__ import annotations

import json
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from penstock import PenstockError, Tensor
from penstock._runtime.rest_encoding import decode, encode
from penstock.testing import Response


def encoded_input(value: Any, declared: Tensor, *, binary: bool = True) -> tuple[dict[str, Any], bytes]:
    body, length = encode({"x": value}, {"x": declared}, binary=binary)
    head = json.loads(body[:length])
    return head["inputs"][0], body[length:] if length else b""


@pytest.mark.parametrize(
    ("value", "datatype", "shape", "raw"),
    [
        ([1, 2], np.int16, [2], b"\x01\x00\x02\x00"),
        (1.5, np.float32, [], b"\x00\x00\xc0\x3f"),
        ([[True], [False]], bool, [2, 1], b"\x01\x00"),
        (["a", b"bc"], bytes, [2], b"\x01\x00\x00\x00a\x02\x00\x00\x00bc"),
        (["a"], str, [1], b"\x01\x00\x00\x00a"),
        ([1.0, -2.0], "BF16", [2], b"\x80\x3f\x00\xc0"),
        (np.array([1], ml_dtypes.bfloat16), "BF16", [1], b"\x80\x3f"),
        (np.array([1], ">i4"), np.int32, [1], b"\x01\x00\x00\x00"),
        (np.zeros((0, 3), np.float32), np.float32, [0, 3], b""),
    ],
)
def test_inputs_are_little_endian_and_row_major(value: Any, datatype: Any, shape: list[int], raw: bytes) -> None:
    head, tail = encoded_input(value, Tensor("x", datatype, [-1] if shape else []))
    assert head == {
        "name": "x",
        "shape": shape,
        "datatype": Tensor("x", datatype).datatype,
        "parameters": {"binary_data_size": len(raw)},
    }
    assert tail == raw


def test_bfloat16_is_rounded_to_nearest_even() -> None:
    values = np.array([1.00390625, 1.01171875, np.inf, -np.inf, np.nan, 3.4e38], np.float32)
    _, tail = encoded_input(values, Tensor("x", "BF16", [-1]))
    expected = values.astype(ml_dtypes.bfloat16).view(np.uint16)
    assert np.frombuffer(tail, np.uint16).tolist() == expected.tolist()


def test_array_with_undeclared_datatype_is_sent_unconverted() -> None:
    assert encoded_input(np.array([1.0]), Tensor("x", np.float32, [1]))[0]["datatype"] == "FP64"


def test_structured_bytes_element_is_encoded_as_json_text() -> None:
    declared = Tensor("x", bytes)
    for value, expected in [({"a": 1}, '{"a": 1}'), ([1], "[1]"), ([], "[]"), ("text", "text")]:
        head, _ = encoded_input(value, declared, binary=False)
        assert (head["shape"], head["data"]) == ([], [expected])


def test_json_encoding_carries_the_same_values() -> None:
    assert encoded_input([1.5, 2], Tensor("x", "BF16", [-1]), binary=False)[0]["data"] == [1.5, 2.0]
    assert encoded_input(np.array([[1, 2]], np.uint8), Tensor("x", np.uint8, [-1, 2]), binary=False)[0] == {
        "name": "x",
        "shape": [1, 2],
        "datatype": "UINT8",
        "data": [1, 2],
    }


def test_request_carries_outputs_parameters_and_id() -> None:
    body, length = encode({}, {}, binary=True, outputs=["y"], parameters={"k": 1}, request_id="r")
    assert length == len(body)
    assert json.loads(body) == {
        "inputs": [],
        "id": "r",
        "outputs": [{"name": "y", "parameters": {"binary_data": True}}],
        "parameters": {"k": 1, "binary_data_output": True},
    }
    body, length = encode({}, {}, binary=False)
    assert (json.loads(body), length) == ({"inputs": []}, None)


def test_unsupported_dtypes_are_rejected_by_name() -> None:
    with pytest.raises(TypeError, match=r"^input 'x' is an array of complex128, which the protocol does not have$"):
        encode({"x": np.array([1j])}, {}, binary=True)


def test_response_outputs_are_decoded_in_order() -> None:
    head = json.dumps(
        {
            "outputs": [
                {"name": "a", "datatype": "INT8", "shape": [2], "parameters": {"binary_data_size": 2}},
                {"name": "b", "datatype": "FP64", "shape": [1, 2], "data": [1.5, 2]},
                {"name": "c", "datatype": "BYTES", "shape": [2], "parameters": {"binary_data_size": 11}},
                {"name": "d", "datatype": "BF16", "shape": [1], "parameters": {"binary_data_size": 2}},
                {"name": "e", "datatype": "FP32", "shape": [0, 4], "parameters": {"binary_data_size": 0}},
            ]
        }
    ).encode()
    tail = b"\xff\x01" + b"\x01\x00\x00\x00a\x02\x00\x00\x00b\x00" + b"\x80\x3f"
    outputs = decode(head + tail, len(head))
    assert {name: (array.dtype, array.shape, array.tolist()) for name, array in outputs.items()} == {
        "a": (np.int8, (2,), [-1, 1]),
        "b": (np.float64, (1, 2), [[1.5, 2.0]]),
        "c": (object, (2,), [b"a", b"b\0"]),
        "d": (np.float32, (1,), [1.0]),
        "e": (np.float32, (0, 4), []),
    }


def test_malformed_responses_are_rejected() -> None:
    head = json.dumps({"outputs": []}).encode()
    with pytest.raises(PenstockError, match=r"^the answer has 1 bytes after its last output$"):
        decode(head + b"x", len(head))
    output = {"name": "c", "datatype": "BYTES", "shape": [1], "parameters": {"binary_data_size": 5}}
    head = json.dumps({"outputs": [output]}).encode()
    with pytest.raises(PenstockError, match=r"^an element of 9 bytes runs past the end of its output$"):
        decode(head + b"\x09\x00\x00\x00a", len(head))


def test_response_parses_its_json_and_error() -> None:
    response = Response(200, {"inference-header-content-length": "2"}, b"{}\x00\x01")
    assert response.json() == {}
    assert Response(400, {}, b'{"error": "no"}').error() == "no"
    assert Response(502, {}, b"gateway").error() == "gateway"
