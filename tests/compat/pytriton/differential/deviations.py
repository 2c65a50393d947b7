"""Expected differences from the real PyTriton, with their reasons. All other observations must be equal."""

from __future__ import annotations

from differential import Deviation

LOCAL: dict[str, list[Deviation]] = {
    "local_types.py": [
        Deviation("TritonConfig positional", "Python's own error text", '"TypeError"'),
        Deviation(
            "generate and parse full",
            "the parser accepts the generator's names of a batcher",
            r'"preferred_batch_size": \[4, 8\]',
        ),
    ],
    "local_decorators.py": [
        Deviation("group_by_values padded texts", "padding of texts is bytes, not numpy strings"),
        Deviation("group_by_values of a list", "outputs may be a list", '"gives"'),
        Deviation(
            "group_by_values uneven", "a row is not repeated to fill another one", "give group_by_values a pad_fn"
        ),
    ],
}

BIND: list[Deviation] = [
    Deviation("load a dtype by name", "a dtype's name is a dtype", '"loaded"'),
    Deviation("bind a list with nothing to call", "rejected at the binding instead of at the call", "has to be either"),
    Deviation("a bad model", "a model that fails to load is removed", r'\["PyTritonBadParameterError", true\]'),
]

REFUSED = '"raises": \\["PyTritonClientInferenceServerError", "Error occurred (during|on)'

_SERVER: list[Deviation] = [
    Deviation(
        r"(http|grpc) (one input too (few|many), by (place|name)|another (name|dtype|shape|rank)|unequal batches)"
        r"|(http|grpc) (too large a batch|asyncio wrong dtype)",
        "Penstock's text for an invalid request",
        REFUSED + r".*input '[abcq]'",
    ),
    Deviation(
        r"rest (infer, (unknown (input|output)|no inputs|batch too large|wrong (dtype|shape)|missing input)"
        r"|generate, missing input)",
        "Penstock's text for an invalid request",
        r'"gives": \[400, \{"error": "(unexpected |input )',
    ),
    Deviation("rest infer, not JSON", "invalid JSON is an error of the client", r"\[400, "),
    Deviation(
        "rest (infer of an unknown (model|version)|metadata of an unknown model|unknown model ready)",
        "Penstock's text for unknown names, always with 404",
        r"\[404, \{\"error\": \"(Request for unknown model: 'nope' is not found|model 'add_sub' has no version '4')\"",
    ),
    Deviation(
        "metrics names",
        "Triton has the histogram of first responses only with --metrics-config histogram_latencies=true",
        '"nv_inference_first_response_histogram_ms',
    ),
    Deviation("rest infer of a stream", "names the right endpoint", r"\[501, .*generate_stream"),
    Deviation("rest generate of a stream", "an error has an error status", r"\[500, .*exactly 1 "),
    Deviation(
        r"(http|grpc) optional: the required one missing",
        "a required input is required in models with optional inputs too",
        "input 'a' is missing",
    ),
    Deviation(r"(http|grpc) (an empty axis|contract(_strict)?: empty)", "empty arrays are supported", r'"gives".*\[\['),
    Deviation(
        r"(http|grpc) contract(_strict)?: (lists|numbers) as values",
        "the intended error",
        "Not all values returned by `contract(_strict)?` model callable are numpy arrays",
    ),
    Deviation(
        r"(http|grpc) contract(_strict)?: requests",
        "the repr of a request differs, and PyTriton's contains a set in random order",
        "Got response=Request",
        always=False,
    ),
    Deviation(
        r"(http|grpc) contract: numbers for bytes", "numbers are not converted to text", REFUSED + ".*declared BYTES"
    ),
    Deviation(
        r"(asyncio )?stream (generator|async) that fails",
        "the same text as without a stream",
        "Failed to process the request.*ValueError: enough",
    ),
    Deviation(
        "(http|grpc) config of .*",
        "the configuration has the effective queue, and no folder",
        '"backend_parameters": \\{[^}]*"max_queue": "2147483647"',
    ),
    Deviation("rest config of .*", "the same", r'\[200, .*"backend": "python"'),
    Deviation("rest metadata( of a version| without batching)?", "the platform is Penstock", '"platform": "penstock"'),
    Deviation("rest server", "the list has the supported extensions", '"extensions": \\["binary_tensor_data"'),
]

SERVED: list[Deviation] = [
    *_SERVER,
    Deviation("(http|grpc) objects of text", "the same without its line break", "Element type: <class 'str'>"),
    Deviation("(http|grpc) a list", "the same error from all clients", '"PyTritonClientValueError", "Input a is not'),
    Deviation("grpc headers", "numbers are headers over gRPC too", r'"header_n": \["str", "3"\]'),
    Deviation(
        "(http|grpc) reserved parameter (priority|timeout)",
        "the server's queue obeys them, and a microsecond is too short",
        r'"gives": \[\{\}|PyTritonClientTimeoutError',
    ),
    Deviation("(http|grpc) unknown (model|version)", "a subclass of both errors", "Waiting for model .* timed out"),
    Deviation("url http://", "a URL without a host is invalid", "PyTritonClientInvalidUrlError"),
]
"""Differences of both products, each with its own clients."""

CROSSED: list[Deviation] = _SERVER
"""Differences of the real clients with Penstock's server."""
