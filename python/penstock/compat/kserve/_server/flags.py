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
"""The prefix of flags that KServe does not have."""

_PROTOCOLS = ["v1", "v2", "grpc-v2"]


class _Parser(argparse.ArgumentParser):
    """Raises instead of exiting, since importing a module must not end the process."""

    def error(self, message: str) -> NoReturn:
        raise ValueError(f"the command line of the model server: {message}")


def make_parser() -> argparse.ArgumentParser:
    """Returns the parser, without help and without abbreviations, for `argparse.ArgumentParser(parents=[parser])`."""
    parser = argparse.ArgumentParser(
        add_help=False, allow_abbrev=False, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    _add(parser)
    return parser


def read(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Returns the flags of a command line, with defaults; flags of the program's own are ignored.

    Args:
        arguments: The command line; by default this process's.

    Raises:
        ValueError: a flag's value is invalid.
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
    add("--http_port", default=DEFAULT_HTTP_PORT, type=int, help="HTTP port")
    add("--grpc_port", default=DEFAULT_GRPC_PORT, type=int, help="gRPC port")
    add("--enable_grpc", default=True, type=strtobool, help="serve gRPC")
    add("--enable_docs_url", default=False, type=strtobool, help="serve API documentation at /docs")
    add(
        "--timeout-keep-alive",
        dest="timeout_keep_alive",
        default=65,
        type=int,
        help="seconds until an idle connection is closed; longer than a proxy in front keeps its own",
    )
    for direction in ("send", "receive"):
        add(
            f"--grpc_max_{direction}_message_length",
            default=MAX_GRPC_MESSAGE_LENGTH,
            type=int,
            help=f"largest gRPC message to {direction}, in bytes; values below 64 MiB count as 64 MiB",
        )
    for what, variable in (("certfile", KSERVE_TLS_CERT_FILE_ENV), ("keyfile", KSERVE_TLS_KEY_FILE_ENV)):
        add(
            f"--ssl_{what}",
            default=os.environ.get(variable),
            type=str,
            help=f"refused: the server does not speak TLS; default: {variable}",
        )


def _add_running(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--workers", default=1, type=int, help="worker processes; 1: compute in this process")
    add("--max_threads", default=4, type=int, help="ignored: gRPC has no thread pool")
    add("--max_asyncio_workers", default=None, type=int, help="threads of the event loop's executor")
    add(
        "--event-loop",
        dest="event_loop",
        default="auto",
        type=str,
        choices=["auto", "asyncio", "uvloop"],
        help="event loop of async handlers; auto: uvloop if installed",
    )
    add("--model_name", default="model", type=str, help="model name on the wire")


def _add_own(parser: argparse.ArgumentParser) -> None:
    # With a prefix: scripts add their own flags to these.
    add = parser.add_argument
    add("--penstock_host", default=None, type=str, help="address to listen on; default: all")
    add("--penstock_threads", default=16, type=int, help="concurrent calls of a model's plain handlers")
    add("--penstock_max_batch_size", default=None, type=int, help="most rows of requests that share a call")
    add(
        "--penstock_max_batch_latency",
        default=0.0,
        type=float,
        help="milliseconds that a request waits for others",
    )
    add("--penstock_require_ready", default=False, type=strtobool, help="do not serve models that are not ready")


def _add_logging(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--enable_latency_logging", default=True, type=strtobool, help="log the stage durations of each request")
    add("--configure_logging", default=True, type=strtobool, help="set up KServe's loggers")
    add("--log_config_file", default=None, type=str, help="logging configuration: a JSON, YAML or INI file")
    add("--access_log_format", default=None, type=str, help="turns the access log on; its format is fixed")


def _add_predictor(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--predictor_host", default=None, type=str, help="predictor host and port")
    add("--protocol", default="v1", type=str, choices=_PROTOCOLS, help="former name of --predictor_protocol")
    add("--predictor_protocol", default="v1", type=str, choices=_PROTOCOLS, help="protocol of the predictor")
    add("--predictor_use_ssl", default=False, type=strtobool, help="call the predictor over TLS")
    add(
        "--predictor_request_timeout_seconds",
        default=600,
        type=int,
        help="timeout of the predictor in seconds",
    )
    add("--predictor_request_retries", default=0, type=int, help="retries of a failed request to the predictor")
    add(
        "--enable_predictor_health_check",
        action="store_true",
        help="be ready only while the predictor is",
    )
