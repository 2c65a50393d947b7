"""The command line of a model server: KServe's flags, and a few of Penstock's."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from penstock.compat.kserve.constants.constants import (
    DEFAULT_GRPC_PORT,
    DEFAULT_HTTP_PORT,
    KSERVE_TLS_CERT_FILE_ENV,
    KSERVE_TLS_KEY_FILE_ENV,
    MAX_GRPC_MESSAGE_LENGTH,
)
from penstock.compat.kserve.utils.utils import strtobool

__all__ = ["OWN", "make_parser", "read"]

OWN = "penstock_"
"""What the flags that KServe does not have begin with."""

_PROTOCOLS = ["v1", "v2", "grpc-v2"]


class _Parser(argparse.ArgumentParser):
    """Says what is wrong as an error: whoever imports a module must not be ended by it."""

    def error(self, message: str) -> NoReturn:
        raise ValueError(f"the command line of the model server: {message}")


def make_parser() -> argparse.ArgumentParser:
    """The parser, without help and without abbreviations, for `argparse.ArgumentParser(parents=[parser])`."""
    parser = argparse.ArgumentParser(
        add_help=False, allow_abbrev=False, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    _add(parser)
    return parser


def read(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The flags that were given, and the defaults of all others. Flags of the program's own are left alone.

    Args:
        arguments: The command line; that of this process by default.

    Raises:
        ValueError: a flag's value is none that it can have.
    """
    parser = _Parser(add_help=False, allow_abbrev=False)
    _add(parser)
    return parser.parse_known_args(sys.argv[1:] if arguments is None else arguments)[0]


def _add(parser: argparse.ArgumentParser) -> None:
    _add_listening(parser)
    _add_running(parser)
    _add_logging(parser)
    _add_predictor(parser)
    _add_own(parser)


def _add_listening(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--http_port", default=DEFAULT_HTTP_PORT, type=int, help="The port of HTTP.")
    add("--grpc_port", default=DEFAULT_GRPC_PORT, type=int, help="The port of gRPC.")
    add("--enable_grpc", default=True, type=strtobool, help="Serve gRPC.")
    add("--enable_docs_url", default=False, type=strtobool, help="Serve a page of the API at /docs.")
    add(
        "--timeout-keep-alive",
        dest="timeout_keep_alive",
        default=65,
        type=int,
        help="Seconds that an idle connection is kept: longer than a proxy in front of it keeps its own.",
    )
    for direction in ("send", "receive"):
        add(
            f"--grpc_max_{direction}_message_length",
            default=MAX_GRPC_MESSAGE_LENGTH,
            type=int,
            help=f"The largest gRPC message to {direction}, in bytes; 64 MiB hold where this is less.",
        )
    for what, variable in (("certfile", KSERVE_TLS_CERT_FILE_ENV), ("keyfile", KSERVE_TLS_KEY_FILE_ENV)):
        add(
            f"--ssl_{what}",
            default=os.environ.get(variable),
            type=str,
            help=f"Refused: the server speaks no TLS. Else from {variable}.",
        )


def _add_running(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--workers", default=1, type=int, help="How many processes compute; 1 is this one.")
    add("--max_threads", default=4, type=int, help="Without meaning: gRPC needs no threads of its own.")
    add("--max_asyncio_workers", default=None, type=int, help="Threads of the event loop's executor.")
    add(
        "--event-loop",
        dest="event_loop",
        default="auto",
        type=str,
        choices=["auto", "asyncio", "uvloop"],
        help="The event loop of async handlers; auto is uvloop if that is installed.",
    )
    add("--model_name", default="model", type=str, help="The model's name on the wire.")


def _add_own(parser: argparse.ArgumentParser) -> None:
    # Scripts add flags of their own to these: no name that they might choose.
    add = parser.add_argument
    add("--penstock_host", default=None, type=str, help="The address to listen on; all by default.")
    add("--penstock_threads", default=16, type=int, help="How many calls of a model's plain handlers run at once.")
    add("--penstock_max_batch_size", default=None, type=int, help="The most rows of requests that share a call.")
    add("--penstock_max_batch_latency", default=0.0, type=float, help="Milliseconds that a request waits for others.")
    add("--penstock_require_ready", default=False, type=strtobool, help="Do not serve models that are not ready.")


def _add_logging(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--enable_latency_logging", default=True, type=strtobool, help="Log each request's time by stage.")
    add("--configure_logging", default=True, type=strtobool, help="Set up KServe's loggers.")
    add("--log_config_file", default=None, type=str, help="A logging configuration: a JSON, YAML or INI file.")
    add("--access_log_format", default=None, type=str, help="Turns the access log on; the form of its lines is fixed.")


def _add_predictor(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--predictor_host", default=None, type=str, help="The predictor's host, and port.")
    add("--protocol", default="v1", type=str, choices=_PROTOCOLS, help="Former name of --predictor_protocol.")
    add("--predictor_protocol", default="v1", type=str, choices=_PROTOCOLS, help="How the predictor is asked.")
    add("--predictor_use_ssl", default=False, type=strtobool, help="Ask the predictor over TLS.")
    add(
        "--predictor_request_timeout_seconds",
        default=600,
        type=int,
        help="How long the predictor may take.",
    )
    add("--predictor_request_retries", default=0, type=int, help="How often a failed request is tried again.")
    add(
        "--enable_predictor_health_check",
        action="store_true",
        help="Be ready only while the predictor is.",
    )
