"""Refused bodies of each array format, with the model and the error text."""

from __future__ import annotations

import io
import json
import struct
from typing import Any

import msgpack
import numpy as np
import pyarrow as pa
from safetensors.numpy import save

Refusal = tuple[str, str, bytes, str]
ONES = np.ones(3, np.float32)


def npy(array: Any, **options: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, array, **options)
    return file.getvalue()


def npz(**arrays: Any) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def packed(**members: Any) -> bytes:
    return bytes(msgpack.packb({"inputs": [{"name": "x", "datatype": "FP32", "shape": [3], **members}]}))


def stream(*batches: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return bytes(sink.getvalue().to_pybytes())


def columns(**arrays: Any) -> pa.RecordBatch:
    return pa.record_batch({name: pa.array(each) for name, each in arrays.items()})


def by_hand(header: Any, data: bytes) -> bytes:
    """Writes a file that the library cannot write."""
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


BATCH = columns(x=ONES)
WRONG_TYPE = "input 'x' has datatype FP64, model 'ident_FP32' expects FP32"
WRONG_SHAPE = "input 'x' has shape [1, 3], model 'ident_FP32' expects [-1]"
UNKNOWN = "unexpected input 'zzz' for model 'ident_FP32', expected 'x'"

REFUSALS: dict[str, list[Refusal]] = {
    "npy": [
        ("another type", "ident_FP32", npy(ONES.astype(np.float64)), WRONG_TYPE),
        ("another rank", "ident_FP32", npy(ONES.reshape(1, 3)), WRONG_SHAPE),
        ("two inputs", "add", npy(ONES), "add"),
        ("a pickle", "ident_BYTES", npy(np.array(["a"], object), allow_pickle=True), "pickle"),
        ("cut short", "ident_FP32", npy(ONES)[:-1], "got 11 bytes, expected 12"),
        ("too long", "ident_FP32", npy(ONES) + b"\0", "got 13 bytes, expected 12"),
        ("not npy", "ident_FP32", b"{}", "npy"),
    ],
    "npz": [
        ("another type", "ident_FP32", npz(x=ONES.astype(np.float64)), WRONG_TYPE),
        ("unknown input", "ident_FP32", npz(zzz=ONES), UNKNOWN),
        ("missing input", "add", npz(a=np.ones((1, 4), np.float32)), "input 'b' is missing"),
        ("cut short", "ident_FP32", npz(x=ONES)[:-30], "npz"),
        ("not npz", "ident_FP32", npy(ONES), "npz"),
    ],
    "msgpack": [
        ("another type", "ident_FP32", packed(datatype="FP64", data=b""), WRONG_TYPE),
        ("another rank", "ident_FP32", packed(shape=[1, 3], data=ONES.tobytes()), WRONG_SHAPE),
        ("unknown input", "ident_FP32", packed(name="zzz", data=b""), UNKNOWN),
        ("too few bytes", "ident_FP32", packed(data=bytes(11)), "got 11 bytes, expected 12"),
        ("too few numbers", "ident_FP32", packed(data=[1, 2]), "has 2 elements in 'data', shape [3] expects 3"),
        ("no data", "ident_FP32", packed(), "input 'x' has no 'data'"),
        ("cut short", "ident_FP32", packed(data=bytes(12))[:-1], "msgpack"),
        ("too long", "ident_FP32", packed(data=bytes(12)) + b"\0", "expected nothing after the request's map"),
    ],
    "arrow": [
        ("another type", "ident_FP32", stream(columns(x=ONES.astype(np.float64))), WRONG_TYPE),
        ("unknown input", "ident_FP32", stream(columns(zzz=ONES)), UNKNOWN),
        ("nulls", "ident_FP32", stream(columns(x=pa.array([1, None], pa.float32()))), "input 'x' has nulls"),
        ("two batches", "ident_FP32", stream(BATCH, BATCH), "several record batches"),
        ("no batch", "ident_FP32", b"", "no record batch"),
        ("cut short", "ident_FP32", stream(BATCH)[:150], "not a valid Arrow IPC stream"),
    ],
    "safetensors": [
        ("another type", "ident_FP32", save({"x": ONES.astype(np.float64)}), WRONG_TYPE),
        ("another rank", "ident_FP32", save({"x": ONES.reshape(1, 3)}), WRONG_SHAPE),
        ("unknown input", "ident_FP32", save({"zzz": ONES}), UNKNOWN),
        ("strings", "ident_BYTES", save({"x": np.ones(3, np.uint8)}), "input 'x'"),
        ("cut short", "ident_FP32", save({"x": ONES})[:-1], "safetensors"),
        (
            "offsets beyond the data",
            "ident_FP32",
            by_hand({"x": {"dtype": "F32", "shape": [3], "data_offsets": [0, 12]}}, bytes(8)),
            "safetensors",
        ),
    ],
}
