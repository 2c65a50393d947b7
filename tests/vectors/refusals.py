"""Vectors of refused requests."""

from __future__ import annotations

import json
from typing import Any

from tritonclient.grpc import service_pb2 as pb

from conformance.content import Call, Tensor, add, frame, ident, tensor
from vectors.encodings import (
    Document,
    all_wires,
    document_of,
    grpc,
    message_of,
    refused,
    rest_binary,
    rest_json,
    x_text,
)


def framed(raw: bytes) -> list[Document]:
    head = {"name": "x", "shape": [2], "datatype": "BYTES", "parameters": {"binary_data_size": len(raw)}}
    message = pb.ModelInferRequest(model_name="echo_s", raw_input_contents=[raw])
    message.inputs.add(name="x", datatype="BYTES", shape=[2])
    return [rest_binary({"inputs": [head]}, raw), grpc(message)]


def refused_json() -> list[Document]:
    good = json.dumps(document_of(add(), is_binary=False))
    fp32 = '{{"inputs":[{{"name":"x","datatype":"FP32","shape":[1]{}}}]}}'
    deep = "[" * 10_000
    texts: dict[str, tuple[str, str, list[str]]] = {
        "empty body": ("add", "", ["JSON"]),
        "no JSON": ("add", "hello", ["JSON", "byte 0"]),
        "truncated": ("add", good[:-1], ["JSON"]),
        "trailing text": ("add", good + "x", ["JSON"]),
        "array": ("add", "[]", ["JSON", "byte 0"]),
        "inputs is an object": ("add", '{"inputs":{}}', ["inputs"]),
        "id is a number": ("add", f'{{"id":42,{good[1:]}', ["id"]),
        "outputs is text": ("add", f'{{"outputs":"sum",{good[1:]}', ["outputs"]),
        "data is a number": ("ident_FP32", fp32.format(',"data":1'), ["data"]),
        "no data": ("ident_FP32", fp32.format(""), ["'x'", "data"]),
        "ragged": ("add", good.replace("[0.0, 1.0, 2.0, 3.0]", "[[0.0, 1.0, 2.0], [3.0]]"), ["'a'"]),
        "nesting without end": ("ident_FP32", fp32.format(f',"data":{deep}'), ["JSON at byte", "levels of nesting"]),
        "negative size": ("ident_FP32", x_text("FP32", "[-1]", "[1]"), ["shape"]),
        "trailing comma": ("ident_FP32", x_text("FP32", "[1]", "[1,]"), ["JSON at byte"]),
        "leading zero": ("ident_FP32", x_text("FP32", "[1]", "[01]"), []),
        "UINT8 out of range": ("ident_UINT8", x_text("UINT8", "[1]", "[256]"), ["'x'", "UINT8"]),
        "INT8 out of range": ("ident_INT8", x_text("INT8", "[1]", "[-129]"), ["'x'", "INT8"]),
        "INT32 with a fraction": ("ident_INT32", x_text("INT32", "[1]", "[1.5]"), ["'x'", "INT32"]),
        "FP32 out of range": ("ident_FP32", x_text("FP32", "[1]", "[1e39]"), ["'x'", "FP32"]),
        "FP16 out of range": ("ident_FP16", x_text("FP16", "[1]", "[65520]"), ["'x'", "FP16"]),
        "BF16 out of range": ("ident_BF16", x_text("BF16", "[1]", "[1e39]"), ["'x'", "BF16"]),
        "BOOL as text": ("ident_BOOL", x_text("BOOL", "[1]", '["true"]'), ["'x'", "BOOL"]),
        "BYTES as a number": ("ident_BYTES", x_text("BYTES", "[1]", "[1]"), ["'x'", "string"]),
        "bad base64": (
            "ident_BYTES",
            x_text("BYTES", "[1]", '["?"]', ',"parameters":{"content_type":"base64"}'),
            ["'x'", "base64"],
        ),
        "lone surrogate": ("ident_BYTES", x_text("BYTES", "[1]", '["\\ud800"]'), []),
        "parameter is null": ("add", f'{{"parameters":{{"p":null}},{good[1:]}', ["'p'", "null"]),
        "parameter is an array": ("add", f'{{"parameters":{{"p":[1]}},{good[1:]}', ["'p'", "an array"]),
        "reserved parameter": ("add", f'{{"parameters":{{"triton_x":1}},{good[1:]}', ["'triton_x'", "reserved"]),
    }
    vectors = [refused(name, model, [rest_json(text)], *parts) for name, (model, text, parts) in texts.items()]
    not_utf8 = {"wire": "rest-json", "text_hex": x_text("BYTES", "[1]", '["?"]').encode().replace(b"?", b"\xff").hex()}
    return [*vectors, refused("not UTF-8", "ident_BYTES", [not_utf8])]


def refused_tensors() -> list[Document]:
    a, b = add().inputs
    shaped = {
        name: Tensor("a", "FP32", shape, bytes(4 * count))
        for name, shape, count in [("five", (1, 5), 5), ("flat", (4,), 4)]
    }

    def both(*inputs: Tensor, **more: Any) -> list[Document]:
        return all_wires(Call("add", inputs, **more))

    def sized(size: object, tail: bytes) -> list[Document]:
        document = document_of(ident("FP32", [1.0]), is_binary=True)
        document["inputs"][0]["parameters"]["binary_data_size"] = size
        return [rest_binary(document, tail)]

    framing = {
        "truncated length": frame(b"a") + b"\1\0",
        "overrun": frame(b"a") + b"\2\0\0\0b",
        "too few": frame(b"a"),
        "too many": frame(b"a") * 3,
    }
    return [
        refused("wrong size", "add", both(shaped["five"], b), "'a'", "[1, 5]", "[-1, 4]"),
        refused("wrong rank", "add", both(shaped["flat"], b), "'a'", "[4]", "[-1, 4]"),
        refused("nine rows", "add", all_wires(add(rows=9)), "'a'", "9", "at most 8"),
        refused("rows that differ", "add", both(add(rows=2).inputs[0], b), "'b'", "1", "2"),
        refused("missing input", "add", both(a), "'b' is missing", "'a', 'b'"),
        refused("input twice", "add", both(a, b, a), "'a'", "twice"),
        refused("unknown input", "add", both(a, tensor("c", "FP32", [0.0] * 4, [1, 4])), "'c'", "'a', 'b'"),
        refused(
            "other datatype", "add", both(tensor("a", "INT32", [1] * 4, [1, 4]), b), "'a'", "INT32", "expects FP32"
        ),
        refused("unknown output", "add", both(a, b, outputs=("zzz",)), "'zzz'", "'sum'"),
        refused("output twice", "add", both(a, b, outputs=("sum", "sum")), "'sum'", "twice"),
        refused("too few bytes", "add", all_wires(add().with_input(0, raw=bytes(12)))[1:3], "'a'", "12", "16"),
        refused("size is negative", "ident_FP32", sized(-1, bytes(4)), "binary_data_size", "-1"),
        refused("size is text", "ident_FP32", sized("4", bytes(4)), "binary_data_size"),
        refused("unconsumed bytes", "ident_FP32", sized(4, bytes(5)), "5", "4"),
        refused("missing bytes", "ident_FP32", sized(4, bytes(3)), "3", "4"),
        refused(
            "raw body of two inputs",
            "add",
            [{"wire": "rest-binary", "text": "", "tail": "00" * 32, "json_length": 0}],
            "'add'",
            "2",
        ),
        refused(
            "raw body of part of an element",
            "ident_FP32",
            [{"wire": "rest-binary", "text": "", "tail": "0000", "json_length": 0}],
            "'x'",
            "2",
        ),
        *(refused(f"BYTES {name}", "echo_s", framed(raw), "'x'") for name, raw in framing.items()),
    ]


def refused_grpc() -> list[Document]:
    vectors = []

    def vector(name: str, call: Call, change: Any, *message: str, typed: bool = True) -> None:
        changed = message_of(call, typed=typed)
        change(changed)
        vectors.append(refused(name, call.model, [grpc(changed)], *message))

    def retyped(field: str, *values: Any) -> Any:
        def change(message: pb.ModelInferRequest) -> None:
            message.inputs[0].ClearField("contents")
            getattr(message.inputs[0].contents, field).extend(values)

        return change

    vector("contents and raw", add(), lambda m: m.raw_input_contents.extend([b"", b""]), "'a'", "raw_input_contents")
    vector(
        "wrong typed field",
        ident("FP32", [1.0]),
        retyped("fp64_contents", 1.0),
        "'x'",
        "fp64_contents",
        "fp32_contents",
    )
    vector("two typed fields", ident("FP32", [1.0]), lambda m: m.inputs[0].contents.int_contents.append(1), "'x'")
    vector("INT8 out of range", ident("INT8", [1]), retyped("int_contents", 300), "'x'", "300", "INT8")
    vector("UINT16 out of range", ident("UINT16", [1]), retyped("uint_contents", 65536), "'x'", "65536", "UINT16")
    vector("typed count", ident("FP32", [1.0]), retyped("fp32_contents", 1.0, 2.0), "'x'", "2", "1")
    vector("no data", ident("FP32", [1.0]), lambda m: m.inputs[0].ClearField("contents"), "'x'")
    vector("fewer raw entries", add(), lambda m: m.raw_input_contents.pop(), "'b'", "raw_input_contents", typed=False)
    vector("more raw entries", add(), lambda m: m.raw_input_contents.append(b""), "3", "2", typed=False)
    vector(
        "unknown datatype", ident("FP32", [1.0]), lambda m: setattr(m.inputs[0], "datatype", "fp32"), "'x'", "'fp32'"
    )
    vector("negative size", ident("FP32", [1.0]), lambda m: m.inputs[0].shape.__setitem__(0, -1), "'x'", "-1")
    vector("parameter without a value", add(), lambda m: m.parameters["p"].SetInParent(), "'p'")
    vector("priority is text", add(), lambda m: setattr(m.parameters["priority"], "string_param", "high"), "'priority'")
    vector("reserved parameter", add(), lambda m: setattr(m.parameters["triton_x"], "bool_param", True), "'triton_x'")
    broken = {"wire": "grpc", "message": message_of(add(), typed=False).SerializeToString()[:-1].hex()}
    vectors.append(refused("truncated message", "add", [broken]))
    typed_half = message_of(ident("FP16", []), typed=True)
    typed_half.inputs[0].shape[:] = [1]
    typed_half.inputs[0].contents.fp32_contents.append(1.0)
    vectors.append(refused("typed FP16", "ident_FP16", [grpc(typed_half)], "'x'", "FP16", "raw"))
    return vectors
