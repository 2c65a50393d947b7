"""msgpack bodies, as the msgpack package and msgpack-numpy write and read them."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import msgpack
import msgpack_numpy
import numpy as np
import pytest

from .conftest import DATATYPES, Infer
from .test_npy import error, sample

MEDIA_TYPE = "application/msgpack"
ALL = pytest.mark.parametrize("media_type", [MEDIA_TYPE, "application/x-msgpack", "application/vnd.msgpack"])


def packed(*inputs: dict[str, Any], **members: Any) -> bytes:
    return bytes(msgpack.packb({"inputs": list(inputs), **members}))


def tensor(datatype: str, array: Any, data: Any, name: str = "x") -> dict[str, Any]:
    return {"name": name, "datatype": datatype, "shape": list(np.shape(array)), "data": data}


def outputs(response: Any) -> dict[str, dict[str, Any]]:
    assert response.status == 200, response.body[:300]
    assert response.headers["content-type"] == MEDIA_TYPE
    return {output["name"]: output for output in msgpack.unpackb(response.body)["outputs"]}


@pytest.mark.parametrize("datatype", DATATYPES)
@pytest.mark.parametrize("form", ["bytes", "flat", "nested", "msgpack-numpy"])
def test_every_datatype_and_form_round_trips(infer: Infer, datatype: str, form: str) -> None:
    array = sample(datatype)
    data: Any = {
        "bytes": array.tobytes(),
        "flat": array.ravel().tolist(),
        "nested": array.tolist(),
        "msgpack-numpy": msgpack_numpy.encode(array),
    }[form]
    result = outputs(infer(f"ident_{datatype}", packed(tensor(datatype, array, data)), MEDIA_TYPE))["y"]
    assert (result["datatype"], result["shape"]) == (datatype, [2, 2, 3])
    assert result["data"] == array.tobytes()


@ALL
def test_every_media_type_is_accepted(infer: Infer, media_type: str) -> None:
    array = np.ones((1, 2, 3), np.float32)
    assert outputs(infer("ident_FP32", packed(tensor("FP32", array, array.tobytes())), media_type))


@pytest.mark.parametrize("order", [">", "<"])
def test_msgpack_numpy_needs_neither_datatype_nor_shape(infer: Infer, order: str) -> None:
    array = sample("FP32").astype(f"{order}f4")
    body = packed({"name": "x", "data": msgpack_numpy.encode(array)})
    assert outputs(infer("ident_FP32", body, MEDIA_TYPE))["y"]["data"] == sample("FP32").tobytes()


def test_float_lists_are_rounded_to_bfloat16_and_fp16(infer: Infer) -> None:
    array = np.linspace(-3, 3, 6).reshape(1, 2, 3)
    for datatype, dtype in (("BF16", ml_dtypes.bfloat16), ("FP16", np.float16)):
        result = outputs(infer(f"ident_{datatype}", packed(tensor(datatype, array, array.tolist())), MEDIA_TYPE))["y"]
        assert result["data"] == array.astype(dtype).tobytes()


@pytest.mark.parametrize("name", ["ident_BYTES", "ident_text"])
def test_strings_round_trip(infer: Infer, name: str) -> None:
    words = [["", "é"], ["a\0", "x" * 300]]
    framed = b"".join(len(w.encode()).to_bytes(4, "little") + w.encode() for row in words for w in row)
    for data in (words, [[word.encode() for word in row] for row in words], framed):
        result = outputs(infer(name, packed(tensor("BYTES", words, data)), MEDIA_TYPE))["y"]
        flat = [word for row in words for word in row]
        assert result["data"] == (flat if name == "ident_text" else [word.encode() for word in flat])


def test_id_outputs_and_parameters_work_as_in_json(infer: Infer) -> None:
    tensor_of_one = tensor("FP32", [1], [4])
    body = packed(
        tensor_of_one, id="é1", parameters={"factor": 0.5, "timeout": 5_000_000}, outputs=[{"name": "y"}], other=[{}]
    )
    response = infer("scaled", body, MEDIA_TYPE)
    document = msgpack.unpackb(response.body)
    assert (document["id"], document["model_name"], document["model_version"]) == ("é1", "scaled", "1")
    assert outputs(response)["y"]["data"] == np.float32(2).tobytes()
    a, n = tensor("FP32", [[1, 2]], [1, 2], "a"), tensor("INT64", [[1]], [1], "n")
    result = outputs(infer("mixed", packed(a, n, outputs=[{"name": "same"}]), MEDIA_TYPE))
    assert {name: output["data"] for name, output in result.items()} == {"same": ["", "é"]}


def test_large_response_is_encoded(infer: Infer) -> None:
    data = np.ones(100_000, np.float32)
    result = outputs(infer("unencodable", packed(tensor("FP32", data, data.tobytes())), MEDIA_TYPE))
    assert result["z"]["data"] == data.tobytes()
    assert result["y"]["data"] == [b"a\0", b"b"]


FLAT = list(range(6))
ONE = [1, 2, 3]


def body_of(data: Any, datatype: str = "FP32", **members: Any) -> bytes:
    return packed({"name": "x", "datatype": datatype, "shape": [1, 2, 3], "data": data, **members})


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"", "request msgpack at byte 0: expected a value"),
        (b"\xc1", "request msgpack at byte 0: expected a whole value of msgpack"),
        (msgpack.packb([1]), "request msgpack at byte 0: expected a map of the request"),
        (msgpack.packb({}), "the request has no 'inputs'"),
        (msgpack.packb({1: 2}), "request msgpack at byte 1: expected a string for a key"),
        (packed() + b"\0", "request msgpack at byte 9: expected nothing after the request's map"),
        (packed(), "input 'x' is missing, model 'ident_FP32' expects 'x'"),
        (msgpack.packb({"inputs": {}}), "request msgpack at byte 8: expected an array for 'inputs'"),
        (packed({"datatype": "FP32"}), "'inputs[0]' has no 'name'"),
        (packed({"name": "z"}), "unexpected input 'z' for model 'ident_FP32', expected 'x'"),
        (packed({"name": "x"}), "input 'x' has no 'data'"),
        (packed({"name": "x", "data": b""}), "input 'x' has no 'datatype'"),
        (packed({"name": "x", "data": b"", "datatype": "FP32"}), "input 'x' has no 'shape'"),
        (body_of(b"", datatype="fp32"), "input 'x': unknown datatype 'fp32', expected one of BOOL, "),
        (body_of(b"", datatype="INT32"), "input 'x' has datatype INT32, model 'ident_FP32' expects FP32"),
        (body_of(b"", shape=[1]), "input 'x' has shape [1], model 'ident_FP32' expects [-1, 2, 3]"),
        (body_of(b"", shape=[-1]), "request msgpack at byte 38: expected non-negative integers in 'shape'"),
        (body_of(b"abc"), "input 'x': got 3 bytes, expected 24 for datatype FP32 and shape [1, 2, 3]"),
        (body_of(None), "'data' of input 'x' is nil, expected bytes, an array, or a map as msgpack-numpy has it"),
        (body_of(FLAT[:5]), "input 'x' has 5 elements in 'data', shape [1, 2, 3] expects 6"),
        (body_of([[ONE, [1, 2]]]), "input 'x' has ragged 'data', it must be flat or nested as its shape [1, 2, 3]"),
        (body_of([[ONE, ONE, ONE]]), "input 'x' has ragged 'data', it must be flat or nested as its shape [1, 2, 3]"),
        (body_of([*FLAT[:5], "a"]), "input 'x' has a string, FP32 takes numbers up to 3.4028235e38"),
        (body_of([*FLAT[:5], 1e39]), "input 'x' has 1000000000000000000000000000000000000000, FP32 takes"),
        (body_of({"type": "<f4"}), "input 'x': a map for 'data' has 'type', 'shape' and 'data', as msgpack-numpy"),
        (body_of({"type": "|O", "shape": [1], "data": b""}), "input 'x': an array of objects is a pickle"),
        (body_of({"type": "<f8", "shape": [1], "data": b""}), "input 'x' has dtype '<f8', expected FP32"),
        (body_of({"type": "<f4", "shape": [1], "data": b""}), "input 'x' has two shapes"),
        (packed(id=5), "request msgpack: expected a string for 'id'"),
        (packed(outputs=[{"name": "q"}]), "unexpected inference output 'q' for model 'ident_FP32', expected 'y'"),
        (packed(parameters={"a": [1]}), "parameter 'a' is an array, expected a boolean, number or string"),
        (packed(parameters={"a": b"1"}), "request msgpack at byte 23: expected a value that JSON has too"),
    ],
)
def test_invalid_bodies_are_rejected(infer: Infer, body: bytes, text: str) -> None:
    assert error(infer("ident_FP32", body, MEDIA_TYPE)).startswith(text)


def test_integers_out_of_range_are_rejected(infer: Infer) -> None:
    message = error(infer("ident_INT8", body_of([*FLAT[:5], 128], "INT8"), MEDIA_TYPE))
    assert message == "input 'x' has 128, INT8 takes integers from -128 to 127"
    message = error(infer("ident_INT8", body_of([*FLAT[:5], 1.5], "INT8"), MEDIA_TYPE))
    assert message == "input 'x' has 1.5, INT8 takes integers from -128 to 127"
    assert infer("ident_INT8", body_of([*FLAT[:5], 1.0], "INT8"), MEDIA_TYPE).status == 200
    assert infer("ident_BOOL", body_of([True, False, 0, 1, True, True], "BOOL"), MEDIA_TYPE).status == 200
    assert "takes true, false, 0 or 1" in error(infer("ident_BOOL", body_of([2] * 6, "BOOL"), MEDIA_TYPE))


def test_nesting_and_declared_sizes_are_bounded(infer: Infer) -> None:
    deep = b"\x81\xa1z" + b"\x91" * 100_000
    assert "at most 64 levels of nesting" in error(infer("ident_FP32", deep, MEDIA_TYPE))
    head = packed({"name": "x", "datatype": "FP32", "shape": [1, 2, 3]})[:-1]
    assert (
        error(infer("ident_FP32", b"\x81\xa6inputs\xdd\xff\xff\xff\xff", MEDIA_TYPE))
        == "the request has more than 1024 inputs"
    )
    claim = head.replace(b"\x83", b"\x84", 1) + b"\x03\xa4data\xdd\xff\xff\xff\xff"
    assert error(infer("ident_FP32", claim, MEDIA_TYPE)).startswith("request msgpack at byte")
