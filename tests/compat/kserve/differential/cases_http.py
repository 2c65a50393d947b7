"""HTTP requests of server.py."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
from asking import Ask

F = np.float32
JSON_TYPES = {
    "BOOL": [True, False],
    "INT8": [-128, 127],
    "INT16": [-(2**15), 5],
    "INT32": [-(2**31), 7],
    "INT64": [-(2**63), 2**53 + 1],
    "UINT8": [0, 255],
    "UINT16": [0, 65535],
    "UINT32": [0, 2**32 - 1],
    "UINT64": [0, 2**64 - 1],
    "FP32": [1.5, -2.25],
    "FP64": [0.1, 1e300],
    "BYTES": ["one", "gr\u00fcn"],
}
DTYPES = {name: np.dtype(name.lower()) for name in JSON_TYPES if name.startswith(("INT", "UINT"))} | {
    "BOOL": np.dtype(bool),
    "FP16": np.dtype(np.float16),
    "FP32": np.dtype(F),
    "FP64": np.dtype(np.float64),
}
MODES = (
    *("a dict", "an empty dict", "a list", "a number", "none", "a text", "bytes", "an array within", "numpy numbers"),
    *("not a number", "large numbers", "texts", "a response", "a stream", "a v2 dict", "a wrong v2 dict", "a tuple"),
    *("a set", "an object"),
)
FAILURES = (
    *("InferenceError", "InferenceError with a status", "InvalidInput", "ModelNotFound", "ModelNotReady"),
    *("ModelNotReady with a detail", "ModelMissingError", "NotImplementedError", "NotImplementedError with a text"),
    *("HTTPException", "HTTPException with headers", "ValueError", "KeyError", "Odd", "without a text"),
    "TimeoutError",
)
NEW_FAILURES = ("UnsupportedProtocol", "ServerNotReady", "ServerNotLive")
PREDICT, INFER = "/v1/models/{}:predict", "/v2/models/{}/infer"


def tensor(data: Any, datatype: str = "FP32", shape: Any = None, name: str = "x", **more: Any) -> dict[str, Any]:
    return {"name": name, "shape": shape or [len(data)], "datatype": datatype, "data": data, **more}


def text(of: str) -> dict[str, Any]:
    """Returns the request of a mode."""
    return {"id": "m", "inputs": [tensor([of], "BYTES")]}


def cases(new: bool) -> list[Ask]:
    """Returns all requests in their order."""
    return [*_routes(), *_v1(), *_answers(new), *_v2(), *_binary(new), *events(), *_openai(new), *_repository()]


def _routes() -> Iterator[Ask]:
    for path in (
        *("/", "/v1/models", "/v1/models/double", "/v1/models/nope", "/v2", "/v2/", "/v2/health/live"),
        *("/v2/health/ready", "/v2/models", "/v2/models/double", "/v2/models/described", "/v2/models/nope"),
        *("/v2/models/double/ready", "/v2/models/nope/ready", "/v2/models/double/versions/1", "/nope", "/v1/nope"),
        *("/v2/repository/index", "/v1/models/sleepy", "/v2/models/sleepy/ready", "/docs"),
    ):
        yield Ask(f"get {path}", path)
    yield Ask("get a prediction", PREDICT.format("double"))
    yield Ask("another verb", "/v1/models/double:classify", {"instances": [1]})
    yield Ask("infer of a version", "/v2/models/double/versions/1/infer", {"inputs": [tensor([1])]})


def _v1() -> Iterator[Ask]:
    double = PREDICT.format("double")
    yield Ask("v1", double, {"instances": [[1, 2], [3, 4]]})
    yield Ask("v1 later", PREDICT.format("later"), {"instances": [1.5]})
    yield Ask("v1 of a model that is not there", PREDICT.format("nope"), {"instances": [1]})
    yield Ask("v1 of a model that is not ready", PREDICT.format("sleepy"), {"instances": [1]})
    yield Ask("v1 instances are no list", double, {"instances": {"a": 1}})
    yield Ask("v1 not JSON", double, "{instances")
    yield Ask("v1 an empty body", double, "")
    yield Ask("v1 a NaN", double, '{"instances": [NaN]}')
    yield Ask("v1 stages", PREDICT.format("stages"), {"instances": ["sent"]})
    yield Ask("v1 explain stages", "/v1/models/stages:explain", {"instances": ["sent"]})
    yield Ask("v1 explain", "/v1/models/explains:explain", {"instances": [1], "more": {"a": None}})
    yield Ask("v1 explain without an explainer", "/v1/models/double:explain", {"instances": [1]})
    yield Ask("v1 helped", PREDICT.format("helped"), {"instances": [[1, 2], [3, 4]]})
    yield Ask("v1 helped by inputs", PREDICT.format("helped"), {"inputs": [1, 2]})
    yield Ask("v1 predict of a plain model", PREDICT.format("plain"), {"instances": [1]})
    seen = PREDICT.format("seen")
    for kind in (
        *("application/json", "application/json; charset=utf-8", "Application/JSON", "application/ld+json"),
        *("application/octet-stream", "text/plain", "application/x-www-form-urlencoded"),
    ):
        yield Ask(f"v1 content type {kind}", seen, '{"instances": [1]}', {"content-type": kind})
    yield Ask("v1 no content type", seen, '{"instances": [1]}', bare=True)
    for name, body in (("a list", [1, "two"]), ("a text", '"text"'), ("a number", "5"), ("null", "null")):
        yield Ask(f"v1 the body is {name}", seen, body)
    own = {"x-request-id": "r-1", "X-Own": "mine", "Authorization": "Bearer t"}
    yield Ask("v1 headers", seen, {"instances": [1], "signature_name": "s"}, own)


def _answers(new: bool) -> Iterator[Ask]:
    for mode in MODES:
        yield Ask(f"v1 gives {mode}", PREDICT.format("contract"), {"instances": [mode]})
        yield Ask(f"v2 gives {mode}", INFER.format("contract"), text(mode))
    for failure in (*FAILURES, *NEW_FAILURES) if new else FAILURES:
        yield Ask(f"v1 raises {failure}", PREDICT.format("fails"), {"instances": [failure]})
        yield Ask(f"v1 raises {failure}, later", PREDICT.format("fails_later"), {"instances": [failure]})
        yield Ask(f"v2 raises {failure}", INFER.format("fails"), text(failure))
    yield Ask("v1 stream", PREDICT.format("stream"), {"instances": [1]})
    if new:
        yield Ask("v1 response headers", PREDICT.format("headers"), {"instances": [1]}, {"x-own": "mine"})
        yield Ask("v2 response headers", INFER.format("headers"), {"id": "h", "inputs": [tensor([1.5])]})


def _v2() -> Iterator[Ask]:
    echo, double = INFER.format("echo"), INFER.format("double")
    for datatype, data in JSON_TYPES.items():
        yield Ask(f"v2 JSON {datatype}", echo, {"id": "e", "inputs": [tensor(data, datatype)]})
    yield Ask("v2 JSON of two inputs", echo, {"id": "e", "inputs": [tensor([1, 2]), tensor(["a"], "BYTES", name="t")]})
    yield Ask("v2 JSON nested", double, {"id": "n", "inputs": [tensor([[1, 2], [3, 4]], shape=[2, 2])]})
    yield Ask("v2 JSON flat", double, {"id": "n", "inputs": [tensor([1, 2, 3, 4], shape=[2, 2])]})
    yield Ask("v2 JSON empty", double, {"id": "n", "inputs": [tensor([], shape=[0])]})
    yield Ask("v2 JSON lower case datatype", double, {"id": "n", "inputs": [tensor([1], "fp32")]})
    yield Ask("v2 JSON FP16", double, {"id": "n", "inputs": [tensor([1], "FP16")]})
    data = INFER.format("data")
    for case, one in (
        ("nested", tensor([[0.5, 1.5], [2.5, 3.5]], shape=[2, 2])),
        ("flat", tensor([0.5, 1.5, 2.5, 3.5], shape=[2, 2])),
        ("deeply nested", tensor([[["a"], ["b"]]], "BYTES", shape=[1, 2, 1])),
        ("null", tensor([None, 0.5], "FP64")),
        ("nested null", tensor([[None], [0.5]], shape=[2, 1])),
    ):
        yield Ask(f"v2 data {case}", data, {"id": "d", "inputs": [one, tensor([1.5], name="flat")]})
    yield Ask("v2 lists", INFER.format("lists"), {"id": "l", "inputs": [tensor([1])]})
    yield Ask("v2 helped", INFER.format("helped"), {"id": "h", "inputs": [tensor([1, 2, 3, 4], shape=[2, 2])]})
    yield Ask("v2 later", INFER.format("later"), {"id": "l", "inputs": [tensor([1.5])]})
    yield Ask("v2 without a model", INFER.format("nope"), {"inputs": [tensor([1])]})
    yield Ask("v2 of a model that is not ready", INFER.format("sleepy"), {"inputs": [tensor([1])]})
    yield Ask("v2 not JSON", double, "{inputs")
    yield Ask("v2 an empty body", double, "")
    yield Ask("v2 no inputs", double, {})
    yield Ask("v2 inputs are no list", double, {"inputs": 5})
    for missing in ("name", "shape", "datatype", "data"):
        whole = tensor([1])
        del whole[missing]
        yield Ask(f"v2 without {missing}", double, {"inputs": [whole]})
    yield Ask("v2 too few elements", double, {"id": "n", "inputs": [tensor([1, 2, 3], shape=[2, 2])]})
    yield Ask("v2 an unknown datatype", double, {"id": "n", "inputs": [tensor([1], "FP8")]})
    yield Ask("v2 UINT8 too large", double, {"id": "n", "inputs": [tensor([300], "UINT8")]})
    yield Ask("v2 null for a number", double, {"id": "n", "inputs": [tensor([None, 1.5])]})
    yield Ask("v2 NaN", double, {"id": "n", "inputs": [tensor([float("nan"), 1.5])]})
    yield Ask("v2 text in a number", double, {"id": "n", "inputs": [tensor(["one"])]})
    parameters = {"b": True, "i": 5, "t": "text", "f": 1.5}
    seen = {"id": "p", "parameters": parameters, "inputs": [tensor([1], parameters={"own": "one"})]}
    yield Ask("v2 parameters", INFER.format("seen"), seen, {"x-request-id": "r-2", "x-own": "mine"})
    for names in (["f"], ["t", "n"], ["nope"]):
        body = {"id": "o", "inputs": [tensor([1])], "outputs": [{"name": name} for name in names]}
        yield Ask(f"v2 outputs {names}", INFER.format("lists"), body)


def _binary(new: bool) -> Iterator[Ask]:
    if not new:
        return
    for datatype, dtype in DTYPES.items():
        raw = np.array([1, 0, 1], dtype).tobytes()
        head = {"id": "b", "inputs": [_raw(datatype, [3], len(raw))]}
        yield binary(f"v2 binary {datatype}", "echo", {**head, "parameters": {"binary_data_output": True}}, raw)
    raw = b"\x03\0\0\0one\0\0\0\0"
    head = {"id": "b", "inputs": [_raw("BYTES", [2], len(raw))]}
    yield binary("v2 binary BYTES", "echo", {**head, "parameters": {"binary_data_output": True}}, raw)
    yield binary("v2 binary in, JSON out", "echo", head, raw)
    body = {"id": "b", "parameters": {"binary_data_output": True}, "inputs": [tensor([1.5])]}
    yield Ask("v2 JSON in, binary out", INFER.format("double"), body)
    for asked in (True, False):
        outputs = [{"name": "y", "parameters": {"binary_data": asked}}]
        yield Ask(
            f"v2 an output with binary_data {asked}",
            INFER.format("double"),
            {"id": "b", "inputs": [tensor([1.5])], "outputs": outputs},
        )
    floats = np.array([1.5, 2.5], F).tobytes()
    mixed = {"id": "b", "inputs": [tensor([1, 2], "INT32", name="n"), _raw("FP32", [2], 8)]}
    yield binary("v2 binary beside JSON", "echo", mixed, floats)
    mixed = {"id": "b", "inputs": [tensor([[1], [2]], "INT32", shape=[2, 1], name="n"), _raw("FP32", [2, 1], 8)]}
    yield binary("v2 data nested beside binary", "data", mixed, floats)
    short = {"id": "b", "inputs": [_raw("FP32", [2], 8)]}
    yield binary("v2 binary too short", "double", short, floats[:6])
    yield binary("v2 binary of another size", "double", {"id": "b", "inputs": [_raw("FP32", [3], 8)]}, floats)
    joined = json.dumps(short).encode() + floats
    kind = {"content-type": "application/octet-stream"}
    yield Ask("v2 binary without its length", INFER.format("double"), joined, kind)


def _raw(datatype: str, shape: list[int], size: int, name: str = "x") -> dict[str, Any]:
    return {"name": name, "shape": shape, "datatype": datatype, "parameters": {"binary_data_size": size}}


def binary(case: str, model: str, head: Any, raw: bytes) -> Ask:
    """Returns a request with binary tensors."""
    text = json.dumps(head).encode()
    headers = {"content-type": "application/octet-stream", "inference-header-content-length": str(len(text))}
    return Ask(case, INFER.format(model), text + raw, headers)


def events() -> Iterator[Ask]:
    event = {"ce-specversion": "1.0", "ce-id": "e-1", "ce-source": "here", "ce-type": "a.b", "ce-own": "mine"}
    body = {"instances": [1]}
    double, seen = PREDICT.format("double"), PREDICT.format("seen")
    yield Ask("event, binary", double, body, event)
    yield Ask("event, binary, as the handler sees it", seen, body, event)
    yield Ask("event, binary, not JSON", seen, "no JSON", event)
    yield Ask("event, binary, with its content type", seen, body, {**event, "ce-datacontenttype": "application/json"})
    yield Ask("event, binary, raises", PREDICT.format("fails"), {"instances": ["InvalidInput"]}, event)
    yield Ask("event, binary, gives bytes", PREDICT.format("contract"), {"instances": ["bytes"]}, event)
    yield Ask("event, binary, gives a list", PREDICT.format("contract"), {"instances": ["a list"]}, event)
    yield Ask("event, without its id", double, body, {name: event[name] for name in event if name != "ce-id"})
    yield Ask("event of another version", double, body, {**event, "ce-specversion": "9"})
    yield Ask("event, explain", "/v1/models/explains:explain", body, event)
    yield Ask("event, v2", INFER.format("double"), {"id": "e", "inputs": [tensor([1])]}, event)
    whole = {"specversion": "1.0", "id": "e-2", "source": "here", "type": "a.b", "time": "2026-01-01T00:00:00Z"}
    whole |= {"own": "mine", "data": body}
    kind = {"content-type": "application/cloudevents+json"}
    yield Ask("event, structured", double, whole, kind)
    yield Ask("event, structured, as the handler sees it", seen, whole, kind)
    yield Ask("event, structured as plain JSON", double, whole)
    yield Ask("event, structured, no time", seen, {name: whole[name] for name in whole if name != "time"}, kind)
    yield Ask("event, structured, no data", seen, {name: whole[name] for name in whole if name != "data"}, kind)
    yield Ask("event, structured, of another version", double, {**whole, "specversion": "9"}, kind)
    yield Ask("event, structured, explain", "/v1/models/explains:explain", whole, kind)


def _openai(new: bool) -> Iterator[Ask]:
    if new:
        return
    complete, chat = "/openai/v1/completions", "/openai/v1/chat/completions"
    told = {"model": "parrot", "prompt": "one two three"}
    said = {"model": "parrot", "messages": [{"role": "system", "content": "be"}, {"role": "user", "content": "brief"}]}
    yield Ask("openai models", "/openai/v1/models")
    yield Ask("openai completion", complete, told)
    yield Ask("openai completion, shorter", complete, {**told, "max_tokens": 2})
    yield Ask("openai completion, streamed", complete, {**told, "stream": True})
    yield Ask("openai completion, its context", complete, {**told, "prompt": "context"}, {"x-request-id": "r-9"})
    yield Ask("openai completion that fails", complete, {**told, "prompt": "fail"})
    yield Ask("openai completion without a prompt", complete, {"model": "parrot"})
    yield Ask("openai completion without a model", complete, {"prompt": "one"})
    yield Ask("openai completion of no such model", complete, {**told, "model": "nope"})
    yield Ask("openai completion of another kind", complete, {**told, "model": "double"})
    yield Ask("openai completion, not JSON", complete, "{")
    yield Ask("openai chat", chat, said)
    yield Ask("openai chat, streamed", chat, {**said, "stream": True})
    yield Ask("openai chat without messages", chat, {"model": "parrot"})
    yield Ask("openai chat of another kind", chat, {**said, "model": "double"})
    yield Ask("v1 of an openai model", PREDICT.format("parrot"), {"instances": [1]})
    yield Ask("openai embeddings", "/openai/v1/embeddings", {"model": "parrot", "input": "one"})


def _repository() -> Iterator[Ask]:
    def does(verb: str, model: str, case: str = "") -> Ask:
        return Ask(f"{verb} {model}{case}", f"/v2/repository/models/{model}/{verb}", method="POST")

    yield does("load", "fresh")
    yield Ask("a loaded model answers", PREDICT.format("fresh"), {"instances": [4]})
    yield Ask("a loaded model is ready", "/v2/models/fresh/ready")
    yield Ask("a loaded model is listed", "/v1/models")
    yield does("load", "fresh", " again")
    yield does("load", "broken")
    yield does("load", "absent")
    yield does("load", "lazy")
    yield Ask("a model that was loaded unready", "/v1/models/lazy")
    yield does("unload", "fresh")
    yield Ask("an unloaded model", PREDICT.format("fresh"), {"instances": [4]})
    yield does("unload", "fresh", " again")
    yield does("unload", "nope")
    yield does("load", "lasting")
    yield does("unload", "lasting")
    yield Ask("stop was called", PREDICT.format("stopped"), {"instances": []})
