"""Banner of a started server: its models, its addresses, and an example request."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from penstock._config import listeners, tls
from penstock._model.describe import batching_text, inputs_text, outputs_text
from penstock._spec import datatypes

if TYPE_CHECKING:
    from penstock._model.model import Model
    from penstock._server.server import Server
    from penstock._spec.definition import Definition
    from penstock._spec.tensor import Tensor

_MOST_EXAMPLES = 3
"""Most example requests of a banner: for the first models."""

_INLINE_ELEMENTS = 32
"""Most numbers in an example request; a larger one pipes in zero bytes instead."""

_SAMPLES: dict[str, Any] = {"BOOL": True, "BYTES": "text"}
_VARIABLE_AXIS = 2
_WIDEST_ROUTES = 50
"""Most characters of a model's routes in the table; `/docs` has all of them."""

Greetings: TypeAlias = Callable[[Sequence[Any], str], Sequence[str]]
"""Returns example requests for a server with these models and this HTTP URL."""


def describe(server: Server, models: Sequence[Any], greetings: Greetings | None = None) -> str:
    """The banner of a started server."""
    rows: list[tuple[str, ...]] = [("MODEL", "VERSION", "INPUTS", "OUTPUTS", "BATCHING", "INSTANCES")]
    # Models whose names begin with a colon serve routes of other models, and are not listed.
    rows += [_row(definition) for definition in server.definitions if not definition.name.startswith(":")]
    lines = ["", *_table(rows), ""]
    if server.http_address:
        lines.append(f"http  {server.http_url}{_listening(server.http_url, server.http_address)}")
    if server.grpc_address:
        lines.append(f"grpc  {server.grpc_url}{_listening(server.grpc_url, server.grpc_address)}")
    if server.http_address and server.config.docs and not server.http_url.startswith("unix:"):
        lines.append(f"docs  {server.http_url}/docs")
    if server.http_address and server.config.live != "off" and not server.http_url.startswith("unix:"):
        lines.append(f"live  {server.http_url}/live")
    if server.admin_address:
        lines.append(f"admin  {server.admin_url}{_listening(server.admin_url, server.admin_address)}")
    lines += _exposed(server)
    if server.attach_address:
        lines.append(f"attach  {server.attach_address}")
    for folder in server.config.repository:
        lines.append(f"repository  {folder} ({server.config.model_control})")
    lines += [f"try   {text}" for text in _examples_of(server, models, greetings)]
    return "\n".join([_title(), *lines, ""])


def _exposed(server: Server) -> list[str]:
    """A line for each address that other machines reach, with what protects it."""
    config = server.config
    has_key = config.keys_file is not None or config.api_key is not None
    certificate = "certificates of clients" if config.tls_client == "required" else ""
    found = [("http", server.http_address, config.http), ("grpc", server.grpc_address, config.grpc)]
    found += [("admin", server.admin_address, config.admin)]
    by_address: dict[str, tuple[list[str], str]] = {}
    for kind, address, configured in found:
        if address is not None and not listeners.is_local(address):
            by_address.setdefault(address, ([], configured or ""))[0].append(kind)
    lines = []
    for address, (kinds, configured) in by_address.items():
        encrypted = tls.is_encrypted(config.tls_certificate, config.http if configured == "same" else configured)
        guards = ["TLS" if encrypted else "no TLS", "keys" if has_key else "no key", certificate if encrypted else ""]
        lines.append(f"exposed  {address} {', '.join(kinds)} ({', '.join(filter(None, guards))})")
    return lines


def _examples_of(server: Server, models: Sequence[Any], greetings: Greetings | None) -> Sequence[str]:
    """Shell lines with example requests to the server."""
    url = server.http_url if server.http_address else ""
    if not url:
        return ()
    if greetings and not url.startswith("unix:") and (lines := greetings(models, url)):
        return lines
    if not server.definitions:
        # Nothing is loaded from the repository yet.
        return [f"{_client(url)} -X POST {_base(url)}/v2/repository/index"]
    by_name: dict[str, Definition] = {}
    for definition in server.definitions:
        # The first version of each model; models whose names begin with a colon are hidden.
        if not definition.name.startswith(":"):
            by_name.setdefault(definition.name, definition)
    shown = [*by_name.values()][:_MOST_EXAMPLES] or server.definitions[:1]
    return [_example_of(definition, server, models, url) for definition in shown]


def _example_of(definition: Definition, server: Server, models: Sequence[Any], url: str) -> str:
    versioned = sum(other.name == definition.name for other in server.definitions) > 1
    path = f"/models/{definition.name}" + (f"/versions/{definition.version}" if versioned else "")
    model = _model_of(definition, models)
    if model is not None and model.route_example is not None:
        return _route_request(definition, _client(url), _base(url), model.route_example)
    return curl(definition, url, {} if model is None else model.examples(), path=path)


def curl(definition: Definition, url: str, examples: Mapping[str, str | None], *, path: str) -> str:
    """A shell line that sends a valid request to a model.

    Args:
        definition: The model.
        url: The server's URL, as `Server.http_url` has it.
        examples: Example documents of the inputs that carry JSON. If one is None, the line requests the model's
            metadata instead.
        path: The model's path in plain requests, with its version if it has several.
    """
    client, model = _client(url), f"{_base(url)}/v2{path}"
    if definition.routes:
        return _route_request(definition, client, _base(url))
    if definition.open and not definition.inputs:
        return f"{client} {model}"
    plain = _plain(definition, examples) if definition.plain_types and definition.sequences is None else None
    if plain is not None:
        flags = " -N" if definition.streams else ""
        return f"{client}{flags} {_base(url)}{path} {plain}"
    request = f"{client} -N {model}/infer_stream" if definition.streams else f"{client} {model}/infer"
    required = [tensor for tensor in definition.inputs if not tensor.optional]
    if any(examples.get(tensor.name, "") is None for tensor in required):
        return f"{client} {model}"
    if not required and definition.batching is not None:
        # At least one input must have the number of rows.
        required = [tensor for tensor in definition.inputs if tensor.name not in examples][:1]
    shapes = {tensor.name: _sample_shape(tensor, batched=definition.batching is not None) for tensor in required}
    if sum(_count(shape) for shape in shapes.values()) > _INLINE_ELEMENTS:
        return _binary(definition, required, shapes, request)
    inputs = [_input(tensor, shapes[tensor.name], examples) for tensor in required]
    body = _json({**_parameters(definition), "inputs": inputs})
    return f"{request} -H 'Content-Type: application/json' -d {shlex.quote(body)}"


def _plain(definition: Definition, examples: Mapping[str, str | None]) -> str | None:
    """The body of a plain request, as curl takes it; None if an input has no example."""
    import json

    required = [tensor for tensor in definition.inputs if not tensor.optional]
    texts = {tensor.name: examples[tensor.name] for tensor in required if tensor.name in examples}
    if None in texts.values():
        return None
    values = {name: json.loads(text) for name, text in texts.items() if text is not None}
    batched = definition.batching is not None
    for tensor in required:
        sample = values.get(tensor.name, _SAMPLES.get(tensor.datatype, 1))
        for axis in reversed(_sample_shape(tensor, batched=batched)):
            sample = [sample] * axis
        values[tensor.name] = sample
    files = {tensor.name: _file(tensor) for tensor in required if _is_file(tensor)}
    if not files:
        return f"-H 'Content-Type: application/json' -d {shlex.quote(_json(values))}"
    fields = {name: value if isinstance(value, str) else _json(value) for name, value in values.items()}
    fields |= {name: f"@{file}" for name, file in files.items()}
    return " ".join(f"-F {shlex.quote(f'{name}={field}')}" for name, field in fields.items())


def _is_file(tensor: Tensor) -> bool:
    return tensor.datatype == "BYTES" and not tensor.text and not tensor.document


def _file(tensor: Tensor) -> str:
    return "image.jpg" if (tensor.media_type or "").startswith("image/") else "file"


def _route_request(definition: Definition, client: str, base: str, body: str | None = None) -> str:
    """A request to the first route, with its placeholders.

    Args:
        definition: The model.
        client: The command that sends it.
        base: The server's URL.
        body: A JSON document for the route; None if none is known.
    """
    method, _, path = definition.routes[0].partition(" ")
    data = "" if method in ("GET", "HEAD", "DELETE", "OPTIONS") else " -d '{}'"
    if body is not None:
        data = f" -H 'Content-Type: application/json' -d {shlex.quote(body)}"
    flag = "-I" if method == "HEAD" else f"-X {method}"
    return f"{client} {flag} {shlex.quote(base + path)}{data}"


def _parameters(definition: Definition) -> dict[str, Any]:
    """Parameters of a sequence with one request, for a model with sequences."""
    if definition.sequences is None:
        return {}
    return {"parameters": {"sequence_id": 1, "sequence_start": True, "sequence_end": True}}


def _binary(definition: Definition, required: Sequence[Tensor], shapes: Mapping[str, list[int]], request: str) -> str:
    inputs, total = [], 0
    for tensor in required:
        # An empty text is its length alone: four zero bytes.
        size = _count(shapes[tensor.name]) * datatypes.ITEM_SIZES.get(tensor.datatype, 4)
        total += size
        head = {"name": tensor.name, "shape": shapes[tensor.name], "datatype": tensor.datatype}
        inputs.append({**head, "parameters": {"binary_data_size": size}})
    header = _json({**_parameters(definition), "inputs": inputs})
    body = f"{{ printf %s {shlex.quote(header)}; head -c {total} /dev/zero; }}"
    length = f"-H 'Inference-Header-Content-Length: {len(header.encode())}'"
    return f"{body} | {request} -H 'Content-Type: application/octet-stream' {length} --data-binary @-"


def _client(url: str) -> str:
    socket = url.removeprefix("unix:")
    return "curl -s" if socket == url else f"curl -s --unix-socket {shlex.quote(socket)}"


def _base(url: str) -> str:
    return "http://localhost" if url.startswith("unix:") else url


def _input(tensor: Tensor, shape: list[int], examples: Mapping[str, str | None]) -> dict[str, Any]:
    sample = examples.get(tensor.name) or _SAMPLES.get(tensor.datatype, 1)
    return {
        "name": tensor.name,
        "shape": shape,
        "datatype": tensor.datatype,
        "data": [sample] * _count(shape),
    }


def _sample_shape(tensor: Tensor, *, batched: bool) -> list[int]:
    row = [_VARIABLE_AXIS if axis < 0 else axis for axis in tensor.shape]
    return [1, *row] if batched else row


def _count(shape: Sequence[int]) -> int:
    count = 1
    for axis in shape:
        count *= axis
    return count


def _json(value: Any) -> str:
    import json

    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _model_of(definition: Definition, models: Iterable[Any]) -> Model[..., Any] | None:
    from penstock._model.model import Model

    for model in models:
        if isinstance(model, Model) and (model.name, model.version) == (definition.name, definition.version):
            return model
    return None


def _row(definition: Definition) -> tuple[str, ...]:
    return (
        definition.name,
        definition.version,
        _inputs_and_routes(definition),
        outputs_text(definition),
        batching_text(definition.batching, definition.iterative),
        str(definition.instances),
    )


def _inputs_and_routes(definition: Definition) -> str:
    """The inputs and routes of a model; the last routes are left out if the text gets too long."""
    text = inputs_text(definition)
    remaining = list(definition.routes)
    width = len(text) + _WIDEST_ROUTES
    # At least one route is shown.
    while remaining and (len(remaining) == len(definition.routes) or len(f"{text}, {remaining[0]}") <= width):
        text = f"{text}, {remaining.pop(0)}"
    return f"{text}, and {len(remaining)} more" if remaining else text


def _listening(url: str, address: str) -> str:
    return "" if url.endswith(address) else f" (listening on {address})"


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _title() -> str:
    from penstock import _core

    return f"Penstock {_core.version}"
