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

from conformance.content import SAMPLES, Call, add, ident, one, pack, summed, tensor  # noqa: E402
from vectors.bodies import body_files  # noqa: E402
from vectors.encodings import (  # noqa: E402
    Document,
    accepted,
    all_wires,
    document_of,
    rest_binary,
    rest_json,
    x_text,
)
from vectors.refusals import refused_grpc, refused_json, refused_tensors  # noqa: E402


def files() -> dict[str, str]:
    """Text of every file by its name."""
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
    texts = {
        f"{name}.json": json.dumps(document, indent=1, ensure_ascii=True) + "\n" for name, document in documents.items()
    }
    return texts | body_files()


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


def datatypes() -> list[Document]:
    vectors = []
    for datatype, values in SAMPLES.items():
        vectors.append(accepted(f"{datatype}", ident(datatype), [tensor("y", datatype, values)]))
        vectors.append(accepted(f"{datatype} without elements", ident(datatype, []), [tensor("y", datatype, [])]))
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
    return [
        accepted("add", call, [summed(2)], [*all_wires(call), *(rest_json(text, note) for note, text in texts.items())])
    ]


def elements() -> list[Document]:
    def vector(name: str, datatype: str, data: str, values: list[Any], more: str = "") -> Document:
        call = ident(datatype, values)
        wires = [rest_json(x_text(datatype, f"[{len(values)}]", data, more))]
        return accepted(name, call, [tensor("y", datatype, values)], wires)

    infinite = [float("nan"), float("inf"), float("-inf")]
    step = 2.0**-10
    escapes = '["h\\u00e9llo","\\ud83d\\ude00","\\"\\\\\\/\\b\\f\\n\\r\\t","\\u0000"]'
    return [
        vector("integral floats", "INT32", "[1.0,2e0,-1.5e1,100e-2,-0.0]", [1, 2, -15, 1, 0]),
        vector("bools as numbers", "BOOL", "[true,false,1,0]", [True, False, True, False]),
        vector("non-finite words FP32", "FP32", "[NaN,Infinity,-Infinity]", infinite),
        vector("non-finite words FP64", "FP64", "[NaN, Infinity , -Infinity]", infinite),
        vector("FP32 from long text", "FP32", "[0.1000000000000000000000000000000001,1E+2,1e-50]", [0.1, 100, 0]),
        vector(
            "FP64 from long text",
            "FP64",
            f"[{'1' * 30},0.1,2.2250738585072011e-308]",
            [float("1" * 30), 0.1, 2.2250738585072011e-308],
        ),
        vector("FP16 halfway to even", "FP16", f"[{1 + step / 2!r},{1 + 3 * step / 2!r}]", [1.0, 1 + 2 * step]),
        vector(
            "64 bits",
            "INT64",
            "[9223372036854775807,-9223372036854775808,9007199254740993]",
            [2**63 - 1, -(2**63), 2**53 + 1],
        ),
        vector("64 bits unsigned", "UINT64", "[18446744073709551615]", [2**64 - 1]),
        vector("escapes", "BYTES", escapes, ["héllo", "😀", '"\\/\b\f\n\r\t', "\0"]),
    ]


def binary() -> list[Document]:
    call = add()
    a, b = document_of(call, is_binary=False)["inputs"]
    a_size, b_size = document_of(call, is_binary=True)["inputs"]
    raw_a, raw_b = (x.raw for x in call.inputs)
    parameters = {"binary_data_output": True}
    mixed = [
        rest_binary({"inputs": [a, b_size], "parameters": parameters}, raw_b, "a in JSON"),
        rest_binary({"inputs": [a_size, b], "parameters": parameters}, raw_a, "b in JSON"),
        rest_binary({"inputs": [b_size, a_size], "parameters": parameters}, raw_b + raw_a, "b first"),
    ]
    outputs = [{"name": "sum", "parameters": {"binary_data": True}}]
    by_output = [rest_binary({"inputs": [a_size, b_size], "outputs": outputs}, raw_a + raw_b)]
    values = [0.5, -1.0, 2.0]
    raw_fp32 = {
        "wire": "rest-binary",
        "note": "no JSON",
        "text": "",
        "tail": pack("FP32", values).hex(),
        "json_length": 0,
    }
    raw_text = {**raw_fp32, "tail": b"\xfftext".hex()}
    length = len(rest_json(document_of(call, is_binary=False))["text"])
    return [
        accepted("mixed", call, [summed()], mixed),
        accepted("requested by output", add(outputs=("sum",)), [summed()], by_output),
        accepted(
            "length of JSON only", call, [summed()], [rest_json(document_of(call, is_binary=False), json_length=length)]
        ),
        accepted(
            "raw body is one row",
            Call("rows", (tensor("x", "FP32", values, [1, 3]),)),
            [tensor("y", "FP32", values, [1, 3])],
            [raw_fp32],
        ),
        accepted("raw body", ident("FP32", values), [tensor("y", "FP32", values)], [raw_fp32]),
        accepted(
            "raw body of BYTES",
            Call("bytes_one", (tensor("x", "BYTES", [b"\xfftext"]),)),
            [tensor("y", "BYTES", [b"\xfftext"])],
            [raw_text],
        ),
    ]


def requests() -> list[Document]:
    kinds: dict[str, bool | int | float | str] = {
        "flag": True,
        "count": -3,
        "ratio": 0.5,
        "whole": 2.0,
        "text": "ü",
        "big": 2**64 - 1,
    }
    echoed = {
        name: value
        for key, value in kinds.items()
        for name, value in ((key, value), (f"type_of_{key}", type(value).__name__))
    }
    o1, o2 = tensor("o1", "FP32", [3.0]), tensor("o2", "INT64", [1])
    elements = [b"\xff\x00", b"", b"text"]
    coded = json.dumps([base64.b64encode(element).decode() for element in elements])
    base64_call = Call("echo_s", (tensor("x", "BYTES", elements),))
    base64_text = x_text("BYTES", "[3]", coded, ',"parameters":{"content_type":"base64"}')[:-1]
    base64_text += ',"parameters":{"binary_data_output":true}}'
    return [
        accepted(
            "no rows",
            Call("add", tuple(tensor(name, "FP32", [], [0, 4]) for name in "ab")),
            [tensor("sum", "FP32", [], [0, 4])],
        ),
        accepted("eight rows", add(rows=8, id='ü"\\\n'), [summed(8)]),
        accepted("scalar", Call("scalar", (tensor("x", "FP32", [2.5], []),)), [tensor("y", "FP32", [2.5], [])]),
        accepted("outputs in another order", one("two_out", 1.5, outputs=("o2", "o1")), [o2, o1]),
        accepted("one output", one("two_out", 1.5, outputs=("o2",)), [o2]),
        accepted(
            "parameters", one("parameters", parameters=kinds, id="p"), [tensor("y", "FP32", [1.0])], parameters=echoed
        ),
        accepted(
            "base64", base64_call, [tensor("y", "BYTES", elements)], [{**rest_json(base64_text), "wire": "rest-binary"}]
        ),
    ]


if __name__ == "__main__":
    for file, content in files().items():
        (HERE / file).write_text(content, encoding="utf-8")
