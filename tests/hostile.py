"""Bodies that could use more memory than their size, for every transport: valid, or invalid only near their end."""

from __future__ import annotations

import gzip
import json
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from io import BytesIO

import numpy as np

SIZE = 60 << 20
"""Bytes of most bodies, a little below the default of `max_body_bytes`."""

INFERENCE = "/inference.GRPCInferenceService/"
EMPTY_GZIP = bytes.fromhex("1f8b080000000000000303000000000000000000")


@dataclass(frozen=True)
class Case:
    """A request, with its path into the server."""

    path: str
    make: Callable[[], bytes | str]
    headers: dict[str, str] = field(default_factory=dict)

    def body(self) -> bytes:
        """The body, built on demand, because all bodies together would be gigabytes."""
        body = self.make()
        return body.encode() if isinstance(body, str) else body

    @property
    def is_grpc(self) -> bool:
        return self.path.startswith(("/inference.", "/grpc."))


# --- gRPC ---------------------------------------------------------------------------------------------


def varint(value: int) -> bytes:
    """A protobuf varint."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def delimited(number: int, payload: bytes) -> bytes:
    """A length-delimited field."""
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def request(model: str, datatype: str, shape: list[int], *, contents: bytes = b"", more: bytes = b"") -> bytes:
    """A ModelInferRequest with one input."""
    dims = b"".join(varint(dim) for dim in shape)
    tensor = delimited(1, b"x") + delimited(2, datatype.encode()) + delimited(3, dims)
    tensor += delimited(5, contents) if contents else b""
    return delimited(1, model.encode()) + delimited(5, tensor) + more


def framed(message: bytes, flag: int = 0) -> bytes:
    """A message after its gRPC prefix."""
    return struct.pack(">BI", flag, len(message)) + message


def parameters(count: int) -> bytes:
    """Entries of a map of parameters, which is field 4 of a request."""
    return b"".join(b"\x22\x0b\x0a\x05%05x\x12\x02\x10\x01" % number for number in range(count))


GRPC: dict[str, Callable[[], bytes]] = {
    "parameters": lambda: request("i64", "INT64", [1], more=parameters(1 << 20) * 4),
    "empty parameters": lambda: request("i64", "INT64", [1], more=b"\x22\x00" * (SIZE // 2)),
    "parameters of an input": lambda: delimited(1, b"i64") + delimited(5, delimited(1, b"x") + parameters(1 << 20) * 4),
    "texts without text": lambda: request("text", "BYTES", [SIZE // 2], contents=b"\x42\x00" * (SIZE // 2)),
    "numbers of one byte": lambda: request("i64", "INT64", [SIZE], contents=delimited(3, bytes(SIZE))),
    "numbers of another type": lambda: request("f32", "FP32", [SIZE], contents=delimited(3, bytes(SIZE))),
    "numbers one by one": lambda: request("i64", "INT64", [SIZE // 2], contents=b"\x18\x00" * (SIZE // 2)),
    "dimensions": lambda: request("i64", "INT64", [1], more=delimited(5, delimited(3, b"\1" * SIZE))),
    "dimensions one by one": lambda: delimited(1, b"i64") + delimited(5, b"\x18\x01" * (SIZE // 2)),
    "names": lambda: delimited(1, b"i64") * (SIZE // 5),
    "unknown fields": lambda: b"\x98\x06\x01" * (SIZE // 3),
    "unknown fields of an input": lambda: delimited(1, b"i64") + delimited(5, b"\x98\x06\x01" * (SIZE // 3)),
    "a raw tensor": lambda: request("u8", "UINT8", [SIZE], more=delimited(7, bytes(SIZE))),
    "raw texts without text": lambda: request("text", "BYTES", [SIZE // 4], more=delimited(7, bytes(SIZE))),
}

CONTROL: dict[str, Callable[[], bytes]] = {
    "RepositoryModelLoad": lambda: delimited(2, b"m") + b"\x1a\x00" * (SIZE // 2),
    "TraceSetting": lambda: b"\x0a\x00" * (SIZE // 2),
    "LogSettings": lambda: b"\x0a\x00" * (SIZE // 2),
    "ModelMetadata": lambda: delimited(1, b"m" * SIZE),
}


def grpc_cases() -> dict[str, Case]:
    """Every message, uncompressed and compressed, unary and on a stream."""
    cases = {}
    for name, make in GRPC.items():
        for call in ("ModelInfer", "ModelStreamInfer"):
            cases[f"{call}, {name}"] = Case(INFERENCE + call, lambda make=make: framed(make()))
    packed = {"grpc-encoding": "gzip"}
    for call in ("ModelInfer", "ModelStreamInfer"):
        for name in ("a raw tensor", "texts without text", "empty parameters"):
            squeeze = lambda make=GRPC[name]: framed(gzip.compress(make(), 1), 1)  # noqa: E731
            cases[f"{call}, compressed, {name}"] = Case(INFERENCE + call, squeeze, packed)
        cases[f"{call}, empty gzip members"] = Case(
            INFERENCE + call, lambda: framed(EMPTY_GZIP * (SIZE // 20), 1), packed
        )
    for call, make in CONTROL.items():
        cases[call] = Case(INFERENCE + call, lambda make=make: framed(make()))
    cases["health"] = Case("/grpc.health.v1.Health/Check", lambda: framed(delimited(1, b"m" * SIZE)))
    return cases


# --- REST ---------------------------------------------------------------------------------------------


def infer_json(datatype: str, count: int, data: str, more: str = "") -> bytes:
    """The JSON of an inference."""
    head = f'{{"inputs":[{{"name":"x","datatype":"{datatype}","shape":[{count}],"data":['
    return f"{head}{data}]}}]{more}}}".encode()


def repeated(item: str, *, size: int = SIZE, last: str | None = None) -> str:
    """Repeated JSON values of about that size."""
    return f"{item}," * (size // (len(item) + 1)) + (last or item)


def count_of(item: str) -> int:
    return SIZE // (len(item) + 1) + 1


def members(size: int = SIZE) -> str:
    """Members of an object with distinct names."""
    return ",".join(f'"{number:06x}":0' for number in range(size // 11))


def infer(model: str) -> str:
    return f"/v2/models/{model}/infer"


BINARY_HEAD = json.dumps(
    {
        "inputs": [
            {
                "name": "x",
                "datatype": "BYTES",
                "shape": [SIZE // 4],
                "parameters": {"binary_data_size": SIZE},
            }
        ]
    }
).encode()
"""The JSON of a binary input whose elements are all empty."""


REST: dict[str, Case] = {
    "FP64 of one digit": Case(infer("f64"), lambda: infer_json("FP64", count_of("0"), repeated("0"))),
    "texts without text": Case(infer("text"), lambda: infer_json("BYTES", count_of('""'), repeated('""'))),
    "lists in lists": Case(infer("i64"), lambda: infer_json("INT64", 1, repeated("[]"))),
    "spaces": Case(infer("i64"), lambda: infer_json("INT64", 1, " " * SIZE + "0")),
    "escapes": Case(infer("text"), lambda: infer_json("BYTES", 1, '"' + "\\u00e9" * (SIZE // 6) + '"')),
    "parameters": Case(infer("i64"), lambda: infer_json("INT64", 1, "0", f',"parameters":{{{members()}}}')),
    "parameters of an open model": Case(
        infer("open"), lambda: infer_json("INT64", 1, "0", f',"parameters":{{{members()}}}')
    ),
    "unknown members": Case(infer("i64"), lambda: infer_json("INT64", 1, "0", "," + members())),
    "inputs": Case(infer("i64"), lambda: f'{{"inputs":[{repeated("{}")}]}}'),
    "outputs": Case(infer("i64"), lambda: infer_json("INT64", 1, "0", ',"outputs":[' + repeated('{"name":"y"}') + "]")),
    "binary texts without text": Case(
        infer("text"),
        lambda: BINARY_HEAD + bytes(SIZE),
        {"Inference-Header-Content-Length": str(len(BINARY_HEAD))},
    ),
    "V1 instances": Case("/v1/models/f64:predict", lambda: f'{{"instances":[[{repeated("0")}]]}}'),
    "V1 many instances": Case("/v1/models/f64:predict", lambda: f'{{"instances":[{repeated("[]")}]}}'),
    "V1 instances of one value": Case("/v1/models/f64:predict", lambda: f'{{"instances":[{repeated("[0]")}]}}'),
    "V1 documents": Case("/v1/models/documents:predict", lambda: f'{{"instances":[{{"values":[{repeated("[]")}]}}]}}'),
    "generate": Case("/v2/models/i64/generate", lambda: f'{{"x":[{repeated("0")}]}}'),
    "generate, a list of texts": Case(
        "/v2/models/writer/generate", lambda: b'{"prompt":"a","stop":[' + repeated('""').encode() + b"]}"
    ),
    "generate, members": Case("/v2/models/i64/generate", lambda: f'{{"x":[0],{members()}}}'),
    "generate, documents": Case(
        "/v2/models/documents/generate", lambda: f'{{"document":{{"values":[{repeated("[]")}]}}}}'
    ),
    "a route": Case("/open", lambda: bytes(SIZE)),
    "a route that reads JSON": Case("/json", lambda: f"[{repeated('[]')}]"),
    "OpenAI, prompts": Case(
        "/v1/completions",
        lambda: f'{{"model":"writer","prompt":[{repeated("[]")}]}}',
        {"content-type": "application/json"},
    ),
    "OpenAI, a prompt": Case(
        "/v1/completions",
        lambda: json.dumps({"model": "writer", "prompt": "a" * SIZE}).encode(),
        {"content-type": "application/json"},
    ),
    "logging": Case("/v2/logging", lambda: f"{{{members()}}}"),
    "trace": Case("/v2/trace/setting", lambda: f"{{{members()}}}"),
    "index": Case("/v2/repository/index", lambda: f"{{{members()}}}"),
    "load": Case("/v2/repository/models/m/load", lambda: f'{{"parameters":{{{members()}}}}}'),
    "register": Case("/v2/systemsharedmemory/region/r/register", lambda: f'{{"key":"/k","byte_size":1,{members()}}}'),
    "CloudEvents": Case(
        infer("i64"),
        lambda: f'{{"specversion":"1.0","id":"1","source":"s","type":"t","data":{{{members()}}}}}',
        {"content-type": "application/cloudevents+json"},
    ),
    "msgpack": Case(
        infer("f64"),
        lambda: b"\x81\xa1x\xdd" + struct.pack(">I", SIZE) + bytes(SIZE),
        {"content-type": "application/msgpack"},
    ),
    "npy": Case(infer("u8"), lambda: npy(SIZE), {"content-type": "application/x-npy"}),
    "arrow": Case(infer("flag"), lambda: arrow(SIZE * 8), {"content-type": "application/vnd.apache.arrow.stream"}),
    "npz": Case(infer("u8"), lambda: npz(SIZE), {"content-type": "application/x-npz"}),
    "safetensors": Case(
        infer("i64"),
        lambda: struct.pack("<Q", len(tensors())) + tensors(),
        {"content-type": "application/vnd.safetensors"},
    ),
}


def npy(size: int) -> bytes:
    """An array of zeros."""
    out = BytesIO()
    np.save(out, np.zeros(size, np.uint8))
    return out.getvalue()


def arrow(size: int) -> bytes:
    """A stream of one column of zeros, which Arrow holds as booleans: a bit for each element."""
    import pyarrow as pa

    table = pa.table({"x": pa.array(np.zeros(size, np.bool_))})
    out = BytesIO()
    with pa.ipc.new_stream(out, table.schema) as stream:
        stream.write_table(table)
    return out.getvalue()


def npz(size: int) -> bytes:
    """A compressed archive of an array of zeros."""
    out = BytesIO()
    np.savez_compressed(out, x=np.zeros(size, np.uint8))
    return out.getvalue()


def tensors() -> bytes:
    """The header of a safetensors file with very many tensors."""
    one = '{"dtype":"U8","shape":[0],"data_offsets":[0,0]}'
    return ("{" + ",".join(f'"{number:x}":{one}' for number in range(SIZE // 55)) + "}").encode()


def coded_cases() -> dict[str, Case]:
    """Compressed bodies that inflate to very much, or to nothing."""
    zstd = bytes.fromhex("28b52ffd0058")
    codings: dict[str, tuple[str, Callable[[], bytes]]] = {
        "zeros": ("gzip", lambda: gzip.compress(bytes(SIZE), 1)),
        "zeros within the ratio": ("gzip", lambda: gzip.compress(binary_noise(), 1)),
        "empty gzip members": ("gzip", lambda: EMPTY_GZIP * (SIZE // 20)),
        "empty stored blocks": ("deflate", lambda: b"\0\0\0\xff\xff" * (SIZE // 5)),
        "empty fixed blocks": ("deflate", empty_fixed_blocks),
        "empty zstd blocks": ("zstd", lambda: zstd + bytes(SIZE)),
        "empty zstd frames": ("zstd", lambda: bytes.fromhex("28b52ffd2000010000") * (SIZE // 9)),
        "skippable zstd frames": ("zstd", lambda: bytes.fromhex("502a4d1800000000") * (SIZE // 8)),
    }
    return {
        f"{coding}, {name}": Case(infer("u8"), make, {"Content-Encoding": coding})
        for name, (coding, make) in codings.items()
    }


def binary_noise() -> bytes:
    """JSON that compresses some fifty times."""
    return infer_json("FP64", count_of("0"), repeated("0", size=SIZE))


def empty_fixed_blocks() -> bytes:
    """Empty deflate blocks of ten bits each: four of them are five bytes."""
    four = sum(0b10 << 10 * block for block in range(4)).to_bytes(5, "little")
    return four * (SIZE // 5)


def every_case() -> dict[str, Case]:
    """All cases by name."""
    cases = {f"gRPC: {name}": case for name, case in grpc_cases().items()}
    cases |= {f"REST: {name}": case for name, case in REST.items()}
    return cases | {f"coded: {name}": case for name, case in coded_cases().items()}
