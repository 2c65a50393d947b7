"""`penstock infer`: one inference from the command line."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock._cli import call_arguments

if TYPE_CHECKING:
    from penstock.client import ClientOptions, Result

__all__ = ["add_parser", "run"]


def add_parser(commands: Any) -> None:
    """Adds the command to the parser."""
    infer = commands.add_parser(
        "infer",
        allow_abbrev=False,
        help="send a request to a model of a running server",
        description="Sends a request to a model of a running server. Prints the outputs of each response as JSON.",
        epilog="A VALUE is JSON or else text; @FILE reads it from a .npy or .json file, or as text or bytes. "
        "Exit status: 0 success, 1 error response or no connection, 2 wrong usage.",
    )
    call_arguments.add_target(infer)
    infer.add_argument(
        "--json", metavar="FILE", dest="document", help="file with a request body of the protocol; - is standard input"
    )
    call_arguments.add_options(infer)
    infer.add_argument("--request-id", metavar="ID", help="id of the request")
    infer.add_argument("--timeout", type=float, metavar="SECONDS", default=60.0, help="time limit (default: 60 s)")
    infer.add_argument("--stream", action="store_true", help="request a stream, and print each response as it arrives")
    infer.add_argument("--save", metavar="FILE", help="file for the outputs in place of printing: .npy (one) or .npz")


def run(options: argparse.Namespace) -> int:
    """Sends the request, and prints or saves the outputs. Returns the exit status."""
    from penstock.client import Client
    from penstock.errors import PenstockError

    try:
        call = call_arguments.from_options(options)
        settings: ClientOptions = {"timeout": options.timeout, "ca_file": options.ca_file}
        with Client(options.url, **settings) as client:
            if options.stream:
                results: Iterable[Result] = client.stream(options.model, call.pop("inputs"), **call)
            else:
                results = iter([client.infer(options.model, call.pop("inputs"), **call)])
            for result in results:
                _print_or_save(result, options.save)
    except (PenstockError, OSError, ValueError) as error:
        print(f"penstock: error: {' '.join(str(error).split())}", file=sys.stderr, flush=True)
        return 1
    return 0


def _print_or_save(result: Result, file: str | None) -> None:
    import numpy as np

    if file is None:
        print(json.dumps(result.to_python(), ensure_ascii=False, default=_escaped), flush=True)
        return
    text = [name for name, value in result.items() if value.dtype == object]
    if text:
        raise ValueError(
            f"output {text[0]!r} is BYTES, which {file} cannot store: print it, or request other outputs with --output"
        )
    if Path(file).suffix == ".npy":
        np.save(file, result.value)
    else:
        arrays: dict[str, Any] = dict(result)
        np.savez(file, **arrays)


def _escaped(value: bytes) -> str:
    return value.decode(errors="backslashreplace")
