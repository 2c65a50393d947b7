"""Golden bodies in array formats. Only numpy, msgpack, pyarrow and safetensors write them."""

from __future__ import annotations

import importlib.metadata
import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgpack
import numpy as np
import pyarrow as pa
from safetensors.numpy import save

from conformance.content import DTYPES, SAMPLES, Call, Tensor, add, ident, one, split, summed, tensor
from vectors.encodings import REFUSED, Document, tensor_document
from vectors.refused_bodies import REFUSALS

LIBRARIES = ("numpy", "msgpack", "pyarrow", "safetensors")
ARROW_TYPES = {"BOOL": pa.bool_(), "BYTES": pa.binary()}


def array(x: Tensor, kind: str = "S") -> np.ndarray[Any, Any]:
    """Converts a tensor to numpy; BYTES become strings of the given kind."""
    if x.datatype == "BYTES":
        elements = [each.decode() if kind == "U" else each for each in split(x.raw)]
        return np.array(elements, kind).reshape(x.shape)
    return np.frombuffer(x.raw, DTYPES[x.datatype]).reshape(x.shape)


def npy(tensors: list[Tensor]) -> bytes:
    (only,) = tensors
    return save_npy(array(only))


def save_npy(values: np.ndarray[Any, Any]) -> bytes:
    file = io.BytesIO()
    np.save(file, values, allow_pickle=False)
    return file.getvalue()


def npz(tensors: list[Tensor], kind: str = "S") -> bytes:
    file = io.BytesIO()
    np.savez(file, **{x.name: array(x, kind) for x in tensors})
    return file.getvalue()


def pack_msgpack(tensors: list[Tensor], key: str = "inputs", **members: Any) -> bytes:
    def entry(x: Tensor) -> Document:
        head = {"name": x.name, "datatype": x.datatype, "shape": list(x.shape)}
        return {**head, "data": split(x.raw) if x.datatype == "BYTES" else x.raw}

    return bytes(msgpack.packb({**members, key: [entry(x) for x in tensors]}))


def arrow(tensors: list[Tensor], kinds: Mapping[str, pa.DataType] = ARROW_TYPES) -> bytes:
    def to_column(x: Tensor) -> pa.Array:
        kind = kinds.get(x.datatype) or pa.from_numpy_dtype(DTYPES[x.datatype])
        values = [each.decode() for each in split(x.raw)] if kind == pa.string() else flat(x)
        column = pa.array(values, kind)
        for size in x.shape[:0:-1]:
            column = pa.FixedSizeListArray.from_arrays(column, size)
        return column

    def flat(x: Tensor) -> Any:
        return split(x.raw) if x.datatype == "BYTES" else np.frombuffer(x.raw, DTYPES[x.datatype])

    batch = pa.record_batch({x.name: to_column(x) for x in tensors})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue().to_pybytes())


def safetensors(tensors: list[Tensor], metadata: dict[str, str] | None = None) -> bytes:
    return save({x.name: array(x) for x in tensors}, metadata)


@dataclass(frozen=True)
class Writer:
    """A format: its writers, and the datatypes that it lacks."""

    write: Callable[[list[Tensor]], bytes]
    answer: Callable[[list[Tensor]], bytes]
    without: tuple[str, ...] = ()
    single: bool = False


FORMATS = {
    "npy": Writer(npy, npy, single=True),
    "npz": Writer(npz, npz),
    "msgpack": Writer(pack_msgpack, lambda tensors: pack_msgpack(tensors, "outputs")),
    "arrow": Writer(arrow, arrow, without=("BF16",)),
    "safetensors": Writer(safetensors, safetensors, without=("BYTES",)),
}


def body_files() -> dict[str, str]:
    """Text of each format's file."""
    return {f"formats/{name}.json": file_text(name) for name in FORMATS}


def file_text(name: str) -> str:
    versions = {library: importlib.metadata.version(library) for library in LIBRARIES}
    refused = [
        {"name": note, "model": model, "body": body.hex(), "refusal": {**REFUSED, "message": [message]}}
        for note, model, body, message in REFUSALS[name]
    ]
    lines = ",\n".join(json.dumps(vector, ensure_ascii=True) for vector in [*served(name), *refused])
    return f'{{"format": "{name}", "libraries": {json.dumps(versions)}, "vectors": [\n{lines}\n]}}\n'


def served(name: str) -> list[Document]:
    form = FORMATS[name]
    vectors = []
    for datatype, values in SAMPLES.items():
        if datatype not in form.without:
            vectors.append(vector(form, datatype, ident(datatype), [tensor("y", datatype, values)]))
            vectors.append(vector(form, f"{datatype} empty", ident(datatype, []), [tensor("y", datatype, [])]))
    number = tensor("x", "FP32", [0.5], [])
    vectors.append(vector(form, "a scalar", Call("scalar", (number,)), [replace(number, name="y")]))
    o1, o2 = tensor("o1", "FP32", [3.0, -4.0]), tensor("o2", "INT64", [1, -2])
    two = Call("two_out", (tensor("x", "FP32", [1.5, -2.0]),), id="é 42")
    vectors.append(vector(form, "one output", replace(two, outputs=("o2",)), [o2]))
    with_parameters = one("parameters", parameters={"flag": True, "count": -3, "ratio": 0.25, "text": "ü"})
    vectors.append(vector(form, "parameters", with_parameters, [tensor("y", "FP32", [1.0])]))
    if not form.single:
        vectors.append(vector(form, "two inputs", add(rows=2), [summed(2)]))
        vectors.append(vector(form, "outputs in order", replace(two, outputs=("o2", "o1")), [o2, o1]))
    return vectors + MORE.get(name, list)()


def vector(form: Writer, name: str, call: Call, outputs: list[Tensor], body: bytes | None = None) -> Document:
    """Vector of an accepted body. The query has fields that the format lacks."""
    query: list[tuple[str, str]] = [("output", output) for output in call.outputs or ()]
    if call.id:
        query.append(("id", call.id))
    if call.parameters:
        query.append(("parameters", json.dumps(call.parameters)))
    return {
        "name": name,
        "model": call.model,
        **({"query": query} if query else {}),
        "body": (form.write(list(call.inputs)) if body is None else body).hex(),
        "request": {
            "id": call.id,
            "parameters": call.parameters,
            "inputs": [tensor_document(x) for x in call.inputs],
            "outputs": None if call.outputs is None else list(call.outputs),
        },
        "answer": {"outputs": [tensor_document(x) for x in outputs], "body": form.answer(outputs).hex()},
    }


def more_npy() -> list[Document]:
    form, x = FORMATS["npy"], tensor("x", "FP32", [0, 1, 2, 3, 4, 5], [2, 3])
    call, y = Call("rows", (x,)), replace(x, name="y")
    words = ident("BYTES", ["abc", "é"])
    return [
        vector(form, "columns first", call, [y], save_npy(np.asfortranarray(array(x)))),
        vector(form, "big-endian", call, [y], save_npy(array(x).astype(">f4"))),
        vector(form, "text", words, [replace(words.inputs[0], name="y")], save_npy(array(words.inputs[0], "U"))),
    ]


def more_npz() -> list[Document]:
    words = ident("BYTES", ["abc", "é"])
    return [vector(FORMATS["npz"], "text", words, [replace(words.inputs[0], name="y")], npz([*words.inputs], "U"))]


def more_msgpack() -> list[Document]:
    form, call = FORMATS["msgpack"], ident("INT32")
    (x,) = call.inputs
    nested = add(rows=2)
    lists = {"inputs": [{**head(each), "data": array(each).tolist()} for each in nested.inputs]}
    both = Call("two_out", (tensor("x", "FP32", [1.5]),), id="7", outputs=("o1",))
    inside = pack_msgpack([*both.inputs], id="7", outputs=[{"name": "o1"}])
    return [
        vector(form, "flat numbers", call, [replace(x, name="y")], packed_list([{**head(x), "data": x.values()}])),
        vector(form, "nested numbers", nested, [summed(2)], bytes(msgpack.packb(lists))),
        vector(form, "id and outputs in the map", both, [tensor("o1", "FP32", [3.0])], inside) | {"query": []},
    ]


def head(x: Tensor) -> Document:
    return {"name": x.name, "datatype": x.datatype, "shape": list(x.shape)}


def packed_list(inputs: list[Document]) -> bytes:
    return bytes(msgpack.packb({"inputs": inputs}))


def more_arrow() -> list[Document]:
    form, words = FORMATS["arrow"], ident("BYTES", ["abc", "", "é"])
    outputs = [replace(words.inputs[0], name="y")]
    return [
        vector(form, str(kind), words, outputs, arrow([*words.inputs], {"BYTES": kind}))
        for kind in (pa.string(), pa.large_binary())
    ]


def more_safetensors() -> list[Document]:
    call = ident("FP32")
    body = safetensors([*call.inputs], {"made_by": "a test"})
    return [vector(FORMATS["safetensors"], "metadata", call, [replace(call.inputs[0], name="y")], body)]


MORE: dict[str, Callable[[], list[Document]]] = {
    "npy": more_npy,
    "npz": more_npz,
    "msgpack": more_msgpack,
    "arrow": more_arrow,
    "safetensors": more_safetensors,
}
