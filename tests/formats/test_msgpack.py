"""msgpack bodies, as the msgpack package and msgpack-numpy write and read them."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import msgpack
import msgpack_numpy
import numpy as np
import pytest

from .conftest import DATATYPES, Ask
from .test_npy import error, sample

KIND = "application/msgpack"
ALL = pytest.mark.parametrize("kind", [KIND, "application/x-msgpack", "application/vnd.msgpack"])


def packed(*inputs: dict[str, Any], **members: Any) -> bytes:
    return bytes(msgpack.packb({"inputs": list(inputs), **members}))


def tensor(datatype: str, array: Any, data: Any, name: str = "x") -> dict[str, Any]:
    return {"name": name, "datatype": datatype, "shape": list(np.shape(array)), "data": data}


def outputs(answer: Any) -> dict[str, dict[str, Any]]:
    assert answer.status == 200, answer.body[:300]
    assert answer.headers["content-type"] == KIND
    return {output["name"]: output for output in msgpack.unpackb(answer.body)["outputs"]}


@pytest.mark.parametrize("datatype", DATATYPES)
@pytest.mark.parametrize("form", ["bytes", "flat", "nested", "msgpack-numpy"])
def test_every_datatype_comes_back(ask: Ask, datatype: str, form: str) -> None:
    array = sample(datatype)
    data: Any = {
        "bytes": array.tobytes(),
        "flat": array.ravel().tolist(),
        "nested": array.tolist(),
        "msgpack-numpy": msgpack_numpy.encode(array),
    }[form]
    found = outputs(ask(f"ident_{datatype}", packed(tensor(datatype, array, data)), KIND))["y"]
    assert (found["datatype"], found["shape"]) == (datatype, [2, 2, 3])
    assert found["data"] == array.tobytes()


@ALL
def test_every_name_of_the_type(ask: Ask, kind: str) -> None:
    array = np.ones((1, 2, 3), np.float32)
    assert outputs(ask("ident_FP32", packed(tensor("FP32", array, array.tobytes())), kind))


@pytest.mark.parametrize("order", [">", "<"])
def test_msgpack_numpy_needs_neither_datatype_nor_shape(ask: Ask, order: str) -> None:
    array = sample("FP32").astype(f"{order}f4")
    body = packed({"name": "x", "data": msgpack_numpy.encode(array)})
    assert outputs(ask("ident_FP32", body, KIND))["y"]["data"] == sample("FP32").tobytes()


def test_brain_floats_and_halves_are_rounded(ask: Ask) -> None:
    array = np.linspace(-3, 3, 6).reshape(1, 2, 3)
    for datatype, dtype in (("BF16", ml_dtypes.bfloat16), ("FP16", np.float16)):
        found = outputs(ask(f"ident_{datatype}", packed(tensor(datatype, array, array.tolist())), KIND))["y"]
        assert found["data"] == array.astype(dtype).tobytes()


@pytest.mark.parametrize("name", ["ident_BYTES", "ident_text"])
def test_strings(ask: Ask, name: str) -> None:
    words = [["", "é"], ["a\0", "x" * 300]]
    framed = b"".join(len(w.encode()).to_bytes(4, "little") + w.encode() for row in words for w in row)
    for data in (words, [[word.encode() for word in row] for row in words], framed):
        found = outputs(ask(name, packed(tensor("BYTES", words, data)), KIND))["y"]
        flat = [word for row in words for word in row]
        assert found["data"] == (flat if name == "ident_text" else [word.encode() for word in flat])


def test_id_outputs_and_parameters_are_those_of_json(ask: Ask) -> None:
    one = tensor("FP32", [1], [4])
    body = packed(one, id="é1", parameters={"factor": 0.5, "timeout": 5_000_000}, outputs=[{"name": "y"}], other=[{}])
    answer = ask("told", body, KIND)
    document = msgpack.unpackb(answer.body)
    assert (document["id"], document["model_name"], document["model_version"]) == ("é1", "told", "1")
    assert outputs(answer)["y"]["data"] == np.float32(2).tobytes()
    a, n = tensor("FP32", [[1, 2]], [1, 2], "a"), tensor("INT64", [[1]], [1], "n")
    found = outputs(ask("mixed", packed(a, n, outputs=[{"name": "same"}]), KIND))
    assert {name: output["data"] for name, output in found.items()} == {"same": ["", "é"]}


def test_a_large_answer(ask: Ask) -> None:
    data = np.ones(100_000, np.float32)
    found = outputs(ask("odd", packed(tensor("FP32", data, data.tobytes())), KIND))
    assert found["z"]["data"] == data.tobytes()
    assert found["y"]["data"] == [b"a\0", b"b"]


FLAT = list(range(6))
ONE = [1, 2, 3]


def of_shape(data: Any, datatype: str = "FP32", **members: Any) -> bytes:
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
        (of_shape(b"", datatype="fp32"), "input 'x': unknown datatype 'fp32', expected one of BOOL, "),
        (of_shape(b"", datatype="INT32"), "input 'x' has datatype INT32, model 'ident_FP32' expects FP32"),
        (of_shape(b"", shape=[1]), "input 'x' has shape [1], model 'ident_FP32' expects [-1, 2, 3]"),
        (of_shape(b"", shape=[-1]), "request msgpack at byte 38: expected non-negative integers in 'shape'"),
        (of_shape(b"abc"), "input 'x': got 3 bytes, expected 24 for datatype FP32 and shape [1, 2, 3]"),
        (of_shape(None), "'data' of input 'x' is nil, expected bytes, an array, or a map as msgpack-numpy has it"),
        (of_shape(FLAT[:5]), "input 'x' has 5 elements in 'data', shape [1, 2, 3] expects 6"),
        (of_shape([[ONE, [1, 2]]]), "input 'x' has ragged 'data', it must be flat or nested as its shape [1, 2, 3]"),
        (of_shape([[ONE, ONE, ONE]]), "input 'x' has ragged 'data', it must be flat or nested as its shape [1, 2, 3]"),
        (of_shape([*FLAT[:5], "a"]), "input 'x' has a string, FP32 takes numbers up to 3.4028235e38"),
        (of_shape([*FLAT[:5], 1e39]), "input 'x' has 1000000000000000000000000000000000000000, FP32 takes"),
        (of_shape({"type": "<f4"}), "input 'x': a map for 'data' has 'type', 'shape' and 'data', as msgpack-numpy"),
        (of_shape({"type": "|O", "shape": [1], "data": b""}), "input 'x': an array of objects is a pickle"),
        (of_shape({"type": "<f8", "shape": [1], "data": b""}), "input 'x' has dtype '<f8', expected FP32"),
        (of_shape({"type": "<f4", "shape": [1], "data": b""}), "input 'x' has two shapes"),
        (packed(id=5), "request msgpack: expected a string for 'id'"),
        (packed(outputs=[{"name": "q"}]), "unexpected inference output 'q' for model 'ident_FP32', expected 'y'"),
        (packed(parameters={"a": [1]}), "parameter 'a' is an array, expected a boolean, number or string"),
        (packed(parameters={"a": b"1"}), "request msgpack at byte 23: expected a value that JSON has too"),
    ],
)
def test_refusals(ask: Ask, body: bytes, text: str) -> None:
    assert error(ask("ident_FP32", body, KIND)).startswith(text)


def test_ranges_of_integers(ask: Ask) -> None:
    message = error(ask("ident_INT8", of_shape([*FLAT[:5], 128], "INT8"), KIND))
    assert message == "input 'x' has 128, INT8 takes integers from -128 to 127"
    message = error(ask("ident_INT8", of_shape([*FLAT[:5], 1.5], "INT8"), KIND))
    assert message == "input 'x' has 1.5, INT8 takes integers from -128 to 127"
    assert ask("ident_INT8", of_shape([*FLAT[:5], 1.0], "INT8"), KIND).status == 200
    assert ask("ident_BOOL", of_shape([True, False, 0, 1, True, True], "BOOL"), KIND).status == 200
    assert "takes true, false, 0 or 1" in error(ask("ident_BOOL", of_shape([2] * 6, "BOOL"), KIND))


def test_nesting_and_claims_of_size_are_bounded(ask: Ask) -> None:
    deep = b"\x81\xa1z" + b"\x91" * 100_000
    assert "at most 64 levels of nesting" in error(ask("ident_FP32", deep, KIND))
    head = packed({"name": "x", "datatype": "FP32", "shape": [1, 2, 3]})[:-1]
    assert (
        error(ask("ident_FP32", b"\x81\xa6inputs\xdd\xff\xff\xff\xff", KIND)) == "the request has more than 1024 inputs"
    )
    claim = head.replace(b"\x83", b"\x84", 1) + b"\x03\xa4data\xdd\xff\xff\xff\xff"
    assert error(ask("ident_FP32", claim, KIND)).startswith("request msgpack at byte")
