"""Arrow IPC streams, as pyarrow writes and reads them."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from .conftest import DATATYPES, Infer
from .test_npy import error, sample

MEDIA_TYPE = "application/vnd.apache.arrow.stream"


def stream(*batches: pa.RecordBatch, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema, **options) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return bytes(sink.getvalue().to_pybytes())


def column(array: np.ndarray[Any, Any]) -> pa.Array:
    """Rows as fixed-size lists, as deep as the array."""
    result = pa.array(array.ravel())
    for size in array.shape[:0:-1]:
        result = pa.FixedSizeListArray.from_arrays(result, size)
    return result


def batch(**columns: Any) -> pa.RecordBatch:
    return pa.record_batch({name: column(v) if isinstance(v, np.ndarray) else v for name, v in columns.items()})


def table(response: Any) -> pa.Table:
    assert response.status == 200, response.body[:300]
    assert response.headers["content-type"] == MEDIA_TYPE
    result = pa.ipc.open_stream(response.body).read_all()
    result.validate(full=True)
    return result


@pytest.mark.parametrize("datatype", DATATYPES)
def test_every_datatype_round_trips(infer: Infer, datatype: str) -> None:
    array = sample(datatype)
    result = table(infer(f"ident_{datatype}", stream(batch(x=array)), MEDIA_TYPE))
    assert result["y"].to_pylist() == array.tolist()
    assert result["y"].type.value_type.value_type == pa.from_numpy_dtype(array.dtype)


def test_slice_of_a_record_batch_is_read(infer: Infer) -> None:
    array = np.arange(48, dtype=np.float32).reshape(8, 2, 3)
    result = table(infer("ident_FP32", stream(batch(x=array).slice(3, 2)), MEDIA_TYPE))
    assert result["y"].to_pylist() == array[3:5].tolist()
    bits = array % 3 == 0
    result = table(infer("ident_BOOL", stream(batch(x=bits).slice(3, 2)), MEDIA_TYPE))
    assert result["y"].to_pylist() == bits[3:5].tolist()


@pytest.mark.parametrize("arrow_type", [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()])
@pytest.mark.parametrize("name", ["ident_BYTES", "ident_text"])
def test_strings_round_trip(infer: Infer, name: str, arrow_type: Any) -> None:
    words = ["", "é", "a\0", "x" * 300]
    items = [word.encode() for word in words] if "binary" in str(arrow_type) else words
    lists = pa.FixedSizeListArray.from_arrays(pa.array(items, arrow_type), 2)
    result = table(infer(name, stream(batch(x=lists)), MEDIA_TYPE))["y"]
    expected: list[Any] = words if name == "ident_text" else [word.encode() for word in words]
    assert result.to_pylist() == [expected[:2], expected[2:]]


def test_several_columns_and_metadata(infer: Infer) -> None:
    words = pa.FixedSizeListArray.from_arrays(pa.array(["a", "b"]), 2)
    columns = {"words": words, "n": np.array([[1]]), "a": np.array([[1, 2]], np.float32)}
    result = table(infer("mixed", stream(batch(**columns)), MEDIA_TYPE, query="id=7"))
    assert result.to_pydict() == {"sum": [[4.0]], "same": [["a", "b"]]}
    assert result.schema.metadata == {b"model_name": b"mixed", b"model_version": b"1", b"id": b"7"}
    assert table(infer("mixed", stream(batch(**columns)), MEDIA_TYPE, query="output=sum")).column_names == ["sum"]


def test_unbatched_rows_are_the_first_axis(infer: Infer) -> None:
    assert table(infer("scalar", stream(batch(x=pa.array([3], pa.float32()))), MEDIA_TYPE))["y"].to_pylist() == [6]
    assert table(infer("scaled", stream(batch(x=pa.array([3], pa.float32()))), MEDIA_TYPE))["y"].to_pylist() == [3]


def test_empty_record_batch_round_trips(infer: Infer) -> None:
    result = table(infer("ident_FP32", stream(batch(x=np.zeros((0, 2, 3), np.float32))), MEDIA_TYPE))
    assert (result.num_rows, result.column_names) == (0, ["y"])


def floats(values: Any) -> pa.Array:
    return pa.FixedSizeListArray.from_arrays(pa.FixedSizeListArray.from_arrays(pa.array(values, pa.float32()), 3), 2)


GOOD = stream(batch(x=floats([0] * 6)))


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"", "the Arrow IPC stream has no record batch"),
        (b"{}", "the request's body is not a valid Arrow IPC stream"),
        (b"ARROW1\0\0" + GOOD, "the request's body is not a valid Arrow IPC stream"),
        (GOOD[:100], "the request's body is not a valid Arrow IPC stream"),
        (struct.pack("<iI", -1, 1 << 31) + b"x", "the request's body is not a valid Arrow IPC stream"),
        (stream(batch(x=floats([0] * 6)), batch(x=floats([0] * 6))), "the Arrow IPC stream has several record batches"),
        (stream(batch(x=floats([0] * 5 + [None]))), "input 'x' has nulls, expected values only"),
        (stream(batch(z=floats([0] * 6))), "unexpected input 'z' for model 'ident_FP32', expected 'x'"),
        (stream(batch(x=np.zeros((1, 3), np.float32))), "input 'x' has shape [1, 3], model 'ident_FP32' expects"),
        (stream(batch(x=np.zeros((1, 2, 3)))), "input 'x' has datatype FP64, model 'ident_FP32' expects FP32"),
        (stream(batch(x=np.zeros((9, 2, 3), np.float32))), "input 'x' has a batch of 9 rows, model 'ident_FP32'"),
        (stream(batch(x=pa.array([[1.0, 2.0]]))), "input 'x': Arrow type List(Float64) is not read, expected numbers"),
        (stream(batch(x=pa.array([None]))), "input 'x'"),
    ],
)
def test_invalid_streams_are_rejected(infer: Infer, body: bytes, text: str) -> None:
    assert error(infer("ident_FP32", body, MEDIA_TYPE)).startswith(text.split("(", maxsplit=1)[0])


def test_compressed_buffers_are_rejected(infer: Infer) -> None:
    array = np.zeros((8, 2, 3), np.float32)
    body = stream(batch(x=array), options=pa.ipc.IpcWriteOptions(compression="zstd"))
    assert error(infer("ident_FP32", body, MEDIA_TYPE)).startswith("the request's body is not a valid Arrow IPC stream")


def test_unencodable_outputs_are_rejected(infer: Infer) -> None:
    body_of_one = b'{"inputs":[{"name":"x","shape":[1],"datatype":"FP32","data":[1]}]}'
    assert error(infer("unencodable", body_of_one, None, accept=MEDIA_TYPE)) == (
        "output 'y' has 2 rows and output 'z' 1, Arrow has one number for all: accept another format"
    )
    body = b'{"inputs":[{"name":"x","shape":[1,2,3],"datatype":"BF16","data":[1,2,3,4,5,6]}]}'
    assert error(infer("ident_BF16", body, None, accept=MEDIA_TYPE)) == (
        "output 'y' has datatype BF16, which Arrow IPC cannot hold: accept another format"
    )
