"""Arguments of `Client.infer` from a command line: inputs, request bodies, parameters."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

__all__ = ["add_document", "add_options", "add_target", "from_options", "pairs", "with_document"]


def add_target(parser: argparse.ArgumentParser) -> None:
    """Adds the positional arguments of a command that calls a model: URL, model, inputs."""
    parser.add_argument(
        "url",
        metavar="URL",
        help="http://HOST:PORT, https://, grpc://, grpcs://, unix:/PATH, grpc+unix:/PATH "
        "(default: the variable PENSTOCK_URL)",
    )
    parser.add_argument("model", metavar="MODEL", help="name of the model")
    parser.add_argument("inputs", nargs="*", metavar="NAME=VALUE", help="input")


def add_options(parser: Any) -> None:
    """Adds the options of a request, to a parser or a group of it."""
    parser.add_argument("--output", action="append", metavar="NAME", help="requested output (default: all)")
    parser.add_argument("--parameter", action="append", default=[], metavar="NAME=VALUE", help="request parameter")
    parser.add_argument("--header", action="append", default=[], metavar="NAME=VALUE", help="header, or gRPC metadata")
    parser.add_argument(
        "--datatype", action="append", default=[], metavar="NAME=BF16", help="datatype of an input on the wire"
    )
    parser.add_argument("--model-version", metavar="VERSION", help="version of the model")
    parser.add_argument("--ca-file", metavar="FILE", help="PEM file of trusted certificate authorities")


def from_options(options: argparse.Namespace) -> dict[str, Any]:
    """Arguments of `Client.infer` from the command line.

    Raises:
        ValueError: an argument is not NAME=VALUE, or a file is not a request body.
        OSError: a file cannot be read.
    """
    file = options.document
    if file is None:
        return with_document(options, None, "")
    return with_document(options, sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8"), file)


def with_document(options: argparse.Namespace, text: str | None, file: str) -> dict[str, Any]:
    """As `from_options`, with the text of a request body."""
    call: dict[str, Any] = {"inputs": {}, "parameters": {}, "datatypes": dict(pairs("--datatype", options.datatype))}
    if text is not None:
        add_document(call, text, file)
    for name, value in pairs("an input", options.inputs):
        call["inputs"][name] = _value(value)
    for name, value in pairs("--parameter", options.parameter):
        call["parameters"][name] = _inline(value)
    if options.output:
        call["outputs"] = options.output
    if getattr(options, "request_id", None) is not None:
        call["request_id"] = options.request_id
    call["headers"] = dict(pairs("--header", options.header))
    call["version"] = options.model_version
    return call


def add_document(call: dict[str, Any], text: str, file: str) -> None:
    """Adds a request body of the protocol to the arguments; `file` is its name in errors.

    Raises:
        ValueError: it is not such a body.
    """
    from penstock._spec import datatypes

    document = json.loads(text)
    try:
        for tensor in document["inputs"]:
            call["inputs"][tensor["name"]] = _array(tensor)
            if tensor["datatype"] in datatypes.WIDENED or tensor["datatype"] == datatypes.BYTES:
                call["datatypes"][tensor["name"]] = tensor["datatype"]
        call["parameters"].update(document.get("parameters", {}))
        if "id" in document:
            call["request_id"] = document["id"]
        if document.get("outputs"):
            call["outputs"] = [output["name"] for output in document["outputs"]]
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{file} is not a request of the protocol: {error!r}") from None


def _array(tensor: Mapping[str, Any]) -> Any:
    import numpy as np

    from penstock._spec import datatypes
    from penstock._spec.elements import exact_array

    dtype = datatypes.ARRAY_DTYPES.get(tensor["datatype"], np.dtype(object))
    try:
        return exact_array(tensor["data"], dtype).reshape(tensor["shape"])
    except (ValueError, OverflowError) as error:
        raise ValueError(f"input {tensor['name']!r} cannot be converted to {tensor['datatype']}: {error}") from None


def pairs(what: str, given: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Splits NAME=VALUE.

    Raises:
        ValueError: there is no name; the message begins with `what`.
    """
    for pair in given:
        name, equals, value = pair.partition("=")
        if not (name and equals):
            raise ValueError(f"{what} {pair!r} is not NAME=VALUE")
        yield name, value


def _value(text: str) -> Any:
    if not text.startswith("@"):
        return _inline(text)
    path = Path(text[1:])
    if path.suffix == ".npy":
        import numpy as np

        return np.load(path)
    content = path.read_bytes()
    if path.suffix == ".json":
        return json.loads(content)
    try:
        return content.decode()
    except UnicodeDecodeError:
        return content


def _inline(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
