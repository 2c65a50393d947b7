"""BYTES encoding, parameters, datatypes: rows S50 to S53."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from penstock.compat.kserve.errors import InferenceError, InvalidInput
from penstock.compat.kserve.protocol.grpc.grpc_predict_v2_pb2 import InferParameter, InferTensorContents
from penstock.compat.kserve.protocol.infer_type import (
    deserialize_bytes_tensor,
    get_content,
    serialize_byte_tensor,
    to_grpc_parameters,
    to_http_parameters,
)
from penstock.compat.kserve.utils.numpy_codec import from_np_dtype, to_np_dtype


@pytest.mark.parametrize(
    "array",
    [
        np.array([[b"a"], [b"12"]], dtype=object),
        np.array(["a", 12], dtype=object),
        np.array([b"a", b"12"]),
        np.array(["a", "12"]),
    ],
)
def test_s51_elements_are_length_prefixed(array: Any) -> None:
    encoded = serialize_byte_tensor(array)
    assert (encoded.shape, encoded.dtype) == ((), np.dtype(object))
    assert encoded.item() == b"\1\0\0\0a\2\0\0\00012"


def test_s51_empty_arrays_are_serialized_and_numbers_rejected() -> None:
    assert serialize_byte_tensor(np.zeros(0)).shape == (0,)
    with pytest.raises(InferenceError, match=r"^cannot serialize bytes tensor: invalid datatype$"):
        serialize_byte_tensor(np.zeros(1))


def test_s50_elements_are_deserialized() -> None:
    decoded = deserialize_bytes_tensor(b"\1\0\0\0a\0\0\0\0\2\0\0\00012")
    assert (decoded.tolist(), decoded.shape, decoded.dtype) == ([b"a", b"", b"12"], (3,), np.dtype(object))
    assert deserialize_bytes_tensor(b"").tolist() == []


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\1\0\0\0a\1\0", "a BYTES tensor of 7 bytes ends within the length of element 1"),
        (b"\5\0\0\0a", "element 0 of a BYTES tensor has 5 bytes, 4 more than there are"),
    ],
)
def test_s50_truncated_elements_are_a_client_error(data: bytes, text: str) -> None:
    with pytest.raises(InvalidInput, match=f"^{text}$"):
        deserialize_bytes_tensor(data)


def test_s52_parameters_convert_to_grpc_messages() -> None:
    message = InferParameter(string_param="text")
    messages = to_grpc_parameters({"a": "x", "b": True, "c": 3, "d": message})
    assert messages == {
        "a": InferParameter(string_param="x"),
        "b": InferParameter(bool_param=True),
        "c": InferParameter(int64_param=3),
        "d": message,
    }
    assert messages["d"] is message


@pytest.mark.parametrize("value", [1.5, None, np.int64(1), [1]])
def test_s52_parameters_without_grpc_type_are_rejected(value: Any) -> None:
    with pytest.raises(InvalidInput) as caught:
        to_grpc_parameters({"a": value})
    assert str(caught.value) == f"to_grpc: invalid parameter value: {value}"


def test_s53_grpc_messages_convert_to_parameters() -> None:
    messages = {
        "a": InferParameter(bool_param=False),
        "b": InferParameter(int64_param=0),
        "c": InferParameter(string_param=""),
        "unset": InferParameter(),
        "plain": 1.5,
        "none": None,
    }
    assert to_http_parameters(messages) == {"a": False, "b": 0, "c": "", "plain": 1.5, "none": None}


def test_get_content_reads_the_field_of_the_datatype() -> None:
    contents = InferTensorContents(
        bool_contents=[True],
        int_contents=[-1],
        int64_contents=[2],
        uint_contents=[3],
        uint64_contents=[4],
        fp32_contents=[0.5],
        fp64_contents=[1.1],
        bytes_contents=[b"a"],
    )
    expected = {"BOOL": [True], "INT64": [2], "UINT64": [4], "FP16": [], "FP32": [0.5], "FP64": [1.1], "BYTES": [b"a"]}
    expected |= {name: [-1] for name in ("INT8", "INT16", "INT32")}
    expected |= {name: [3] for name in ("UINT8", "UINT16", "UINT32")}
    assert {name: get_content(name, contents) for name in expected} == expected
    with pytest.raises(InvalidInput, match=r"^invalid content type$"):
        get_content("BF16", contents)


def test_datatypes_map_to_numpy_dtypes_and_back() -> None:
    names = ["BOOL", "INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64", "FP16", "FP32", "FP64"]
    for name in [*names, "BYTES"]:
        kind = to_np_dtype(name)
        assert kind is not None
        assert from_np_dtype(np.dtype(kind)) == from_np_dtype(kind) == name
    assert [to_np_dtype(name) for name in ("BF16", "fp32", "")] == [None] * 3
    assert [from_np_dtype(np.dtype(kind)) for kind in ("S3", "U3", "M8[s]", "m8[s]")] == ["BYTES"] * 3 + [None]
    assert from_np_dtype(np.dtype(">f4")) == "FP32"
    assert from_np_dtype(np.dtype(complex)) is None
