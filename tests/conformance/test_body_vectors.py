"""The golden bodies of tests/vectors/formats, sent to a running server and read with the formats' own libraries."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import msgpack
import numpy as np
import pyarrow as pa
import pytest
import safetensors

from .content import frame, pack
from .transports import Reply, Transport

FOLDER = Path(__file__).resolve().parents[1] / "vectors" / "formats"
FORMATS = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.json"))}
CONTENT_TYPES = {
    "npy": "application/x-npy",
    "npz": "application/x-npz",
    "msgpack": "application/msgpack",
    "arrow": "application/vnd.apache.arrow.stream",
    "safetensors": "application/x-safetensors",
}
Tensors = list[tuple[str, list[int], str]]
"""Names, shapes, and bytes in hexadecimal; BYTES are framed."""


def raw(array: np.ndarray[Any, Any]) -> str:
    if array.dtype.kind == "S":
        return b"".join(map(frame, array.ravel().tolist())).hex()
    return array.astype(array.dtype.newbyteorder("<")).tobytes().hex()


def from_npy(body: bytes, expected: Tensors) -> Tensors:
    array = np.load(io.BytesIO(body), allow_pickle=False)
    # The format has no tensor names.
    return [(expected[0][0], list(array.shape), raw(array))]


def from_npz(body: bytes, expected: Tensors) -> Tensors:
    return [(name, list(each.shape), raw(each)) for name, each in np.load(io.BytesIO(body), allow_pickle=False).items()]


def from_msgpack(body: bytes, expected: Tensors) -> Tensors:
    def data(output: dict[str, Any]) -> str:
        found = output["data"]
        return (b"".join(map(frame, found)) if isinstance(found, list) else found).hex()

    return [(each["name"], each["shape"], data(each)) for each in msgpack.unpackb(body)["outputs"]]


def from_arrow(body: bytes, expected: Tensors) -> Tensors:
    table = pa.ipc.open_stream(body).read_all()
    table.validate(full=True)
    shapes = {name: shape for name, shape, _ in expected}
    found = []
    for name in table.column_names:
        (column,) = table[name].chunks or [pa.array([], table[name].type)]
        # Rows are the first axis; a number by itself is one row.
        shape = [len(column)] if shapes[name] else []
        while pa.types.is_fixed_size_list(column.type):
            shape, column = [*shape, column.type.list_size], column.flatten()
        values = column.to_pylist()
        binary = pa.types.is_binary(column.type) or pa.types.is_string(column.type)
        hexadecimal = pack("BYTES", values).hex() if binary else raw(column.to_numpy(zero_copy_only=False))
        found.append((name, shape, hexadecimal))
    return found


def from_safetensors(body: bytes, expected: Tensors) -> Tensors:
    found = {name: (name, each["shape"], bytes(each["data"]).hex()) for name, each in safetensors.deserialize(body)}
    # The format does not keep the order of names.
    assert sorted(found) == sorted(name for name, _, _ in expected)
    return [found[name] for name, _, _ in expected]


READERS: dict[str, Callable[[bytes, Tensors], Tensors]] = {
    "npy": from_npy,
    "npz": from_npz,
    "msgpack": from_msgpack,
    "arrow": from_arrow,
    "safetensors": from_safetensors,
}


def vectors() -> list[Any]:
    return [
        pytest.param(name, vector, id=f"{name}-{'refused-' if 'refusal' in vector else ''}{vector['name']}")
        for name, document in FORMATS.items()
        for vector in document["vectors"]
    ]


def sent(http: Transport, name: str, vector: dict[str, Any]) -> Reply:
    query = f"?{urlencode([*map(tuple, vector['query'])])}" if vector.get("query") else ""
    path = f"/v2/models/{vector['model']}/infer{query}"
    return http.request("POST", path, bytes.fromhex(vector["body"]), {"Content-Type": CONTENT_TYPES[name]})


def test_names_are_unique_and_every_format_has_vectors() -> None:
    assert list(FORMATS) == sorted(CONTENT_TYPES)
    names = [param.id for param in vectors()]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(("name", "vector"), vectors())
def test_body(http: Transport, name: str, vector: dict[str, Any]) -> None:
    reply = sent(http, name, vector)
    if "refusal" in vector:
        message = reply.refusal(vector["refusal"]["status"])
        for part in vector["refusal"]["message"]:
            assert part in message
        return
    assert reply.status == 200, reply.body[:500]
    assert reply.headers["content-type"] == CONTENT_TYPES[name]
    expected = [(each["name"], each["shape"], each["hex"]) for each in vector["answer"]["outputs"]]
    assert READERS[name](reply.body, expected) == expected
    # The library reads the same from its own bytes.
    assert READERS[name](bytes.fromhex(vector["answer"]["body"]), expected) == expected
