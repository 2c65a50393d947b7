"""Allowed deviations of Penstock from KServe, with reasons. Everything else must be equal."""

from __future__ import annotations

from differential import Deviation


def table(what: str, dialect: str) -> list[Deviation]:
    """Returns the rows of a part of the suite in a dialect."""
    return [*_BOTH.get(what, []), *_ONE.get((what, dialect), [])]


_MISTAKE = "the caller's mistake is no failure of the server, and is told in Penstock's words"
_CODES = "the code that is meant, and the text"
_AWAY = "what is not there is not ready, and may come yet: V2's answer to this call has no other word"

_ROUTES = [
    Deviation("get /v2/?|grpc server", "Penstock's version, and the extensions that there are", '"binary_tensor_data"'),
    Deviation("get /(nope|v1/nope|docs)", "`error`, as everywhere", r'404, .*"error": "Not Found"'),
    Deviation("get /v2/repository/index", "there is one, by POST", '405, .*"allow": "POST"'),
    Deviation("another verb", "`error`, as everywhere", r'405, .*"error": "Method Not Allowed"'),
    Deviation(r"get /v2/models/double/versions/1|infer of a version", "version 1 is the model", r'"status": 200'),
    Deviation("grpc metadata of (double|described|sleepy)", "versions and platform are said", '"platform": "penstock"'),
]

_V1 = [
    Deviation(
        r"v1 content type application/json; charset=utf-8|v1 content type Application/JSON",
        "a media type is compared as one, so this is JSON",
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
        "the same without the text of pydantic",
        '500, .*"error": "TypeError : the model answered a V2 request with|"status": 200.*raw',
    ),
    Deviation("v2 gives a stream", "its pieces in one answer", '"status": 200'),
]

_EVENTS = [Deviation("event, v2", "it is answered as an event", '"status": 200.*ce-id')]

_GRPC = [
    Deviation("grpc raw .*", "the size of raw contents is said once", "raw_output_contents"),
    Deviation("grpc seen", "the headers are all that came, the content type too", '"answer"'),
    Deviation(r"grpc outputs \['f'\]", "only what is asked for", r'"outputs": \[\{"name": "f"'),
    Deviation("grpc gives a (stream|v2 dict)", "what V2 over REST takes", '"answer"'),
    Deviation(r"grpc outputs \['nope'\]", "an output that is not there is refused", "INVALID_ARGUMENT"),
    Deviation(
        "grpc (raises .*|plain|gives .*|no inputs|an unknown datatype|too few elements|fewer raw than inputs"
        "|raw too short|raw and contents|load broken|unload again)",
        _CODES,
        r'"code": "(UNIMPLEMENTED|UNAVAILABLE|INVALID_ARGUMENT|NOT_FOUND|RESOURCE_EXHAUSTED|INTERNAL)"',
    ),
    Deviation("grpc (load|unload)", "it is said that it is done", r'"answer": "0a06736572766564'),
]

_PAIRS = [
    Deviation("pair .*headers", "Penstock's client sends no Accept; authorization goes along in both dialects"),
    Deviation(
        "pair .*(InvalidInput|ModelNotReady|ValueError|HTTPException|NotImplementedError|without the model)",
        "the predictor's status and text reach the caller",
        '"status": (404|400|503|500|418|501)|"code": "(NOT_FOUND|INVALID_ARGUMENT|INTERNAL)"',
    ),
]

_BOTH: dict[str, list[Deviation]] = {
    "local_types.py": [
        Deviation(
            "InferInput too few", "it is the caller's mistake, and says which input's", '"InvalidInput", "input '
        ),
    ],
    "local_helpers.py": [
        Deviation("deserialize cut", "it is the caller's mistake, and says where", '"InvalidInput", "element 0 '),
        Deviation("server, a dict of something", "Ray's deployments are taken in both dialects", "Ray Serve|RayServe"),
    ],
    "server": [*_ROUTES, *_V1, *_V2, *_EVENTS, *_GRPC],
    "events": [
        *_EVENTS,
        Deviation(
            "event, structured, (no time|no data|of another version)",
            "what is merged is what there is",
            '"status": 200',
        ),
    ],
    "pairs": _PAIRS,
}

_ONE: dict[tuple[str, str], list[Deviation]] = {
    ("local_types.py", "0.13"): [
        Deviation("request raw to_rest", "raw data travels as JSON too", r'"data": \[0.0, 1.0\]'),
        Deviation("response raw to_rest", "no size is said of data that is not there", r'"shape": \[2\]\}\]'),
    ],
    ("local_types.py", "0.21"): [
        Deviation("from_bytes short", "it is the caller's mistake, and says which input's", '"InvalidInput", "input '),
    ],
    ("local_helpers.py", "0.21"): [
        Deviation(
            "call with instances that are no list",
            "it is refused without a predictor's configuration too",
            "Expected .*instances.* to be a list",
        ),
        Deviation("verbs", "both dialects' verbs", "GENERATE"),
    ],
    ("local_helpers.py", "0.13"): [
        Deviation("a plain model predicts", "as in 0.21", "Could not find PredictorConfig"),
        Deviation("repository, unload again", "as in 0.21", "model with name m does not exist"),
        Deviation("server, a model without a name", "as in 0.21, which is an exception still", "ValueError"),
    ],
    ("server", "0.21"): [
        Deviation("grpc ready of (nope|sleepy)", _AWAY, r'"answer": \{\}'),
        Deviation("v2 JSON FP16", "half floats in JSON are numbers as others are", '"status": 200'),
        Deviation("event, explain", "attributes are merged only where that is asked for", '"status": 200'),
    ],
    ("server", "0.13"): [
        Deviation("grpc ready of nope", _AWAY, r'"answer": \{\}'),
        Deviation("v[12] of a model that is not ready", "when to ask again is said", '"retry-after": "1"'),
        Deviation(
            "grpc (metadata of nope|without a model|an unloaded model|of a model that is not ready)",
            _CODES,
            '"(NOT_FOUND|UNAVAILABLE)", "details": "Model with name',
        ),
        Deviation(r"v2 outputs \['(f|t', 'n)'\]", "only what is asked for, as in 0.21", '"status": 200'),
        Deviation("v2 JSON FP16", "no size is said of data that is not there", r'"data": \[2.0\]'),
        Deviation("v1 gives (an array within|numpy numbers|not a number)", "as in 0.21", '"status": 200'),
        Deviation("v1 gives (a set|an object)", "as in 0.21", "Type is not JSON serializable"),
        Deviation("v1 of an openai model", "as in 0.21", "does not support inference"),
        Deviation("openai chat, streamed", "the pieces' usage is handed on", '"usage"'),
        Deviation("openai embeddings", "there are embeddings, but not of this model", '"status": 400'),
    ],
}
