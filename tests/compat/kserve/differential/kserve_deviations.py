"""Allowed deviations of Penstock from KServe, with reasons. Everything else must be equal."""

from __future__ import annotations

from differential import Deviation


def table(part: str, dialect: str) -> list[Deviation]:
    """Returns the rows of a part of the suite in a dialect."""
    return [*_BOTH.get(part, []), *_ONE.get((part, dialect), [])]


_MISTAKE = "a client error is not a server failure, and has Penstock's text"
_CODES = "the intended code and text"
_AWAY = "an unknown model is not ready, as V2's response has no other value"

_ROUTES = [
    Deviation("get /v2/?|grpc server", "Penstock's version and extensions", '"binary_tensor_data"'),
    Deviation("get /(nope|v1/nope|docs)", "`error`, as in all responses", r'404, .*"error": "Not Found'),
    Deviation("get /v2/repository/index", "supported by POST", '405, .*"allow": "POST"'),
    Deviation("another verb", "`error`, as in all responses", r'405, .*"error": "Method Not Allowed"'),
    Deviation(r"get /v2/models/double/versions/1|infer of a version", "version 1 is the model", r'"status": 200'),
    Deviation("grpc metadata of (double|described|sleepy)", "versions and platform are set", '"platform": "penstock"'),
]

_V1 = [
    Deviation(
        r"v1 content type application/json; charset=utf-8|v1 content type Application/JSON",
        "parameters and case of a media type do not matter: this is JSON",
        '"payload": "dict"',
    ),
]

_V2 = [
    Deviation(
        r"v2 (not JSON|an empty body|no inputs|inputs are no list|without \w+|too few elements|an unknown datatype"
        r"|UINT8 too large|text in a number|binary too short|binary of another size|binary without its length"
        r"|outputs \['nope'\])",
        _MISTAKE,
        '"status": 400',
    ),
    Deviation(
        r"v2 gives (a dict|an empty dict|a list|a number|none|a text|an array within|numpy numbers|not a number"
        r"|large numbers|texts|a wrong v2 dict|a tuple|a set|an object|bytes)",
        "the same status without pydantic's text",
        '500, .*"error": "TypeError : the model answered a V2 request with|"status": 200.*raw',
    ),
    Deviation("v2 gives a stream", "its chunks in one response", '"status": 200'),
]

_EVENTS = [Deviation("event, v2", "the response is an event", '"status": 200.*ce-id')]

_GRPC = [
    Deviation("grpc raw .*", "the size of raw contents is set once", "raw_output_contents"),
    Deviation("grpc seen", "all request headers, with the content type", '"response"'),
    Deviation(r"grpc outputs \['f'\]", "only requested outputs", r'"outputs": \[\{"name": "f"'),
    Deviation("grpc gives a (stream|v2 dict)", "the same results as V2 over REST", '"response"'),
    Deviation(r"grpc outputs \['nope'\]", "an unknown output is refused", "INVALID_ARGUMENT"),
    Deviation(
        "grpc (raises .*|plain|gives .*|no inputs|an unknown datatype|too few elements|fewer raw than inputs"
        "|raw too short|raw and contents|load broken|unload again)",
        _CODES,
        r'"code": "(UNIMPLEMENTED|UNAVAILABLE|INVALID_ARGUMENT|NOT_FOUND|RESOURCE_EXHAUSTED|INTERNAL)"',
    ),
    Deviation("grpc (load|unload)", "the response reports success", r'"response": "0a06736572766564'),
]

_PAIRS = [
    Deviation("pair .*headers", "Penstock's client sends no Accept; authorization is forwarded in both dialects"),
    Deviation(
        "pair .*(InvalidInput|ModelNotReady|ValueError|HTTPException|NotImplementedError|without the model)",
        "the predictor's status and text reach the client",
        '"status": (404|400|503|500|418|501)|"code": "(NOT_FOUND|INVALID_ARGUMENT|INTERNAL)"',
    ),
]

_BOTH: dict[str, list[Deviation]] = {
    "local_types.py": [
        Deviation("InferInput too few", "a client error that names the input", '"InvalidInput", "input '),
    ],
    "local_helpers.py": [
        Deviation("deserialize cut", "a client error with the position", '"InvalidInput", "element 0 '),
        Deviation(
            "server, a dict of something", "Ray's deployments are accepted in both dialects", "Ray Serve|RayServe"
        ),
    ],
    "server": [*_ROUTES, *_V1, *_V2, *_EVENTS, *_GRPC],
    "events": [
        *_EVENTS,
        Deviation(
            "event, structured, (no time|no data|of another version)",
            "only existing attributes are merged",
            '"status": 200',
        ),
    ],
    "pairs": _PAIRS,
}

_ONE: dict[tuple[str, str], list[Deviation]] = {
    ("local_types.py", "0.13"): [
        Deviation("request raw to_rest", "raw data travels as JSON too", r'"data": \[0.0, 1.0\]'),
        Deviation("response raw to_rest", "no size without raw data", r'"shape": \[2\]\}\]'),
    ],
    ("local_types.py", "0.21"): [
        Deviation("from_bytes short", "a client error that names the input", '"InvalidInput", "input '),
    ],
    ("local_helpers.py", "0.21"): [
        Deviation(
            "call with instances that are no list",
            "refused even without a predictor's configuration",
            "Expected .*instances.* to be a list",
        ),
        Deviation("verbs", "the verbs of both dialects", "GENERATE"),
    ],
    ("local_helpers.py", "0.13"): [
        Deviation("a plain model predicts", "as in 0.21", "Could not find PredictorConfig"),
        Deviation("repository, unload again", "as in 0.21", "model with name m does not exist"),
        Deviation("server, a model without a name", "as in 0.21: an exception", "ValueError"),
    ],
    ("server", "0.21"): [
        Deviation("grpc ready of (nope|sleepy)", _AWAY, r'"response": \{\}'),
        Deviation("v2 JSON FP16", "FP16 is allowed in JSON", '"status": 200'),
        Deviation("event, explain", "attributes are merged only with CE_MERGE", '"status": 200'),
    ],
    ("server", "0.13"): [
        Deviation("grpc ready of nope", _AWAY, r'"response": \{\}'),
        Deviation("v[12] of a model that is not ready", "Retry-After is set", '"retry-after": "1"'),
        Deviation(
            "grpc (metadata of nope|without a model|an unloaded model|of a model that is not ready)",
            _CODES,
            '"(NOT_FOUND|UNAVAILABLE)", "details": "Model with name',
        ),
        Deviation(r"v2 outputs \['(f|t', 'n)'\]", "only requested outputs, as in 0.21", '"status": 200'),
        Deviation("v2 JSON FP16", "no size without raw data", r'"data": \[2.0\]'),
        Deviation("v1 gives (an array within|numpy numbers|not a number)", "as in 0.21", '"status": 200'),
        Deviation("v1 gives (a set|an object)", "as in 0.21", "Type is not JSON serializable"),
        Deviation("v1 of an openai model", "as in 0.21", "does not support inference"),
        Deviation("openai chat, streamed", "the chunks' usage is forwarded", '"usage"'),
        Deviation("openai embeddings", "the route exists, but this model has no embeddings", '"status": 400'),
    ],
}
