"""Calls the models of server.py with every client, and with plain requests. Its argument is the server's output."""

from __future__ import annotations

import asyncio
import json
import re
import sys
import urllib.error
import urllib.request
from typing import Any

import numpy as np
from contract import RESULTS
from observe import show
from pytriton.client import (
    AsyncioDecoupledModelClient,
    AsyncioModelClient,
    DecoupledModelClient,
    FuturesModelClient,
    ModelClient,
)

ADDRESSES = json.loads(sys.argv[1])
F = np.float32
PATIENCE = 20


def client(model: str, protocol: str = "http", version: str | None = None, **more: Any) -> ModelClient:
    return ModelClient(
        ADDRESSES[protocol], model, version, init_timeout_s=PATIENCE, inference_timeout_s=PATIENCE, **more
    )


def infer(model: str, protocol: str, *inputs: Any, one: bool = False, version: str | None = None, **named: Any) -> Any:
    with client(model, protocol, version) as connected:
        return (connected.infer_sample if one else connected.infer_batch)(*inputs, **named)


def echo(protocol: str, **named: Any) -> Any:
    """Returns the response to an echo."""
    response = infer("dtypes", protocol, **named)
    return {name: response[name] for name in named}


def rows(*values: float, dtype: Any = F) -> Any:
    return np.array(values, dtype).reshape(-1, 1)


def tensors() -> dict[str, Any]:
    arrays: dict[str, Any] = {"bool": np.array([[True, False]]), "float16": np.array([[1.5, -2]], np.float16)}
    arrays["float32"] = np.array([[1.5, np.inf]], F)
    arrays["float64"] = np.array([[0.1, np.nan]])
    for bits in (8, 16, 32, 64):
        for kind in (f"int{bits}", f"uint{bits}"):
            limits = np.iinfo(kind)
            arrays[kind] = np.array([[limits.min, limits.max]], kind)
    for name in ("bytes", "object", "bytes_", "object_"):
        arrays[name] = np.array([[b"a", b"", "gr\u00fcn".encode()]], object)
    return arrays


for protocol in ("http", "grpc"):
    for name, array in tensors().items():
        show(f"{protocol} dtype {name}", lambda: echo(protocol, **{name: array}))
    show(f"{protocol} dtype bytes with a zero", lambda: echo(protocol, object=np.array([[b"a\0b"]], object)))
    show(f"{protocol} dtype of fixed bytes", lambda: echo(protocol, bytes=np.array([[b"ab", b"c"]])))
    show(
        f"{protocol} several dtypes",
        lambda: echo(protocol, int8=rows(1, dtype=np.int8), float64=rows(2, dtype=float)),
    )
    show(f"{protocol} an empty axis", lambda: echo(protocol, float32=np.zeros((2, 0), F)))
    show(f"{protocol} not contiguous", lambda: echo(protocol, float32=np.arange(6, dtype=F).reshape(2, 3).T))
    for mode in RESULTS:
        # With PyTriton, an array that cannot be cast ends the instance, and all later requests hang.
        for model in ("contract_strict",) if mode == "bytes for numbers" else ("contract", "contract_strict"):
            inputs = {"mode": np.array([[mode.encode()]]), "x": rows(2)}
            show(f"{protocol} {model}: {mode}", lambda: infer(model, protocol, **inputs))
    for kind in ("awaited", "generated", "async_generated", "object", "method", "lambda", "partial"):
        show(f"{protocol} kind {kind}", lambda: infer(f"kind_{kind}", protocol, rows(1, 2)))

    # Batches and samples, by position and by name.
    show(f"{protocol} batch by place", lambda: infer("add_sub", protocol, rows(1, 2), rows(3, 4)))
    show(f"{protocol} batch by name", lambda: infer("add_sub", protocol, b=rows(1, 2), a=rows(3, 4)))
    show(f"{protocol} sample by place", lambda: infer("add_sub", protocol, rows(1)[0], rows(3)[0], one=True))
    show(f"{protocol} sample without batching", lambda: infer("sampled", protocol, np.ones(2, F), one=True))
    show(f"{protocol} batch without batching", lambda: infer("sampled", protocol, np.ones((1, 2), F)))
    show(f"{protocol} by place and name", lambda: infer("add_sub", protocol, rows(1), b=rows(1)))
    show(f"{protocol} without inputs", lambda: infer("add_sub", protocol))
    show(f"{protocol} one input too few, by place", lambda: infer("add_sub", protocol, rows(1)))
    show(f"{protocol} one input too few, by name", lambda: infer("add_sub", protocol, a=rows(1)))
    show(f"{protocol} one input too many, by place", lambda: infer("add_sub", protocol, rows(1), rows(1), rows(1)))
    show(f"{protocol} one input too many, by name", lambda: infer("add_sub", protocol, a=rows(1), b=rows(1), c=rows(1)))
    show(f"{protocol} another name", lambda: infer("add_sub", protocol, a=rows(1), q=rows(1)))
    show(f"{protocol} another dtype", lambda: infer("add_sub", protocol, a=rows(1, dtype=float), b=rows(1)))
    show(f"{protocol} another shape", lambda: infer("add_sub", protocol, a=np.ones((1, 2), F), b=np.ones((1, 2), F)))
    show(f"{protocol} another rank", lambda: infer("add_sub", protocol, a=np.ones((1, 1, 1), F), b=rows(1)))
    show(f"{protocol} unequal batches", lambda: infer("add_sub", protocol, a=rows(1, 2), b=rows(1)))
    show(f"{protocol} too large a batch", lambda: infer("add_sub", protocol, rows(*range(9)), rows(*range(9))))
    show(f"{protocol} unicode", lambda: echo(protocol, bytes=np.array([["text"]])))
    show(f"{protocol} objects of text", lambda: echo(protocol, object=np.array([["text"]], object)))
    show(f"{protocol} a list", lambda: infer("add_sub", protocol, [[1]], [[2]]))

    # Optional inputs, groups, names, versions, instances, the context.
    show(f"{protocol} optional: none", lambda: infer("optional", protocol, a=rows(1, 2)))
    show(f"{protocol} optional: one", lambda: infer("optional", protocol, a=rows(1, 2), b=rows(1, 1)))
    show(f"{protocol} optional: both", lambda: infer("optional", protocol, a=rows(1, 2), b=rows(1, 1), c=rows(7, 7)))
    show(
        f"{protocol} optional: different first values", lambda: infer("optional", protocol, a=rows(1, 2), c=rows(7, 8))
    )
    show(f"{protocol} optional: the required one missing", lambda: infer("optional", protocol, b=rows(1)))
    show(f"{protocol} groups", lambda: infer("grouped", protocol, rows(1, 2, 3), np.array([[b"a"], [b"b"], [b"a"]])))
    show(
        f"{protocol} default names",
        lambda: infer("unnamed", protocol, INPUT_1=rows(1), second=rows(2), INPUT_3=rows(3)),
    )
    show(f"{protocol} instances", lambda: infer("instances", protocol, rows(1))["y"][0, 0] in (1, 2))
    show(f"{protocol} context", lambda: json.loads(infer("context", protocol, rows(1))["config"][0, 0]))
    show(f"{protocol} version", lambda: sorted(infer("context", protocol, rows(1), version="3")))

    # Configurations that clients read.
    for model in ("add_sub", "sampled", "optional", "grouped", "context", "stream_def", "dtypes", "instances"):
        show(f"{protocol} config of {model}", lambda: client(model, protocol).model_config)
    show(
        f"{protocol} is_batching_supported",
        lambda: [client(m, protocol).is_batching_supported for m in ("add_sub", "sampled")],
    )

    # Parameters and headers.
    def received(parameters: Any = None, headers: Any = None) -> Any:
        response = infer("parameters", protocol, rows(1), parameters=parameters, headers=headers)
        return [json.loads(response["parameters"][0, 0]), json.loads(response["requested_outputs"][0, 0])]

    show(f"{protocol} parameters", lambda: received({"text": "a", "number": 3, "yes": True, "negative": -1}))
    show(f"{protocol} headers", lambda: received(None, {"header_a": "b", "header_n": 3, "other": "x"}))
    show(f"{protocol} parameters and headers", lambda: received({"a": 1}, {"header_b": "2"}))
    show(
        f"{protocol} a header that is a parameter", lambda: received({"header_b": "parameter"}, {"header_b": "header"})
    )
    for name, value in {"a float": 1.5, "none": None, "bytes": b"b", "a list": [1]}.items():
        show(f"{protocol} parameter of {name}", lambda: received({"p": value}))
        show(f"{protocol} header of {name}", lambda: received(None, {"header_p": value}))
    show(f"{protocol} parameters that are none", lambda: received([("a", 1)]))
    show(f"{protocol} a parameter without a text for its name", lambda: received({1: 1}))
    for name in (
        "priority",
        "timeout",
        "sequence_id",
        "sequence_start",
        "sequence_end",
        "headers",
        "binary_data_output",
        "triton_x",
    ):
        show(f"{protocol} reserved parameter {name}", lambda: received({name: 1}))

    # Errors of the clients themselves.
    show(
        f"{protocol} unknown model",
        lambda: ModelClient(ADDRESSES[protocol], "nope", init_timeout_s=1, inference_timeout_s=1).infer_batch(rows(1)),
    )
    show(
        f"{protocol} unknown version",
        lambda: ModelClient(ADDRESSES[protocol], "add_sub", "9", init_timeout_s=1, inference_timeout_s=1).infer_batch(
            rows(1)
        ),
    )
    show(f"{protocol} decoupled by ModelClient", lambda: infer("stream_generator", protocol, rows(1, dtype=np.int32)))

    def closed() -> Any:
        connected = client("add_sub", protocol)
        connected.close()
        return connected.infer_batch(rows(1), rows(1))

    show(f"{protocol} closed", closed)
    show(
        f"{protocol} no server",
        lambda: ModelClient(f"{protocol}://127.0.0.1:9", "m", init_timeout_s=1, inference_timeout_s=1).infer_batch(
            rows(1)
        ),
    )

    async def asyncio_all() -> Any:
        async with AsyncioModelClient(ADDRESSES[protocol], "add_sub", init_timeout_s=PATIENCE) as connected:
            both = await asyncio.gather(
                connected.infer_batch(rows(1), rows(2)), connected.infer_sample(rows(1)[0], rows(3)[0])
            )
            return [both, (await connected.model_config).model_name]

    async def asyncio_one(model: str, *inputs: Any, **named: Any) -> Any:
        async with AsyncioModelClient(ADDRESSES[protocol], model, init_timeout_s=PATIENCE) as connected:
            return await connected.infer_batch(*inputs, **named)

    show(f"{protocol} asyncio", lambda: asyncio.run(asyncio_all()))
    show(
        f"{protocol} asyncio wrong dtype",
        lambda: asyncio.run(asyncio_one("add_sub", a=rows(1, dtype=float), b=rows(1))),
    )
    show(f"{protocol} asyncio a list", lambda: asyncio.run(asyncio_one("add_sub", [[1]], [[2]])))
    show(
        f"{protocol} asyncio failing",
        lambda: asyncio.run(asyncio_one("contract", mode=np.array([[b"ValueError"]]), x=rows(1))),
    )
    show(f"{protocol} asyncio without batching", lambda: asyncio.run(asyncio_one("sampled", np.ones((1, 2), F))))


def futures() -> Any:
    with FuturesModelClient(
        ADDRESSES["http"], "add_sub", init_timeout_s=PATIENCE, inference_timeout_s=PATIENCE
    ) as connected:
        waiting = [connected.infer_batch(rows(number), rows(1)) for number in range(10)]
        return [[one.result()["add"][0, 0] for one in waiting], connected.model_config().result().model_name]


def failing_future() -> Any:
    with FuturesModelClient(
        ADDRESSES["http"], "contract", init_timeout_s=PATIENCE, inference_timeout_s=PATIENCE
    ) as connected:
        return connected.infer_batch(mode=np.array([[b"KeyError"]]), x=rows(1)).result()


show("futures", futures)
show("futures failing", failing_future)
show("futures of no workers", lambda: FuturesModelClient(ADDRESSES["http"], "m", max_workers=0))
show("futures of no queue", lambda: FuturesModelClient(ADDRESSES["http"], "m", max_queue_size=-1))


def stream(model: str, count: int) -> Any:
    responses = []
    with DecoupledModelClient(
        ADDRESSES["grpc"], model, init_timeout_s=PATIENCE, inference_timeout_s=PATIENCE
    ) as connected:
        try:
            for response in connected.infer_sample(np.array([count], np.int32)):
                responses.append(response)
        except Exception as error:
            return [responses, type(error).__name__, str(error)]
    return responses


def two_streams() -> Any:
    with DecoupledModelClient(ADDRESSES["grpc"], "stream_generator", init_timeout_s=PATIENCE) as connected:
        first = connected.infer_sample(np.array([3], np.int32))
        next(first)
        try:
            return list(connected.infer_sample(np.array([1], np.int32)))
        finally:
            list(first)


async def asyncio_stream(model: str, count: int) -> Any:
    async with AsyncioDecoupledModelClient(ADDRESSES["grpc"], model, init_timeout_s=PATIENCE) as connected:
        return [response async for response in connected.infer_sample(np.array([count], np.int32))]


async def http_stream() -> Any:
    async with AsyncioDecoupledModelClient(ADDRESSES["http"], "stream_def", init_timeout_s=PATIENCE) as connected:
        return [response async for response in connected.infer_sample(np.array([1], np.int32))]


for model in ("def", "generator", "async", "batch"):
    for count in (0, 1, 3):
        show(f"stream {model} of {count}", lambda: stream(f"stream_{model}", count))
        show(f"asyncio stream {model} of {count}", lambda: asyncio.run(asyncio_stream(f"stream_{model}", count)))
for model in ("generator", "async"):
    show(f"stream {model} that fails", lambda: stream(f"stream_{model}", 9))
    show(f"asyncio stream {model} that fails", lambda: asyncio.run(asyncio_stream(f"stream_{model}", 9)))
show("two streams at once", two_streams)
show("stream over http", lambda: DecoupledModelClient(ADDRESSES["http"], "stream_def"))
show("asyncio stream over http", lambda: asyncio.run(http_stream()))
show("stream of a coupled model", lambda: stream("add_sub", 1))


for url in ("https://localhost", "ftp://localhost:1", "http://", 5):
    show(f"url {url}", lambda: ModelClient(url, "m"))


# Plain requests.
def rest(path: str, body: Any = None, *, at: str = "http", token: bool = False, post: bool = False) -> Any:
    data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(ADDRESSES[at] + path, data if data is not None or not post else b"")
    if token:
        request.add_header("triton-access-token", ADDRESSES["token"])
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as response:
            return [response.status, read(response.read())]
    except urllib.error.HTTPError as error:
        return [error.code, read(error.read())]


def read(body: bytes) -> Any:
    if body.startswith(b"data: "):
        return [json.loads(event.removeprefix("data: ")) for event in body.decode().split("\n\n") if event.strip()]
    try:
        return json.loads(body)
    except ValueError:
        return body.decode()


def json_input(name: str = "x", shape: Any = (1, 1), data: Any = (2,), datatype: str = "FP32") -> Any:
    return {"name": name, "shape": list(shape), "datatype": datatype, "data": list(data)}


A, B = json_input("a"), json_input("b")
M = "/v2/models"
show("rest server", lambda: rest("/v2"))
show("rest live", lambda: rest("/v2/health/live")[0])
show("rest ready", lambda: rest("/v2/health/ready")[0])
show("rest model ready", lambda: rest(f"{M}/add_sub/ready")[0])
show("rest unknown model ready", lambda: rest(f"{M}/nope/ready"))
show("rest metadata", lambda: rest(f"{M}/add_sub"))
show("rest metadata of a version", lambda: rest(f"{M}/context/versions/3"))
show("rest metadata of an unknown model", lambda: rest(f"{M}/nope"))
show("rest metadata without batching", lambda: rest(f"{M}/sampled"))
for model in ("add_sub", "sampled", "grouped", "optional", "stream_def", "context"):
    show(f"rest config of {model}", lambda: rest(f"{M}/{model}/config"))
show("rest infer", lambda: rest(f"{M}/add_sub/infer", {"inputs": [A, B]}))
show(
    "rest infer, one output",
    lambda: rest(f"{M}/add_sub/infer", {"id": "7", "inputs": [A, B], "outputs": [{"name": "sub"}]}),
)
show("rest infer, unknown output", lambda: rest(f"{M}/add_sub/infer", {"inputs": [A, B], "outputs": [{"name": "q"}]}))
show("rest infer of an unknown model", lambda: rest(f"{M}/nope/infer", {"inputs": [A]}))
show("rest infer of an unknown version", lambda: rest(f"{M}/add_sub/versions/4/infer", {"inputs": [A, B]}))
show("rest infer, not JSON", lambda: rest(f"{M}/add_sub/infer", b"{bad"))
show("rest infer, no inputs", lambda: rest(f"{M}/add_sub/infer", {"inputs": []}))
show(
    "rest infer, batch too large",
    lambda: rest(
        f"{M}/add_sub/infer", {"inputs": [json_input("a", (9, 1), range(9)), json_input("b", (9, 1), range(9))]}
    ),
)
show(
    "rest infer, wrong dtype",
    lambda: rest(f"{M}/add_sub/infer", {"id": "7", "inputs": [json_input("a", datatype="INT32"), B]}),
)
show("rest infer, wrong shape", lambda: rest(f"{M}/add_sub/infer", {"inputs": [json_input("a", (1, 2), (1, 2)), B]}))
show("rest infer, unknown input", lambda: rest(f"{M}/add_sub/infer", {"inputs": [A, json_input("q")]}))
show("rest infer, missing input", lambda: rest(f"{M}/add_sub/infer", {"inputs": [A]}))
show(
    "rest infer of a stream", lambda: rest(f"{M}/stream_def/infer", {"inputs": [json_input("count", datatype="INT32")]})
)
show(
    "rest infer that fails",
    lambda: rest(
        f"{M}/contract/infer", {"inputs": [json_input("mode", datatype="BYTES", data=["ValueError"]), json_input()]}
    ),
)
show("rest generate", lambda: rest(f"{M}/add_sub/generate", {"a": [1], "b": [2]}))
show("rest generate of numbers", lambda: rest(f"{M}/add_sub/generate", {"a": 1, "b": 2}))
show("rest generate, nested", lambda: rest(f"{M}/add_sub/generate", {"a": [[1]], "b": [[2]]}))
show("rest generate, missing input", lambda: rest(f"{M}/add_sub/generate", {"a": 1}))
show("rest generate of a stream", lambda: rest(f"{M}/stream_generator/generate", {"count": 3}))
show("rest generate of a stream of one", lambda: rest(f"{M}/stream_generator/generate", {"count": 1}))
show("rest generate_stream", lambda: rest(f"{M}/stream_generator/generate_stream", {"count": 3}))
show("rest generate_stream of one", lambda: rest(f"{M}/add_sub/generate_stream", {"a": 1, "b": 2}))
for path in (
    f"{M}/add_sub/stats",
    "/v2/repository/index",
    "/v2/logging",
    f"{M}/add_sub/trace/setting",
    "/v2/systemsharedmemory/status",
):
    show(f"rest {path} without the token", lambda: rest(path, post="repository" in path))
    show(f"rest {path} with the token", lambda: [rest(path, token=True, post="repository" in path)[0]])


def counted() -> Any:
    (stats,) = rest(f"{M}/sampled/stats", token=True)[1]["model_stats"]
    return [
        stats["name"],
        stats["version"],
        sorted(stats),
        stats["inference_count"],
        stats["inference_stats"]["success"]["count"],
    ]


def nv_metrics() -> Any:
    lines = rest("/metrics", at="metrics")[1].splitlines()
    return sorted({line.split("{")[0] for line in lines if line.startswith("nv_inference")})


def nv_counted() -> Any:
    lines = rest("/metrics", at="metrics")[1].splitlines()
    mine = [
        line for line in lines if line.startswith("nv_inference") and 'model="sampled"' in line and "_us" not in line
    ]
    # The order of labels is arbitrary.
    return sorted(
        [name, *sorted(labels.rstrip("}").split(",")), value]
        for line in mine
        for name, labels, value in [re.split("[{ ]", line)]
    )


show("rest statistics", counted)
show("metrics names", nv_metrics)
show("metrics of a model", nv_counted)
