"""Writes the golden vectors; see README.md. `python tests/vectors/generate.py` overwrites them."""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
if str(HERE.parent) not in sys.path:
    sys.path.insert(0, str(HERE.parent))

from conformance.content import SAMPLES, Call, Tensor, add, frame, ident, one, pack, summed, tensor  # noqa: E402
from conformance.doors import TYPED_FIELDS, parameter  # noqa: E402
from tritonclient.grpc import service_pb2 as pb  # noqa: E402

Document = dict[str, Any]
REFUSED = {"kind": "invalid_input", "status": 400, "code": 3}


def files() -> dict[str, str]:
    """The text of every file by its name."""
    groups = {
        "datatypes": datatypes(),
        "json_text": json_text(),
        "elements": elements(),
        "binary": binary(),
        "requests": requests(),
        "refused_json": refused_json(),
        "refused_tensors": refused_tensors(),
        "refused_grpc": refused_grpc(),
    }
    documents: Document = {name: {"vectors": vectors} for name, vectors in groups.items()}
    documents["models"] = {"models": models()}
    return {f"{name}.json": json.dumps(document, indent=1, ensure_ascii=True) + "\n" for name, document in documents.items()}


def models() -> list[Document]:
    from models.protocol import MODELS

    def described(tensors: Any) -> list[Document]:
        return [{"name": x.name, "datatype": x.datatype, "shape": list(x.shape)} for x in tensors]

    return [
        {
            "name": model.name,
            "version": model.version,
            "max_batch_size": model.batching.max_size if model.batching else 0,
            "context": model.definition().wants_context,
            "inputs": described(model.inputs),
            "outputs": described(model.outputs),
        }
        for model in MODELS
    ]


# Encodings ---------------------------------------------------------------------------------------------------------


def rest_json(document: Any, note: str = "", **more: Any) -> Document:
    text = document if isinstance(document, str) else json.dumps(document, separators=(",", ":"), ensure_ascii=False)
    return {"wire": "rest-json", **({"note": note} if note else {}), "text": text, **more}


def rest_binary(document: Any, tail: bytes, note: str = "", **more: Any) -> Document:
    encoded = rest_json(document, note)
    length = len(encoded["text"].encode())
    return {**encoded, "wire": "rest-binary", "tail": tail.hex(), "json_length": length, **more}


def grpc(message: pb.ModelInferRequest, note: str = "") -> Document:
    raw = message.SerializeToString(deterministic=True)
    return {"wire": "grpc", **({"note": note} if note else {}), "message": raw.hex()}


def document_of(call: Call, *, is_binary: bool) -> Document:
    inputs = []
    for x in call.inputs:
        head: Document = {"name": x.name, "shape": list(x.shape), "datatype": x.datatype}
        values = [value.decode() if isinstance(value, bytes) else value for value in ([] if is_binary else x.values())]
        inputs.append({**head, **({"parameters": {"binary_data_size": len(x.raw)}} if is_binary else {"data": values})})
    parameters = {**call.parameters, **({"binary_data_output": True} if is_binary else {})}
    return {
        **({"id": call.id} if call.id else {}),
        **({"parameters": parameters} if parameters else {}),
        "inputs": inputs,
        **({"outputs": [{"name": name} for name in call.outputs]} if call.outputs is not None else {}),
    }


def message_of(call: Call, *, typed: bool) -> pb.ModelInferRequest:
    message = pb.ModelInferRequest(model_name=call.model, id=call.id)
    for name, value in call.parameters.items():
        message.parameters[name].CopyFrom(parameter(value))
    for x in call.inputs:
        entry = message.inputs.add(name=x.name, datatype=x.datatype, shape=x.shape)
        if typed and x.raw:
            getattr(entry.contents, TYPED_FIELDS[x.datatype]).extend(x.values())
        elif not typed:
            message.raw_input_contents.append(x.raw)
    for name in call.outputs or ():
        message.outputs.add(name=name)
    return message


def all_wires(call: Call) -> list[Document]:
    """The plain encodings of a call, all that can carry it."""
    wires = [
        rest_json(document_of(call, is_binary=False)),
        rest_binary(document_of(call, is_binary=True), b"".join(x.raw for x in call.inputs)),
        grpc(message_of(call, typed=False), "raw"),
    ]
    if all(x.datatype in TYPED_FIELDS for x in call.inputs):
        wires.append(grpc(message_of(call, typed=True), "typed"))
    return wires


# Vectors -----------------------------------------------------------------------------------------------------------


def shown(x: Tensor) -> Document:
    return {"name": x.name, "datatype": x.datatype, "shape": list(x.shape), "hex": x.raw.hex()}


def answered(
    name: str, call: Call, outputs: list[Tensor], wires: list[Document] | None = None, parameters: Document | None = None
) -> Document:
    """A vector that is served."""
    message = pb.ModelInferResponse(model_name=call.model, model_version="1", id=call.id)
    for key, value in (parameters or {}).items():
        message.parameters[key].CopyFrom(parameter(value))
    for x in outputs:
        message.outputs.add(name=x.name, datatype=x.datatype, shape=x.shape)
        message.raw_output_contents.append(x.raw)
    return {
        "name": name,
        "model": call.model,
        "wires": all_wires(call) if wires is None else wires,
        "request": {
            "id": call.id,
            "parameters": call.parameters,
            "inputs": [shown(x) for x in call.inputs],
            "outputs": None if call.outputs is None else list(call.outputs),
        },
        "answer": {
            "parameters": parameters or {},
            "outputs": [shown(x) for x in outputs],
            "grpc": message.SerializeToString(deterministic=True).hex(),
        },
    }


def refused(name: str, model: str, wires: list[Document], *message: str) -> Document:
    """A vector that is refused as the client's mistake."""
    return {"name": name, "model": model, "wires": wires, "refusal": {**REFUSED, "message": list(message)}}


def x_text(datatype: str, shape: str, data: str, more: str = "") -> str:
    return f'{{"inputs":[{{"name":"x","datatype":"{datatype}","shape":{shape}{more},"data":{data}}}]}}'


def datatypes() -> list[Document]:
    vectors = []
    for datatype, values in SAMPLES.items():
        vectors.append(answered(f"{datatype}", ident(datatype), [tensor("y", datatype, values)]))
        vectors.append(answered(f"{datatype} without elements", ident(datatype, []), [tensor("y", datatype, [])]))
    return vectors


def json_text() -> list[Document]:
    call = add(rows=2, id="42")
    document = document_of(call, is_binary=False)
    a, b = document["inputs"]
    rows = [{**x, "data": [x["data"][:4], x["data"][4:]]} for x in (a, b)]
    backwards = {
        "inputs": [dict(reversed(x.items())) for x in (b, a)],
        "id": "42",
    }
    texts = {
        "nested": json.dumps({**document, "inputs": rows}),
        "spaces": json.dumps(document, separators=(" , ", " : ")).replace("[", "[ ").replace("]", " ]"),
        "lines": json.dumps(document, indent=2),
        "tabs": json.dumps(document, indent="\t").replace("\n", "\r\n"),
        "around": f" \t\r\n{json.dumps(document)}\n\n",
        "backwards": json.dumps(backwards),
        "escaped names": json.dumps(document).replace('"inputs"', '"\\u0069nputs"').replace('"42"', '"\\u00342"'),
        "other keys": json.dumps({"model_name": "add", **document, "more": [{"a": [None, "}]", 1e5]}, True]}),
        "repeated key": '{"id":"1","inputs":[],' + json.dumps(document)[1:],
        "no outputs": json.dumps({**document, "outputs": []}),
        "decimal points": json.dumps(document).replace(".0", ".00e0"),
        "integers": json.dumps(document).replace(".0", ""),
    }
    return [answered("add", call, [summed(2)], [*all_wires(call), *(rest_json(text, note) for note, text in texts.items())])]


def elements() -> list[Document]:
    def vector(name: str, datatype: str, data: str, values: list[Any], more: str = "") -> Document:
        call = ident(datatype, values)
        wires = [rest_json(x_text(datatype, f"[{len(values)}]", data, more))]
        return answered(name, call, [tensor("y", datatype, values)], wires)

    infinite = [float("nan"), float("inf"), float("-inf")]
    step = 2.0**-10
    escapes = '["h\\u00e9llo","\\ud83d\\ude00","\\"\\\\\\/\\b\\f\\n\\r\\t","\\u0000"]'
    return [
        vector("integral floats", "INT32", "[1.0,2e0,-1.5e1,100e-2,-0.0]", [1, 2, -15, 1, 0]),
        vector("bools as numbers", "BOOL", "[true,false,1,0]", [True, False, True, False]),
        vector("names of no number FP32", "FP32", "[NaN,Infinity,-Infinity]", infinite),
        vector("names of no number FP64", "FP64", "[NaN, Infinity , -Infinity]", infinite),
        vector("FP32 from long text", "FP32", "[0.1000000000000000000000000000000001,1E+2,1e-50]", [0.1, 100, 0]),
        vector("FP64 from long text", "FP64", f"[{'1' * 30},0.1,2.2250738585072011e-308]", [float("1" * 30), 0.1, 2.2250738585072011e-308]),
        vector("FP16 halfway to even", "FP16", f"[{1 + step / 2!r},{1 + 3 * step / 2!r}]", [1.0, 1 + 2 * step]),
        vector("64 bits", "INT64", "[9223372036854775807,-9223372036854775808,9007199254740993]", [2**63 - 1, -(2**63), 2**53 + 1]),
        vector("64 bits unsigned", "UINT64", "[18446744073709551615]", [2**64 - 1]),
        vector("escapes", "BYTES", escapes, ["héllo", "😀", '"\\/\b\f\n\r\t', "\0"]),
    ]


def binary() -> list[Document]:
    call = add()
    a, b = document_of(call, is_binary=False)["inputs"]
    a_size, b_size = document_of(call, is_binary=True)["inputs"]
    raw_a, raw_b = (x.raw for x in call.inputs)
    asked = {"binary_data_output": True}
    mixed = [
        rest_binary({"inputs": [a, b_size], "parameters": asked}, raw_b, "a in JSON"),
        rest_binary({"inputs": [a_size, b], "parameters": asked}, raw_a, "b in JSON"),
        rest_binary({"inputs": [b_size, a_size], "parameters": asked}, raw_b + raw_a, "b first"),
        rest_binary({"inputs": [a_size, b_size], "outputs": [{"name": "sum", "parameters": {"binary_data": True}}]}, raw_a + raw_b, "by output"),
    ]
    mixed[-1]["outputs"] = ["sum"]
    values = [0.5, -1.0, 2.0]
    raw_fp32 = {"wire": "rest-binary", "note": "no JSON", "text": "", "tail": pack("FP32", values).hex(), "json_length": 0}
    raw_text = {**raw_fp32, "tail": b"\xfftext".hex()}
    length = len(rest_json(document_of(call, is_binary=False))["text"])
    return [
        answered("mixed", call, [summed()], mixed[:3]),
        answered("asked by output", add(outputs=("sum",)), [summed()], [{k: v for k, v in mixed[3].items() if k != "outputs"}]),
        answered("length of JSON only", call, [summed()], [rest_json(document_of(call, is_binary=False), json_length=length)]),
        answered("raw body", ident("FP32", values), [tensor("y", "FP32", values)], [raw_fp32]),
        answered(
            "raw body of BYTES",
            Call("bytes_one", (tensor("x", "BYTES", [b"\xfftext"]),)),
            [tensor("y", "BYTES", [b"\xfftext"])],
            [raw_text],
        ),
    ]


def requests() -> list[Document]:
    kinds: dict[str, bool | int | float | str] = {"flag": True, "count": -3, "ratio": 0.5, "whole": 2.0, "text": "ü", "big": 2**64 - 1}
    seen = {name: value for key, value in kinds.items() for name, value in ((key, value), (f"type_of_{key}", type(value).__name__))}
    o1, o2 = tensor("o1", "FP32", [3.0]), tensor("o2", "INT64", [1])
    elements = [b"\xff\x00", b"", b"text"]
    coded = json.dumps([base64.b64encode(element).decode() for element in elements])
    base64_call = Call("echo_s", (tensor("x", "BYTES", elements),))
    base64_text = x_text("BYTES", "[3]", coded, ',"parameters":{"content_type":"base64"}')[:-1]
    base64_text += ',"parameters":{"binary_data_output":true}}'
    return [
        answered("no rows", Call("add", tuple(tensor(name, "FP32", [], [0, 4]) for name in "ab")), [tensor("sum", "FP32", [], [0, 4])]),
        answered("eight rows", add(rows=8, id="ü\"\\\n"), [summed(8)]),
        answered("scalar", Call("scalar", (tensor("x", "FP32", [2.5], []),)), [tensor("y", "FP32", [2.5], [])]),
        answered("outputs in another order", one("two_out", 1.5, outputs=("o2", "o1")), [o2, o1]),
        answered("one output", one("two_out", 1.5, outputs=("o2",)), [o2]),
        answered("parameters", one("parameters", parameters=kinds, id="p"), [tensor("y", "FP32", [1.0])], parameters=seen),
        answered("base64", base64_call, [tensor("y", "BYTES", elements)], [{**rest_json(base64_text), "wire": "rest-binary"}]),
    ]


def refused_json() -> list[Document]:
    good = json.dumps(document_of(add(), is_binary=False))
    fp32 = '{{"inputs":[{{"name":"x","datatype":"FP32","shape":[1]{}}}]}}'
    deep = "[" * 10_000
    texts: dict[str, tuple[str, str, list[str]]] = {
        "empty body": ("add", "", ["JSON"]),
        "no JSON": ("add", "hello", ["JSON", "byte 0"]),
        "truncated": ("add", good[:-1], ["JSON"]),
        "something behind": ("add", good + "x", ["JSON"]),
        "array": ("add", "[]", ["JSON", "byte 0"]),
        "inputs is an object": ("add", '{"inputs":{}}', ["inputs"]),
        "id is a number": ("add", f'{{"id":42,{good[1:]}', ["id"]),
        "outputs is text": ("add", f'{{"outputs":"sum",{good[1:]}', ["outputs"]),
        "data is a number": ("ident_FP32", fp32.format(',"data":1'), ["data"]),
        "no data": ("ident_FP32", fp32.format(""), ["'x'", "data"]),
        "ragged": ("add", good.replace("[0.0, 1.0, 2.0, 3.0]", "[[0.0, 1.0, 2.0], [3.0]]"), ["'a'"]),
        "nesting without end": ("ident_FP32", fp32.format(f',"data":{deep}'), ["'x'"]),
        "negative size": ("ident_FP32", x_text("FP32", "[-1]", "[1]"), ["shape"]),
        "trailing comma": ("ident_FP32", x_text("FP32", "[1]", "[1,]"), ["'x'"]),
        "leading zero": ("ident_FP32", x_text("FP32", "[1]", "[01]"), []),
        "UINT8 out of range": ("ident_UINT8", x_text("UINT8", "[1]", "[256]"), ["'x'", "UINT8"]),
        "INT8 out of range": ("ident_INT8", x_text("INT8", "[1]", "[-129]"), ["'x'", "INT8"]),
        "INT32 with a fraction": ("ident_INT32", x_text("INT32", "[1]", "[1.5]"), ["'x'", "INT32"]),
        "FP32 out of range": ("ident_FP32", x_text("FP32", "[1]", "[1e39]"), ["'x'", "FP32"]),
        "FP16 out of range": ("ident_FP16", x_text("FP16", "[1]", "[65520]"), ["'x'", "FP16"]),
        "BF16 out of range": ("ident_BF16", x_text("BF16", "[1]", "[1e39]"), ["'x'", "BF16"]),
        "BOOL as text": ("ident_BOOL", x_text("BOOL", "[1]", '["true"]'), ["'x'", "BOOL"]),
        "BYTES as a number": ("ident_BYTES", x_text("BYTES", "[1]", "[1]"), ["'x'", "string"]),
        "bad base64": ("ident_BYTES", x_text("BYTES", "[1]", '["?"]', ',"parameters":{"content_type":"base64"}'), ["'x'", "base64"]),
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
    shaped = {name: Tensor("a", "FP32", shape, bytes(4 * count)) for name, shape, count in [("five", (1, 5), 5), ("flat", (4,), 4)]}

    def both(*inputs: Tensor, **more: Any) -> list[Document]:
        return all_wires(Call("add", inputs, **more))

    def sized(size: object, tail: bytes) -> list[Document]:
        document = document_of(ident("FP32", [1.0]), is_binary=True)
        document["inputs"][0]["parameters"]["binary_data_size"] = size
        return [rest_binary(document, tail)]

    framing = {"truncated": frame(b"a") + b"\1\0", "overrun": frame(b"a") + b"\2\0\0\0b", "too few": frame(b"a"), "too many": frame(b"a") * 3}
    wrong_framing = [
        refused(f"BYTES {name}", "echo_s", all_wires(Call("echo_s", (Tensor("x", "BYTES", (2,), raw),)))[1:3] if name in ("too few", "too many") else framed(raw), "'x'")
        for name, raw in framing.items()
    ]
    return [
        refused("wrong size", "add", both(shaped["five"], b), "'a'", "[1, 5]", "[-1, 4]"),
        refused("wrong rank", "add", both(shaped["flat"], b), "'a'", "[4]", "[-1, 4]"),
        refused("nine rows", "add", all_wires(add(rows=9)), "'a'", "9", "at most 8"),
        refused("rows that differ", "add", both(add(rows=2).inputs[0], b), "'b'", "1", "2"),
        refused("missing input", "add", both(a), "'b' is missing", "'a', 'b'"),
        refused("input twice", "add", both(a, b, a), "'a'", "twice"),
        refused("unknown input", "add", both(a, tensor("c", "FP32", [0.0] * 4, [1, 4])), "'c'", "'a', 'b'"),
        refused("other datatype", "add", both(tensor("a", "INT32", [1] * 4, [1, 4]), b), "'a'", "INT32", "expects FP32"),
        refused("unknown output", "add", both(a, b, outputs=("zzz",)), "'zzz'", "'sum'"),
        refused("output twice", "add", both(a, b, outputs=("sum", "sum")), "'sum'", "twice"),
        refused("too few bytes", "add", all_wires(add().with_input(0, raw=bytes(12)))[1:3], "'a'", "12", "16"),
        refused("size is negative", "ident_FP32", sized(-1, bytes(4)), "binary_data_size", "-1"),
        refused("size is text", "ident_FP32", sized("4", bytes(4)), "binary_data_size"),
        refused("bytes that nobody takes", "ident_FP32", sized(4, bytes(5)), "5", "4"),
        refused("bytes that are missing", "ident_FP32", sized(4, bytes(3)), "3", "4"),
        refused("raw body of two inputs", "add", [{"wire": "rest-binary", "text": "", "tail": "00" * 32, "json_length": 0}], "'add'", "2"),
        refused("raw body of part of an element", "ident_FP32", [{"wire": "rest-binary", "text": "", "tail": "0000", "json_length": 0}], "'x'", "2"),
        *wrong_framing,
    ]


def framed(raw: bytes) -> list[Document]:
    head = {"name": "x", "shape": [2], "datatype": "BYTES", "parameters": {"binary_data_size": len(raw)}}
    message = pb.ModelInferRequest(model_name="echo_s", raw_input_contents=[raw])
    message.inputs.add(name="x", datatype="BYTES", shape=[2])
    return [rest_binary({"inputs": [head]}, raw), grpc(message)]


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
    vector("wrong typed field", ident("FP32", [1.0]), retyped("fp64_contents", 1.0), "'x'", "fp64_contents", "fp32_contents")
    vector("two typed fields", ident("FP32", [1.0]), lambda m: m.inputs[0].contents.int_contents.append(1), "'x'")
    vector("INT8 out of range", ident("INT8", [1]), retyped("int_contents", 300), "'x'", "300", "INT8")
    vector("UINT16 out of range", ident("UINT16", [1]), retyped("uint_contents", 65536), "'x'", "65536", "UINT16")
    vector("typed count", ident("FP32", [1.0]), retyped("fp32_contents", 1.0, 2.0), "'x'", "2", "1")
    vector("no data", ident("FP32", [1.0]), lambda m: m.inputs[0].ClearField("contents"), "'x'")
    vector("fewer raw entries", add(), lambda m: m.raw_input_contents.pop(), "'b'", "raw_input_contents", typed=False)
    vector("more raw entries", add(), lambda m: m.raw_input_contents.append(b""), "3", "2", typed=False)
    vector("unknown datatype", ident("FP32", [1.0]), lambda m: setattr(m.inputs[0], "datatype", "fp32"), "'x'", "'fp32'")
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


if __name__ == "__main__":
    for file, content in files().items():
        (HERE / file).write_text(content, encoding="utf-8")
