"""Options of `penstock bench`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from penstock._bench import sweep
from penstock._cli import call_arguments

__all__ = ["add_parser"]


def add_parser(commands: Any) -> None:
    """Adds the command to the parser."""
    bench = commands.add_parser(
        "bench",
        allow_abbrev=False,
        help="measure throughput and latency of a model of a running server",
        description="Loads a model of a running server, step by step, and measures throughput and latency. "
        "Without inputs it sends the example of the model's description.",
        epilog="A list of steps is 1,2,4 or 1:64 (doubled up to the end) or 10:50:10 (with a step). A VALUE is as of "
        "`penstock infer`. Exit status: 0 success, 1 errors or no connection, 2 wrong usage, 130 after Ctrl-C.",
    )
    call_arguments.add_target(bench)
    _add_load(bench.add_argument_group("load"))
    _add_request(bench.add_argument_group("requests"))
    _add_results(bench.add_argument_group("results"))


def _add_load(group: Any) -> None:
    loop = group.add_mutually_exclusive_group()
    loop.add_argument(
        "--concurrency",
        type=_checked(sweep.concurrencies),
        metavar="LIST",
        help="closed loop: requests in flight of each step (default: 1)",
    )
    loop.add_argument(
        "--rate", type=_checked(sweep.rates), metavar="LIST", help="open loop: requests per second of each step"
    )
    group.add_argument(
        "--arrivals",
        default="constant",
        choices=("constant", "poisson"),
        metavar="constant|poisson",
        help="open loop: equal or random intervals (default: constant)",
    )
    group.add_argument(
        "--max-in-flight",
        type=_checked(_count),
        metavar="N",
        default=256,
        help="open loop: limit of requests in flight; further ones wait and are late (default: 256)",
    )
    group.add_argument("--seconds", type=_checked(_seconds), metavar="S", help="duration of a step (default: 5 s)")
    group.add_argument("--requests", type=_checked(_count), metavar="N", help="number of requests of a step")
    group.add_argument(
        "--warmup",
        type=_checked(_seconds_or_none),
        metavar="S",
        default=1.0,
        help="duration of the load before each step's measurement (default: 1 s)",
    )
    group.add_argument(
        "--repeat", type=_checked(_count), metavar="N", default=1, help="rounds of each step (default: 1)"
    )
    group.add_argument("--threads", type=_checked(_threads), metavar="N", default=1, help="I/O threads (default: 1)")
    group.add_argument(
        "--connections",
        type=_checked(_count),
        metavar="N",
        default=1,
        help="gRPC: connections of each thread, which its calls share (default: 1)",
    )
    group.add_argument("--seed", type=int, metavar="N", default=0, help="seed of random intervals (default: 0)")


def _add_request(group: Any) -> None:
    group.add_argument(
        "--request",
        action="append",
        default=[],
        metavar="FILE",
        help="file with a request body of the protocol, or .jsonl with one on each line; sent in rotation",
    )
    group.add_argument(
        "--input-format",
        default="binary",
        choices=("binary", "json", "plain"),
        metavar="binary|json|plain",
        help="REST: tensors as binary data or JSON, or plain JSON (default: binary)",
    )
    call_arguments.add_options(group)
    group.add_argument(
        "--timeout", type=_checked(_seconds), metavar="SECONDS", default=60.0, help="time limit (default: 60 s)"
    )
    group.add_argument("--validate", action="store_true", help="decode each response (default: status and length only)")


def _add_results(group: Any) -> None:
    group.add_argument(
        "--percentiles",
        type=_checked(sweep.percentiles),
        metavar="LIST",
        default=(50.0, 90.0, 99.0),
        help="percentiles of latency (default: 50,90,99)",
    )
    group.add_argument("--json", metavar="FILE", help="file for the results as JSON; - is standard output")
    group.add_argument("--html", metavar="FILE", help="file for a report with charts")
    group.add_argument("--compare", metavar="FILE", help="earlier results of --json to compare with")
    group.add_argument("--allow-errors", action="store_true", help="exit with 0 although requests failed")


def _checked(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    """A type of argparse, whose errors have the message of the ValueError."""

    def checked(text: str) -> Any:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return checked


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise ValueError(f"{text!r} is not a number of 1 or more")
    return int(text)


def _threads(text: str) -> int:
    if (value := _count(text)) > 256:
        raise ValueError(f"{text!r} is not a number of threads from 1 to 256")
    return value


def _seconds(text: str) -> float:
    if (value := _seconds_or_none(text)) == 0:
        raise ValueError(f"{text!r} is not a number of seconds above 0")
    return value


def _seconds_or_none(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1e6:
        raise ValueError(f"{text!r} is not a number of seconds from 0 to 1000000")
    return value
