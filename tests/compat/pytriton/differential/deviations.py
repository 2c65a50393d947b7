"""Expected differences from the real PyTriton, with their reasons. All other observations must be equal."""

from __future__ import annotations

from differential import Deviation

LOCAL: dict[str, list[Deviation]] = {
    "local_types.py": [
        Deviation("TritonConfig positional", "Python's own words for it", '"TypeError"'),
        Deviation(
            "generate and parse full",
            "a batcher is read by the names that the generator writes",
            r'"preferred_batch_size": \[4, 8\]',
        ),
    ],
    "local_decorators.py": [
        Deviation("group_by_values padded texts", "padding of texts is bytes as they are, not numpy's"),
        Deviation("group_by_values of a list", "outputs in their order are accepted", '"gives"'),
        Deviation(
            "group_by_values uneven", "a row is not repeated to fill another's place", "give group_by_values a pad_fn"
        ),
    ],
}

BIND: list[Deviation] = [
    Deviation("load a dtype by name", "a dtype's name is a dtype", '"loaded"'),
    Deviation("bind a list with nothing to call", "told when it is bound, not when it is called", "has to be either"),
    Deviation("a bad model", "one that cannot be loaded is forgotten", r'\["PyTritonBadParameterError", true\]'),
]

REFUSED = '"raises": \\["PyTritonClientInferenceServerError", "Error occurred (during|on)'

_SERVER: list[Deviation] = [
    Deviation(
        r"(http|grpc) (one input too (few|many), by (place|name)|another (name|dtype|shape|rank)|unequal batches)"
        r"|(http|grpc) (too large a batch|asyncio wrong dtype)",
        "Penstock's words for a wrong request",
        REFUSED + r".*input '[abcq]'",
    ),
    Deviation(
        r"rest (infer, (unknown (input|output)|no inputs|batch too large|wrong (dtype|shape)|missing input)"
        r"|generate, missing input)",
        "Penstock's words for a wrong request",
        r'"gives": \[400, \{"error": "(unexpected |input )',
    ),
    Deviation("rest infer, not JSON", "what is no JSON is the client's mistake", r"\[400, "),
    Deviation(
        "rest (infer of an unknown (model|version)|metadata of an unknown model|unknown model ready)",
        "Penstock's words for what is not there, and 404 for all of it",
        r"\[404, \{\"error\": \"(unknown model 'nope'|model 'add_sub' has no version '4')\"",
    ),
    Deviation("rest infer of a stream", "says what to call instead", r"\[501, .*generate_stream"),
    Deviation("rest generate of a stream", "an error has the status of one", r"\[500, .*exactly 1 answer"),
    Deviation(
        r"(http|grpc) optional: the required one missing",
        "a required input is required beside optional ones too",
        "input 'a' is missing",
    ),
    Deviation(
        r"(http|grpc) (an empty axis|contract(_strict)?: empty)", "arrays of no elements travel", r'"gives".*\[\['
    ),
    Deviation(
        r"(http|grpc) contract(_strict)?: (lists|numbers) as values",
        "the error that was meant",
        "Not all values returned by `contract(_strict)?` model callable are numpy arrays",
    ),
    Deviation(
        r"(http|grpc) contract(_strict)?: requests",
        "a request shows itself otherwise, and PyTriton's with a set, whose order is chance",
        "Got response=Request",
        always=False,
    ),
    Deviation(r"(http|grpc) contract: numbers for bytes", "numbers are no texts", REFUSED + ".*declared BYTES"),
    Deviation(
        r"(asyncio )?stream (generator|async) that fails",
        "the same text as without a stream",
        "Failed to process the request.*ValueError: enough",
    ),
    Deviation(
        "(http|grpc) config of .*",
        "the configuration tells of the queue that holds, and names no folder",
        '"backend_parameters": \\{[^}]*"max_queue": "2147483647"',
    ),
    Deviation("rest config of .*", "the same", r'\[200, .*"backend": "python"'),
    Deviation("rest metadata( of a version| without batching)?", "the platform is Penstock", '"platform": "penstock"'),
    Deviation("rest server", "the extensions are those that there are", '"extensions": \\["binary_tensor_data"'),
]

SERVED: list[Deviation] = [
    *_SERVER,
    Deviation("(http|grpc) objects of text", "the same without its line break", "Element type: <class 'str'>"),
    Deviation("(http|grpc) a list", "the same from all clients", '"PyTritonClientValueError", "Input a is not'),
    Deviation("grpc headers", "numbers are headers over gRPC too", r'"header_n": \["str", "3"\]'),
    Deviation(
        "(http|grpc) reserved parameter (priority|timeout)",
        "the server's queue heeds them: a microsecond is too short",
        r'"gives": \[\{\}|PyTritonClientTimeoutError',
    ),
    Deviation(
        "(http|grpc) unknown (model|version)", "a class below both errors that it is", "Waiting for model .* timed out"
    ),
    Deviation("url http://", "a URL without a host is none", "PyTritonClientInvalidUrlError"),
]
"""Differences of both products, each with its own clients."""

CROSSED: list[Deviation] = _SERVER
"""Differences of the real clients with Penstock's server."""
