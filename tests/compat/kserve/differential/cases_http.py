"""HTTP requests of server.py."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
from requests_as_data import HttpRequest

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
    *("HTTPException", "HTTPException with headers", "ValueError", "KeyError", "UnknownError", "without a text"),
    "TimeoutError",
)
NEW_FAILURES = ("UnsupportedProtocol", "ServerNotReady", "ServerNotLive")
PREDICT, INFER = "/v1/models/{}:predict", "/v2/models/{}/infer"


def tensor(data: Any, datatype: str = "FP32", shape: Any = None, name: str = "x", **more: Any) -> dict[str, Any]:
    return {"name": name, "shape": shape or [len(data)], "datatype": datatype, "data": data, **more}


def text(of: str) -> dict[str, Any]:
    """Returns the request of a mode."""
    return {"id": "m", "inputs": [tensor([of], "BYTES")]}


def cases(new: bool) -> list[HttpRequest]:
    """Returns all requests in their order."""
    return [*_routes(), *_v1(), *_results(new), *_v2(), *_binary(new), *events(), *_openai(new), *_repository()]


def _routes() -> Iterator[HttpRequest]:
    for path in (
        *("/", "/v1/models", "/v1/models/double", "/v1/models/nope", "/v2", "/v2/", "/v2/health/live"),
        *("/v2/health/ready", "/v2/models", "/v2/models/double", "/v2/models/described", "/v2/models/nope"),
        *("/v2/models/double/ready", "/v2/models/nope/ready", "/v2/models/double/versions/1", "/nope", "/v1/nope"),
        *("/v2/repository/index", "/v1/models/sleepy", "/v2/models/sleepy/ready", "/docs"),
    ):
        yield HttpRequest(f"get {path}", path)
    yield HttpRequest("get a prediction", PREDICT.format("double"))
    yield HttpRequest("another verb", "/v1/models/double:classify", {"instances": [1]})
    yield HttpRequest("infer of a version", "/v2/models/double/versions/1/infer", {"inputs": [tensor([1])]})


def _v1() -> Iterator[HttpRequest]:
    double = PREDICT.format("double")
    yield HttpRequest("v1", double, {"instances": [[1, 2], [3, 4]]})
    yield HttpRequest("v1 later", PREDICT.format("later"), {"instances": [1.5]})
    yield HttpRequest("v1 of a model that is not there", PREDICT.format("nope"), {"instances": [1]})
    yield HttpRequest("v1 of a model that is not ready", PREDICT.format("sleepy"), {"instances": [1]})
    yield HttpRequest("v1 instances are no list", double, {"instances": {"a": 1}})
    yield HttpRequest("v1 not JSON", double, "{instances")
    yield HttpRequest("v1 an empty body", double, "")
    yield HttpRequest("v1 a NaN", double, '{"instances": [NaN]}')
    yield HttpRequest("v1 stages", PREDICT.format("stages"), {"instances": ["sent"]})
    yield HttpRequest("v1 explain stages", "/v1/models/stages:explain", {"instances": ["sent"]})
    yield HttpRequest("v1 explain", "/v1/models/explains:explain", {"instances": [1], "more": {"a": None}})
    yield HttpRequest("v1 explain without an explainer", "/v1/models/double:explain", {"instances": [1]})
    yield HttpRequest("v1 helped", PREDICT.format("helped"), {"instances": [[1, 2], [3, 4]]})
    yield HttpRequest("v1 helped by inputs", PREDICT.format("helped"), {"inputs": [1, 2]})
    yield HttpRequest("v1 predict of a plain model", PREDICT.format("plain"), {"instances": [1]})
    seen = PREDICT.format("seen")
    for kind in (
        *("application/json", "application/json; charset=utf-8", "Application/JSON", "application/ld+json"),
        *("application/octet-stream", "text/plain", "application/x-www-form-urlencoded"),
    ):
        yield HttpRequest(f"v1 content type {kind}", seen, '{"instances": [1]}', {"content-type": kind})
    yield HttpRequest("v1 no content type", seen, '{"instances": [1]}', bare=True)
    for name, body in (("a list", [1, "two"]), ("a text", '"text"'), ("a number", "5"), ("null", "null")):
        yield HttpRequest(f"v1 the body is {name}", seen, body)
    own = {"x-request-id": "r-1", "X-Own": "mine", "Authorization": "Bearer t"}
    yield HttpRequest("v1 headers", seen, {"instances": [1], "signature_name": "s"}, own)


def _results(new: bool) -> Iterator[HttpRequest]:
    for mode in MODES:
        yield HttpRequest(f"v1 gives {mode}", PREDICT.format("contract"), {"instances": [mode]})
        yield HttpRequest(f"v2 gives {mode}", INFER.format("contract"), text(mode))
    for failure in (*FAILURES, *NEW_FAILURES) if new else FAILURES:
        yield HttpRequest(f"v1 raises {failure}", PREDICT.format("fails"), {"instances": [failure]})
        yield HttpRequest(f"v1 raises {failure}, later", PREDICT.format("fails_later"), {"instances": [failure]})
        yield HttpRequest(f"v2 raises {failure}", INFER.format("fails"), text(failure))
    yield HttpRequest("v1 stream", PREDICT.format("stream"), {"instances": [1]})
    if new:
        yield HttpRequest("v1 response headers", PREDICT.format("headers"), {"instances": [1]}, {"x-own": "mine"})
        yield HttpRequest("v2 response headers", INFER.format("headers"), {"id": "h", "inputs": [tensor([1.5])]})


def _v2() -> Iterator[HttpRequest]:
    echo, double = INFER.format("echo"), INFER.format("double")
    for datatype, data in JSON_TYPES.items():
        yield HttpRequest(f"v2 JSON {datatype}", echo, {"id": "e", "inputs": [tensor(data, datatype)]})
    yield HttpRequest(
        "v2 JSON of two inputs", echo, {"id": "e", "inputs": [tensor([1, 2]), tensor(["a"], "BYTES", name="t")]}
    )
    yield HttpRequest("v2 JSON nested", double, {"id": "n", "inputs": [tensor([[1, 2], [3, 4]], shape=[2, 2])]})
    yield HttpRequest("v2 JSON flat", double, {"id": "n", "inputs": [tensor([1, 2, 3, 4], shape=[2, 2])]})
    yield HttpRequest("v2 JSON empty", double, {"id": "n", "inputs": [tensor([], shape=[0])]})
    yield HttpRequest("v2 JSON lower case datatype", double, {"id": "n", "inputs": [tensor([1], "fp32")]})
    yield HttpRequest("v2 JSON FP16", double, {"id": "n", "inputs": [tensor([1], "FP16")]})
    data = INFER.format("data")
    for case, one in (
        ("nested", tensor([[0.5, 1.5], [2.5, 3.5]], shape=[2, 2])),
        ("flat", tensor([0.5, 1.5, 2.5, 3.5], shape=[2, 2])),
        ("deeply nested", tensor([[["a"], ["b"]]], "BYTES", shape=[1, 2, 1])),
        ("null", tensor([None, 0.5], "FP64")),
        ("nested null", tensor([[None], [0.5]], shape=[2, 1])),
    ):
        yield HttpRequest(f"v2 data {case}", data, {"id": "d", "inputs": [one, tensor([1.5], name="flat")]})
    yield HttpRequest("v2 lists", INFER.format("lists"), {"id": "l", "inputs": [tensor([1])]})
    yield HttpRequest("v2 helped", INFER.format("helped"), {"id": "h", "inputs": [tensor([1, 2, 3, 4], shape=[2, 2])]})
    yield HttpRequest("v2 later", INFER.format("later"), {"id": "l", "inputs": [tensor([1.5])]})
    yield HttpRequest("v2 without a model", INFER.format("nope"), {"inputs": [tensor([1])]})
    yield HttpRequest("v2 of a model that is not ready", INFER.format("sleepy"), {"inputs": [tensor([1])]})
    yield HttpRequest("v2 not JSON", double, "{inputs")
    yield HttpRequest("v2 an empty body", double, "")
    yield HttpRequest("v2 no inputs", double, {})
    yield HttpRequest("v2 inputs are no list", double, {"inputs": 5})
    for missing in ("name", "shape", "datatype", "data"):
        incomplete = tensor([1])
        del incomplete[missing]
        yield HttpRequest(f"v2 without {missing}", double, {"inputs": [incomplete]})
    yield HttpRequest("v2 too few elements", double, {"id": "n", "inputs": [tensor([1, 2, 3], shape=[2, 2])]})
    yield HttpRequest("v2 an unknown datatype", double, {"id": "n", "inputs": [tensor([1], "FP8")]})
    yield HttpRequest("v2 UINT8 too large", double, {"id": "n", "inputs": [tensor([300], "UINT8")]})
    yield HttpRequest("v2 null for a number", double, {"id": "n", "inputs": [tensor([None, 1.5])]})
    yield HttpRequest("v2 NaN", double, {"id": "n", "inputs": [tensor([float("nan"), 1.5])]})
    yield HttpRequest("v2 text in a number", double, {"id": "n", "inputs": [tensor(["one"])]})
    parameters = {"b": True, "i": 5, "t": "text", "f": 1.5}
    seen = {"id": "p", "parameters": parameters, "inputs": [tensor([1], parameters={"own": "one"})]}
    yield HttpRequest("v2 parameters", INFER.format("seen"), seen, {"x-request-id": "r-2", "x-own": "mine"})
    for names in (["f"], ["t", "n"], ["nope"]):
        body = {"id": "o", "inputs": [tensor([1])], "outputs": [{"name": name} for name in names]}
        yield HttpRequest(f"v2 outputs {names}", INFER.format("lists"), body)


def _binary(new: bool) -> Iterator[HttpRequest]:
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
    yield HttpRequest("v2 JSON in, binary out", INFER.format("double"), body)
    for requested in (True, False):
        outputs = [{"name": "y", "parameters": {"binary_data": requested}}]
        yield HttpRequest(
            f"v2 an output with binary_data {requested}",
            INFER.format("double"),
            {"id": "b", "inputs": [tensor([1.5])], "outputs": outputs},
        )
    floats = np.array([1.5, 2.5], F).tobytes()
    mixed = {"id": "b", "inputs": [tensor([1, 2], "INT32", name="n"), _raw("FP32", [2], 8)]}
    yield binary("v2 binary next to JSON", "echo", mixed, floats)
    mixed = {"id": "b", "inputs": [tensor([[1], [2]], "INT32", shape=[2, 1], name="n"), _raw("FP32", [2, 1], 8)]}
    yield binary("v2 data nested next to binary", "data", mixed, floats)
    short = {"id": "b", "inputs": [_raw("FP32", [2], 8)]}
    yield binary("v2 binary too short", "double", short, floats[:6])
    yield binary("v2 binary of another size", "double", {"id": "b", "inputs": [_raw("FP32", [3], 8)]}, floats)
    joined = json.dumps(short).encode() + floats
    kind = {"content-type": "application/octet-stream"}
    yield HttpRequest("v2 binary without its length", INFER.format("double"), joined, kind)


def _raw(datatype: str, shape: list[int], size: int, name: str = "x") -> dict[str, Any]:
    return {"name": name, "shape": shape, "datatype": datatype, "parameters": {"binary_data_size": size}}


def binary(case: str, model: str, head: Any, raw: bytes) -> HttpRequest:
    """Returns a request with binary tensors."""
    text = json.dumps(head).encode()
    headers = {"content-type": "application/octet-stream", "inference-header-content-length": str(len(text))}
    return HttpRequest(case, INFER.format(model), text + raw, headers)


def events() -> Iterator[HttpRequest]:
    event = {"ce-specversion": "1.0", "ce-id": "e-1", "ce-source": "here", "ce-type": "a.b", "ce-own": "mine"}
    body = {"instances": [1]}
    double, seen = PREDICT.format("double"), PREDICT.format("seen")
    yield HttpRequest("event, binary", double, body, event)
    yield HttpRequest("event, binary, as the handler sees it", seen, body, event)
    yield HttpRequest("event, binary, not JSON", seen, "no JSON", event)
    yield HttpRequest(
        "event, binary, with its content type", seen, body, {**event, "ce-datacontenttype": "application/json"}
    )
    yield HttpRequest("event, binary, raises", PREDICT.format("fails"), {"instances": ["InvalidInput"]}, event)
    yield HttpRequest("event, binary, gives bytes", PREDICT.format("contract"), {"instances": ["bytes"]}, event)
    yield HttpRequest("event, binary, gives a list", PREDICT.format("contract"), {"instances": ["a list"]}, event)
    yield HttpRequest("event, without its id", double, body, {name: event[name] for name in event if name != "ce-id"})
    yield HttpRequest("event of another version", double, body, {**event, "ce-specversion": "9"})
    yield HttpRequest("event, explain", "/v1/models/explains:explain", body, event)
    yield HttpRequest("event, v2", INFER.format("double"), {"id": "e", "inputs": [tensor([1])]}, event)
    event_body = {"specversion": "1.0", "id": "e-2", "source": "here", "type": "a.b", "time": "2026-01-01T00:00:00Z"}
    event_body |= {"own": "mine", "data": body}
    kind = {"content-type": "application/cloudevents+json"}
    yield HttpRequest("event, structured", double, event_body, kind)
    yield HttpRequest("event, structured, as the handler sees it", seen, event_body, kind)
    yield HttpRequest("event, structured as plain JSON", double, event_body)
    yield HttpRequest(
        "event, structured, no time", seen, {name: event_body[name] for name in event_body if name != "time"}, kind
    )
    yield HttpRequest(
        "event, structured, no data", seen, {name: event_body[name] for name in event_body if name != "data"}, kind
    )
    yield HttpRequest("event, structured, of another version", double, {**event_body, "specversion": "9"}, kind)
    yield HttpRequest("event, structured, explain", "/v1/models/explains:explain", event_body, kind)


def _openai(new: bool) -> Iterator[HttpRequest]:
    if new:
        return
    complete, chat = "/openai/v1/completions", "/openai/v1/chat/completions"
    completion = {"model": "parrot", "prompt": "one two three"}
    chat_request = {
        "model": "parrot",
        "messages": [{"role": "system", "content": "be"}, {"role": "user", "content": "brief"}],
    }
    yield HttpRequest("openai models", "/openai/v1/models")
    yield HttpRequest("openai completion", complete, completion)
    yield HttpRequest("openai completion, shorter", complete, {**completion, "max_tokens": 2})
    yield HttpRequest("openai completion, streamed", complete, {**completion, "stream": True})
    yield HttpRequest(
        "openai completion, its context", complete, {**completion, "prompt": "context"}, {"x-request-id": "r-9"}
    )
    yield HttpRequest("openai completion that fails", complete, {**completion, "prompt": "fail"})
    yield HttpRequest("openai completion without a prompt", complete, {"model": "parrot"})
    yield HttpRequest("openai completion without a model", complete, {"prompt": "one"})
    yield HttpRequest("openai completion of no such model", complete, {**completion, "model": "nope"})
    yield HttpRequest("openai completion of another kind", complete, {**completion, "model": "double"})
    yield HttpRequest("openai completion, not JSON", complete, "{")
    yield HttpRequest("openai chat", chat, chat_request)
    yield HttpRequest("openai chat, streamed", chat, {**chat_request, "stream": True})
    yield HttpRequest("openai chat without messages", chat, {"model": "parrot"})
    yield HttpRequest("openai chat of another kind", chat, {**chat_request, "model": "double"})
    yield HttpRequest("v1 of an openai model", PREDICT.format("parrot"), {"instances": [1]})
    yield HttpRequest("openai embeddings", "/openai/v1/embeddings", {"model": "parrot", "input": "one"})


def _repository() -> Iterator[HttpRequest]:
    def change(verb: str, model: str, case: str = "") -> HttpRequest:
        return HttpRequest(f"{verb} {model}{case}", f"/v2/repository/models/{model}/{verb}", method="POST")

    yield change("load", "fresh")
    yield HttpRequest("a loaded model responds", PREDICT.format("fresh"), {"instances": [4]})
    yield HttpRequest("a loaded model is ready", "/v2/models/fresh/ready")
    yield HttpRequest("a loaded model is listed", "/v1/models")
    yield change("load", "fresh", " again")
    yield change("load", "broken")
    yield change("load", "absent")
    yield change("load", "lazy")
    yield HttpRequest("a model that was loaded unready", "/v1/models/lazy")
    yield change("unload", "fresh")
    yield HttpRequest("an unloaded model", PREDICT.format("fresh"), {"instances": [4]})
    yield change("unload", "fresh", " again")
    yield change("unload", "nope")
    yield change("load", "lasting")
    yield change("unload", "lasting")
    yield HttpRequest("stop was called", PREDICT.format("stopped"), {"instances": []})
