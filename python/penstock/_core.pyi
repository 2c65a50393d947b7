"""The compiled part: it does all serving. Users reach it through `penstock`."""

import logging
from typing import Any, final

from penstock._definition import Definition
from penstock.config import ServerConfig

__all__ = ["Context", "InProcess", "RequestInfo", "SequenceInfo", "Server", "copies", "debug_build", "version"]

version: str
"""The version of the package."""

debug_build: bool
"""Whether it was compiled without optimisation, which is many times slower."""

def copies() -> dict[str, int]:
    """The bytes of tensors that were copied in this process, by step of a request's way. For tests."""

@final
class Server:
    """Listens, decodes, queues, batches, calls handlers and answers."""

    def __new__(cls, definitions: list[Definition], config: ServerConfig) -> Server: ...
    def start(self) -> None:
        """Binds, loads every model and returns when all are ready.

        Raises:
            StartupError: a port is in use, or a model cannot be loaded.
        """

    @property
    def http_address(self) -> str | None:
        """`HOST:PORT` or `unix:/path` where HTTP listens; None when off or not started."""

    @property
    def grpc_address(self) -> str | None:
        """`HOST:PORT` or `unix:/path` where gRPC listens; None when off or not started."""

    def wait(self, timeout: float | None) -> bool:
        """Blocks until the server has stopped; signals interrupt it. Whether it has stopped."""

    def stop(self, timeout: float | None) -> list[str]:
        """Drains for at most `timeout` seconds (None: the configured time) and stops.

        Returns the names of what the deadline cut; empty when all requests finished.
        """

    def stuck(self) -> list[str]:
        """The models whose handlers had not returned a few seconds after the stop."""

@final
class InProcess:
    """The same path without sockets: decode, queue, batch, handler, encode."""

    def __new__(cls, definitions: list[Definition], config: ServerConfig) -> InProcess: ...
    def start(self) -> None:
        """Loads every model and returns when all are ready."""

    def request(
        self, method: str, path: str, headers: list[tuple[str, str]], body: bytes
    ) -> tuple[int, list[tuple[str, str]], bytes]:
        """Answers one HTTP request: its status, headers and body."""

    def stop(self, timeout: float | None = None) -> None:
        """Stops the models; requests under way finish. The timeout is for likeness with `Server`."""

    def stuck(self) -> list[str]:
        """The models whose handlers had not returned a few seconds after the stop."""

@final
class RequestInfo:
    """What one caller sent beside its tensors."""

    @property
    def id(self) -> str:
        """The request's id; empty if it has none."""

    @property
    def headers(self) -> dict[str, str]:
        """Header values by name in lower case (gRPC: the metadata)."""

    @property
    def parameters(self) -> dict[str, bool | int | float | str | list[Any]]:
        """The request's own parameters, without the reserved ones."""

    @property
    def deadline(self) -> float | None:
        """Seconds left until the caller stops waiting; None if it set no limit."""

    @property
    def priority(self) -> int:
        """The priority that its caller asked for; 0 if it named none."""

    @property
    def sequence(self) -> SequenceInfo | None:
        """Its place in a sequence; None where the model keeps none."""

    @property
    def rows(self) -> int:
        """How many rows of the batch are this caller's; 1 without batching."""

    @property
    def cancelled(self) -> bool:
        """Whether the caller left."""

@final
class SequenceInfo:
    """One request's place in a sequence."""

    @property
    def id(self) -> int | str:
        """The id that the caller chose."""

    @property
    def start(self) -> bool:
        """Whether it is the first request."""

    @property
    def end(self) -> bool:
        """Whether it is the last request. In `close_sequence`: whether that was computed."""

    @property
    def state(self) -> dict[Any, Any]:
        """The sequence's own: empty at the start, and kept on the instance until the sequence is over."""

@final
class Context:
    """What a handler may know of the requests that it answers, and tell beside its outputs.

    A batch may join several requests. `request_id`, `headers`, `parameters` and `deadline` are for
    the usual case of one, and raise `RuntimeError` when there are several: use `requests` then.
    """

    @property
    def requests(self) -> tuple[RequestInfo, ...]:
        """The joined requests, in the order of their rows."""

    @property
    def request_id(self) -> str:
        """The only request's id; empty if it has none."""

    @property
    def headers(self) -> dict[str, str]:
        """The only request's headers, by name in lower case."""

    @property
    def parameters(self) -> dict[str, bool | int | float | str | list[Any]]:
        """The only request's parameters."""

    @property
    def deadline(self) -> float | None:
        """Seconds left of the only request; None if it set no limit."""

    @property
    def sequence(self) -> SequenceInfo | None:
        """The only request's place in a sequence; None where the model keeps none."""

    @property
    def cancelled(self) -> bool:
        """Whether every caller left, so that no answer is awaited."""

    @property
    def logger(self) -> logging.Logger:
        """The logger `penstock.<model>`."""

    @property
    def model_name(self) -> str:
        """The name of the model that runs."""

    @property
    def model_version(self) -> str:
        """The version of the model that runs."""

    def set_parameter(self, name: str, value: bool | int | float | str) -> None:
        """Adds a parameter to the answer of each request in the batch."""

    def counter(self, name: str, value: float = 1.0) -> None:
        """Adds to a counter of the model's own in the server's metrics."""
