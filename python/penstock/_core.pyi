"""Compiled part: the server, its queues and batches, and the client. Users reach it through `penstock`."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, final

import numpy as np
import numpy.typing as npt
from typing_extensions import Self

from penstock._bench.measured import Measured
from penstock._bench.plan import Plan
from penstock._config.served import Description
from penstock._handler.forms import FormPart
from penstock._runtime.peers import Peers
from penstock._spec.definition import Definition
from penstock.client._base import Ask
from penstock.client._options import Call as ClientCall
from penstock.client._options import How, Settings
from penstock.client._raw import RawAnswer, RawArguments
from penstock.client._result import Answer
from penstock.config import ServerConfig
from penstock.errors import PenstockError

__all__ = [
    "BatchCall",
    "BlockingClient",
    "BlockingStream",
    "CallEvents",
    "CallQueue",
    "ChunkFormat",
    "ClientCertificate",
    "ClientIdentity",
    "CompletionQueue",
    "Context",
    "ControlChannel",
    "Donated",
    "EventFormat",
    "EventStream",
    "GeneratedChoice",
    "Generation",
    "GenerationBody",
    "HandlerMetrics",
    "InProcessServer",
    "InstanceChannel",
    "Listener",
    "LoadRun",
    "ModelRegistry",
    "Notifier",
    "PeerCall",
    "PeerClient",
    "PeerStream",
    "PendingCall",
    "PreparedModel",
    "RepositoryCommand",
    "Request",
    "RequestInfo",
    "Response",
    "Row",
    "RuntimeClient",
    "RuntimeStream",
    "SequenceInfo",
    "Server",
    "Signals",
    "TensorHandle",
    "Worker",
    "available_processors",
    "check_keys_file",
    "copied_bytes",
    "debug_build",
    "enable_request_contexts",
    "escape_text",
    "frozen",
    "log_context",
    "mark_forked",
    "reset_clients",
    "stacks",
    "verify_audit_log",
    "version",
]

version: str
"""The version of the package."""

debug_build: bool
"""Set in a build without optimisation, which is many times slower."""

def copied_bytes() -> dict[str, int]:
    """Returns the bytes of tensors copied in this process, by step of a request's path. For tests."""

def available_processors() -> int:
    """Returns the processors of this process: CPU affinity, and the cgroup quota rounded down; at least 1."""

def stacks(process: int) -> str:
    """Returns the stacks of all threads of a process, which may be this one, without its interpreter.

    Raises:
        StartupError: it has no handler of the signal, or does not answer.
    """

def check_keys_file(path: str) -> None:
    """Checks a file of keys.

    Raises:
        ValueError: the first problem, with its line.
    """

def verify_audit_log(paths: list[str]) -> tuple[int, int, str]:
    """Checks the chain of files of an audit log. Returns their lines, and the number and the hash of the last one.

    Raises:
        ValueError: the file and the first broken line.
    """

def frozen(array: Any) -> Any:
    """Copies an array into memory that cannot change, for responses that are sent from it.

    A handler that returns the result, or rows of it, has responses of 64 KiB or more sent without a copy. It is
    read-only, and cannot be made writable.

    Raises:
        TypeError: the elements are Python objects.

    Example:
        >>> TABLE = penstock.frozen(np.load("table.npy"))
    """

def log_context() -> tuple[str, str, tuple[str, ...]] | None:
    """Returns the batch that this thread computes: model, version and request ids."""

def escape_text(text: str, *, cut: bool) -> str:
    """Escapes unprintable characters as the server's log does; with `cut`, keeps at most 256 bytes."""

def mark_forked() -> None:
    """Marks this process as a forked child, in which a handler that returns ends the process."""

def enable_request_contexts() -> None:
    """Lets requests carry their ids from now on, for `log_context`."""

@final
class Signals:
    """Counter of signals, which drains a server at the first one and ends the process if Python does not.

    Args:
        numbers: The signals that end the process.
        start_timeout: The time in seconds that a start may take after the first signal; None for no limit.
    """

    def __new__(cls, numbers: list[int], start_timeout: float | None = None) -> Signals: ...
    def fileno(self) -> int:
        """Returns the descriptor for `signal.set_wakeup_fd`."""

    @property
    def count(self) -> int:
        """The number of ending signals so far."""

    def set_server_target(self, server: Server, timeout: float) -> None:
        """Lets signals drain a started server, whose requests get `timeout` seconds."""

    def set_attached_target(self, channel: ControlChannel, message: bytes, timeout: float) -> None:
        """Lets the first signal send `message` to the other server; requests get `timeout` seconds."""

    def clear_target(self) -> None:
        """Lets signals be counted only."""

    def trigger(self) -> None:
        """Acts as a signal does."""

    def close(self) -> None:
        """Stops reacting to signals."""

@final
class Server:
    """Server: listens, decodes, queues, batches, calls handlers and responds."""

    def __new__(
        cls,
        definitions: list[Definition],
        config: ServerConfig,
        described: Description | None = None,
        handed_over: list[tuple[str, int]] = ...,
    ) -> Server:
        """Makes a server.

        Args:
            definitions: The models.
            config: The settings.
            described: The settings for operators.
            handed_over: Sockets of a server that this one replaces: address as configured, and descriptor.
        """

    def start(self) -> None:
        """Binds, loads every model and returns when all are loaded. Inference is refused until `set_ready`.

        Raises:
            StartupError: a port is in use, or a model cannot be loaded.
        """

    def set_ready(self) -> None:
        """Serves requests, and accepts connections on inherited sockets too."""

    def hand_over(self) -> None:
        """Leaves the listening sockets to another process. Open connections ask their clients to open others."""

    def is_deserted(self) -> bool:
        """Returns whether no client is connected any more, after `hand_over`."""

    @property
    def http_address(self) -> str | None:
        """`HOST:PORT` or `unix:/path` of HTTP; None when off or not started."""

    @property
    def grpc_address(self) -> str | None:
        """`HOST:PORT` or `unix:/path` of gRPC; None when off or not started."""

    @property
    def admin_address(self) -> str | None:
        """The address for operators; None when it is off or not started."""

    @property
    def metrics_address(self) -> str | None:
        """The address of the metrics listener; None when off or not started."""

    @property
    def sockets(self) -> list[tuple[str, int]]:
        """The listening sockets: address as configured, and descriptor. Empty before the start."""

    def wait(self, timeout: float | None) -> bool:
        """Blocks until the server has stopped; signals interrupt the wait. Returns whether it has stopped."""

    def stop(self, timeout: float | None) -> list[str]:
        """Drains for at most `timeout` seconds (None: the configured time) and stops.

        Returns the names of the models whose requests the deadline cut off; empty when all requests finished.
        """

    @property
    def models(self) -> ModelRegistry:
        """The served models."""

    def change(self, config: ServerConfig, described: Description) -> None:
        """Takes over the settings that may change while the server runs, and their description."""

    def refuse_change(self) -> None:
        """Counts settings that were read again, and of which one is wrong."""

    def describe(self, described: Description) -> None:
        """Describes the settings again, for operators."""

    def reload_files(self) -> None:
        """Opens the audit log again, and reads the files of TLS and of keys again if they have changed."""

    def audit_reload(self, models: str | None, ok: bool) -> None:
        """Records a reload of the code of models in the audit log."""

    def stuck(self) -> list[str]:
        """Returns the models whose handlers had not returned a few seconds after the stop."""

@final
class InProcessServer:
    """Server without sockets: decode, queue, batch, handler, encode."""

    def __new__(
        cls, definitions: list[Definition], config: ServerConfig, described: Description | None = None
    ) -> InProcessServer: ...
    def start(self) -> None:
        """Loads every model and returns when all are ready."""

    def request(
        self, method: str, path: str, headers: list[tuple[str, str]], body: bytes
    ) -> tuple[int, list[tuple[str, str]], bytes]:
        """Handles one HTTP request. Returns status, headers and body of the response."""

    def stop(self, timeout: float | None = None) -> None:
        """Stops the models; active requests finish. `timeout` has no effect; it matches `Server.stop`."""

    @property
    def models(self) -> ModelRegistry:
        """The served models."""

    def stuck(self) -> list[str]:
        """Returns the models whose handlers had not returned a few seconds after the stop."""

@final
class ModelRegistry:
    """Models of a running server, to load and unload them."""

    def prepare(self, definition: Definition) -> PreparedModel:
        """Builds the instances of a model that is not served yet. Blocks until all are built.

        Raises:
            LoadError: an instance failed; `__cause__` is its own exception.
        """

    def check_routes(self, prepared: list[PreparedModel], removed: list[str]) -> None:
        """Checks that each route belongs to one model. The served models in `removed` do not count.

        Raises:
            SignatureError: it names both models and the route.
        """

    def set_refusal(self, model: str, version: str | None, refusal: str | None) -> None:
        """Sets a reason for which a model, in one version or in all, refuses requests; None clears it.

        Raises:
            NotFound: there is no such model or version.
            Unavailable: it is not loaded.
        """

    def swap(self, model: str, prepared: list[PreparedModel], retain: list[str]) -> None:
        """Replaces a model's versions in one step by `prepared` and the served versions in `retain`.

        All other versions finish their requests and end.
        """

    def set_states(self, model: str, versions: list[tuple[str, bool, str]]) -> None:
        """Sets the state of versions that are not served: name, whether it is loading, and the reason."""

    def forget(self, model: str) -> None:
        """Removes a model without served versions."""

    def serving(self, model: str) -> list[str]:
        """Returns the served versions in ascending order."""

    def draining_count(self) -> int:
        """Returns the number of replaced versions that have not ended yet."""

    def next_command(self, timeout: float) -> RepositoryCommand | None:
        """Waits for the next command of a client; None after `timeout` seconds, or at once when closed."""

    def close(self) -> None:
        """Stops accepting commands."""

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""

@final
class PreparedModel:
    """Model whose instances are built, before it is served. Dropping it ends them."""

@final
class RepositoryCommand:
    """Command of a client to load or unload a model. Dropped without a result, it fails as `Unavailable`."""

    @property
    def model(self) -> str:
        """The model's name in the request."""

    @property
    def load(self) -> tuple[str | None, dict[str, bytes]] | None:
        """The configuration and the files of a load; None to unload."""

    def succeed(self) -> None:
        """Reports success to the client."""

    def fail(self, kind: str, message: str) -> None:
        """Reports an error of a kind to the client."""

@final
class Request:
    """Raw request: any tensors, or an HTTP request to a route of the model.

    The server creates requests. Create one by hand only to call a handler in a test.

    Args:
        tensors: Arrays by name.
        id: The request's id.
        headers: Header values by name.
        parameters: The parameters of the request.
        outputs: The names of the requested outputs; None for all.
        tensor_parameters: The parameters of each tensor, by name.
        nested: The names of the tensors whose JSON was lists in lists.
        route: The matched route, as the model declares it. Without it method, path and body have no effect.
        method: The HTTP method.
        path: The path.
        query: The query string, without the `?`.
        path_params: The values of the route's named parts.
        body: The body.

    Raises:
        TypeError: a tensor is not an array of a datatype of the protocol.

    Example:
        >>> @model(routes=["POST /score/{customer}"])
        ... def score(request: Request) -> Response:
        ...     if request.route is None:
        ...         return Response(outputs={"score": request.tensors["x"].sum(keepdims=True)})
        ...     return Response(f"{request.path_params['customer']}: {len(request.body)}")
    """

    def __new__(
        cls,
        *,
        tensors: Mapping[str, np.ndarray[Any, Any]] | None = None,
        id: str = "",  # noqa: A002
        headers: Mapping[str, str] | None = None,
        parameters: Mapping[str, bool | int | float | str] | None = None,
        outputs: Sequence[str] | None = None,
        tensor_parameters: Mapping[str, Mapping[str, bool | int | float | str]] | None = None,
        nested: Sequence[str] | None = None,
        route: str | None = None,
        method: str = "",
        path: str = "",
        query: str = "",
        path_params: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> Self: ...
    @property
    def id(self) -> str:
        """The request's id; empty without one."""

    @property
    def headers(self) -> dict[str, str]:
        """Header values by lower-case name; over gRPC the metadata."""

    @property
    def client(self) -> ClientIdentity:
        """The client: its key, certificate and address."""

    @property
    def parameters(self) -> dict[str, bool | int | float | str | list[Any]]:
        """The parameters of the request, without the reserved ones."""

    @property
    def outputs(self) -> tuple[str, ...] | None:
        """The names of the requested outputs, in that order; None for all."""

    @property
    def deadline(self) -> float | None:
        """Seconds until the client stops waiting; None without a limit."""

    @property
    def cancelled(self) -> bool:
        """Whether the client has disconnected."""

    @property
    def refused(self) -> PenstockError | None:
        """The error of the model whose `Fallback` this model is; None for any other request."""

    @property
    def priority(self) -> int:
        """The requested priority; 0 without one."""

    @property
    def protocol(self) -> str:
        """The transport: "http", "grpc", or "inprocess" for a call by another model."""

    @property
    def tensors(self) -> dict[str, np.ndarray[Any, Any]]:
        """Arrays by name, in the order sent; empty for a request to a route.

        The arrays are created once and belong to the handler. BYTES are objects of `bytes`, BF16 is float32.
        """

    @property
    def datatypes(self) -> dict[str, str]:
        """The protocol's datatype of each tensor, by name."""

    @property
    def tensor_parameters(self) -> dict[str, dict[str, bool | int | float | str]]:
        """The parameters of each tensor, by name."""

    @property
    def nested(self) -> tuple[str, ...]:
        """The names of the tensors whose JSON was nested, one level per axis, instead of one flat list."""

    @property
    def binary(self) -> bool:
        """Whether the tensors came as raw bytes: after the JSON, or as gRPC's raw contents."""

    @property
    def route(self) -> str | None:
        """The matched route, as the model declares it; None for a request with tensors."""

    @property
    def method(self) -> str:
        """The HTTP method of a request to a route."""

    @property
    def path(self) -> str:
        """The path of a request to a route, as it was sent."""

    @property
    def query(self) -> str:
        """The query string of a request to a route, without the `?`."""

    @property
    def path_params(self) -> dict[str, str]:
        """The decoded values of the route's named parts."""

    @property
    def body(self) -> bytes:
        """The body of a request to a route."""

    def form(self) -> dict[str, list[FormPart]]:
        """Returns the fields and files of a form by name, each list in the order sent.

        The form is `multipart/form-data` or `application/x-www-form-urlencoded`.

        Example:
            >>> image = request.form()["image"][0].content

        Raises:
            InvalidInput: the body is not such a form.
        """

@final
class Response:
    """Response to one raw request: tensors, or a whole body.

    Args:
        body: The body; text is sent as UTF-8.
        outputs: Arrays by name, of any datatype of the protocol; lists of bytes, str and numbers are converted.
        status: The HTTP status, 200 to 599. Over gRPC a status of 400 or more is an error with the body as its text.
        headers: Further headers, by name or as pairs; over gRPC initial metadata.
        parameters: Parameters of a response with tensors.
        content_type: The type of the body; by default plain text for str, and "application/octet-stream" for bytes.
            Over gRPC a body of the type "application/grpc" is sent unchanged, as a ModelInferResponse.
        id: The id of a response with tensors, instead of the request's.
        event: The same as an event, sent instead of the response once the head of an event stream has been sent.

    Raises:
        TypeError: a body, header or parameter is of another type.
        ValueError: a status or header cannot be sent, or there are both a body and outputs.
    """

    def __new__(
        cls,
        body: bytes | bytearray | memoryview | str | None = None,
        *,
        outputs: Mapping[str, npt.ArrayLike] | None = None,
        status: int = 200,
        headers: Mapping[str, str] | Iterable[tuple[str, str]] | None = None,
        parameters: Mapping[str, bool | int | float | str] | None = None,
        content_type: str | None = None,
        id: str | None = None,  # noqa: A002
        event: bytes | bytearray | memoryview | str | None = None,
    ) -> Self: ...
    @property
    def body(self) -> bytes | None:
        """The body; None for a response with tensors."""

    @property
    def event(self) -> bytes | None:
        """The response as an event."""

    @property
    def outputs(self) -> dict[str, Any] | None:
        """The outputs by name; None for a response with a body."""

    @property
    def id(self) -> str | None:
        """The response's id, if it differs from the request's."""

    @property
    def status(self) -> int:
        """The HTTP status."""

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        """The headers, with lower-case names."""

    @property
    def parameters(self) -> dict[str, bool | int | float | str | list[Any]]:
        """The parameters."""

@final
class EventStream:
    r"""First value that the generator of a route yields, if its response is an event stream.

    The head is sent with the first event, or with a comment before it where the server has `stream_keepalive`. Until
    then an error has its own status.

    Example:
        >>> @model(routes=["POST /tell"])
        ... def tell(request: Request):
        ...     yield EventStream()
        ...     for word in generate(request.body):
        ...         yield f"data: {word}\n\n"
    """

    def __new__(cls) -> Self: ...

@final
class ClientIdentity:
    """Client of a request: its key, its certificate, and the address of its connection.

    Example:
        >>> def predict(x, ctx: Context):
        ...     if ctx.client.name == "batch-team": ...
    """

    @property
    def name(self) -> str:
        """Name of the key; else the certificate's first URI, DNS name or subject; else the address, or `local`."""

    @property
    def kind(self) -> Literal["key", "certificate", "address", "local"]:
        """How the client is known. `local` is a Unix socket, or a call in this process."""

    @property
    def key(self) -> str | None:
        """Name of the key that the request carries; None without keys, and for clients without one."""

    @property
    def address(self) -> str | None:
        """IP address of the connection's other end, which may be a proxy; None for Unix sockets and in this process."""

    @property
    def certificate(self) -> ClientCertificate | None:
        """The verified certificate of the connection; None without one."""

    def may_use(self, model: str) -> bool:
        """Returns whether its key allows a model. A handler that calls a model of the client's choice asks here."""

@final
class ClientCertificate:
    """Verified certificate of a client."""

    @property
    def subject(self) -> str:
        """Subject, such as `CN=batch, O=Example`."""

    @property
    def dns(self) -> tuple[str, ...]:
        """DNS names."""

    @property
    def uris(self) -> tuple[str, ...]:
        """URIs, such as SPIFFE ids."""

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the certificate, in lower-case hexadecimal digits."""

@final
class RequestInfo:
    """Metadata of one client's request in a batch."""

    @property
    def id(self) -> str:
        """The request's id; empty without one."""

    @property
    def headers(self) -> dict[str, str]:
        """Header values by lower-case name; over gRPC the metadata."""

    @property
    def parameters(self) -> dict[str, bool | int | float | str | list[Any]]:
        """The parameters of the request, without the reserved ones."""

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the requested outputs; all outputs if the client named none."""

    @property
    def deadline(self) -> float | None:
        """Seconds until the client stops waiting; None without a limit."""

    @property
    def priority(self) -> int:
        """The requested priority; 0 without one."""

    @property
    def sequence(self) -> SequenceInfo | None:
        """Its step of a sequence; None where the model has no sequences."""

    @property
    def rows(self) -> int:
        """The number of its rows in the batch; 1 without batching."""

    @property
    def client(self) -> ClientIdentity:
        """Its client: key, certificate and address."""

    @property
    def cancelled(self) -> bool:
        """Whether the client has disconnected."""

    def record_tokens(
        self,
        *,
        prompt: int | None = None,
        completion: int | None = None,
        finish_reason: str | None = None,
        operation: str | None = None,
    ) -> None:
        """As `Context.record_tokens`, of this request."""

@final
class Row:
    """A row of an iterative model (`Iterative`), from the step before which it joins until it has left."""

    state: Any
    """Whatever the model keeps of the row, such as its place in a cache; None at first."""

    def __getitem__(self, name: str, /) -> Any:
        """An input, as an array without the batch axis; None for an absent one.

        Raises:
            KeyError: the model has no input of that name.
        """

    @property
    def inputs(self) -> dict[str, Any]:
        """All inputs by name."""

    @property
    def step(self) -> int:
        """The number of its steps before this one: 0 at its first. In `leave`: at its last step."""

    @property
    def request(self) -> RequestInfo:
        """The request that it belongs to."""

    @property
    def index(self) -> int:
        """Its place among the rows of its request."""

    @property
    def request_id(self) -> str:
        """The request's id; empty without one."""

    @property
    def parameters(self) -> dict[str, bool | int | float | str | list[Any]]:
        """The parameters of the request, without the reserved ones."""

    @property
    def deadline(self) -> float | None:
        """Seconds until the client stops waiting; None without a limit."""

    @property
    def cancelled(self) -> bool:
        """Whether the client has disconnected. Such a row leaves before the next step."""

    def set_parameter(self, name: str, value: bool | int | float | str) -> None:
        """Sets a parameter of the row's next response."""

@final
class SequenceInfo:
    """Step of a sequence."""

    @property
    def id(self) -> int | str:
        """The id that the client chose."""

    @property
    def start(self) -> bool:
        """Whether it is the first request."""

    @property
    def end(self) -> bool:
        """Whether it is the last request. In `close_sequence`: whether the last request was computed."""

    @property
    def state(self) -> dict[Any, Any]:
        """The state of the sequence: empty at the start, and retained on the instance until the sequence ends."""

@final
class CallQueue:
    """Queue from which the event loop of an async instance takes its calls."""

    def fileno(self) -> int:
        """Returns the descriptor that the loop watches: readable when `take` has events."""

    @property
    def streams(self) -> bool:
        """Whether the handler responds in chunks."""

    @property
    def read_timeout(self) -> float:
        """The time in seconds that a client may take to read before its stream is dropped."""

    @property
    def is_draining(self) -> bool:
        """Whether the model is draining: it should begin nothing."""

    def peers(self, priority: int) -> PeerClient:
        """Returns a client for calls without a request of the model: with a priority, and without a deadline."""

    def set_thread(self, thread: int) -> None:
        """Sets the loop's thread, by its `threading.get_ident()`."""

    def loaded(self, close_sequence: Callable[[SequenceInfo], object]) -> None:
        """Reports that the handler is built."""

    def load_failed(self, raised: BaseException) -> None:
        """Reports that the handler could not be built."""

    def take(self) -> CallEvents:
        """Takes the events since the last call."""

    def close_sequences(self) -> None:
        """Closes all sequences."""

    def log_exception(self, raised: BaseException) -> None:
        """Logs an exception that has no client: of closing a handler or a generator."""

@final
class CallEvents:
    """Events of a `CallQueue`."""

    @property
    def calls(self) -> list[BatchCall]:
        """The new calls."""

    @property
    def clients_changed(self) -> bool:
        """Whether a client disconnected, or read from a full stream."""

    @property
    def closed(self) -> bool:
        """Whether no further calls will come."""

@final
class BatchCall:
    """Batch that a task of an event loop computes. Dropped without a response, it fails its requests."""

    @property
    def arguments(self) -> tuple[Any, ...]:
        """The arguments of the handler."""

    @property
    def log_context(self) -> tuple[str, str, tuple[str, ...]] | None:
        """Model, version and request ids, like the function `log_context` for a thread."""

    @property
    def trace_context(self) -> tuple[str, str] | None:
        """`traceparent` and `tracestate` of the batch's span."""

    @property
    def has_clients(self) -> bool:
        """Whether any client still waits."""

    @property
    def is_full(self) -> bool:
        """Whether a client has to read before the handler may continue."""

    def respond(self, returned: object) -> None:
        """Responds to every request with the handler's return value."""

    def send(self, chunk: object) -> bool:
        """Sends one more chunk. Returns whether the next one may follow at once."""

    def end_stream(self) -> None:
        """Ends the stream."""

    def drop_slow_clients(self) -> None:
        """Drops the clients that have not read for too long."""

    def fail(self, raised: BaseException) -> None:
        """Responds to every request with the handler's exception."""

    def cancel(self) -> None:
        """Ends a call whose clients have all disconnected."""

@final
class Worker:
    """Process that computes batches for the server that started it."""

    def __new__(cls) -> Worker:
        """Takes the socket that the server passed as standard input.

        Raises:
            RuntimeError: no server started this process.
        """

    @staticmethod
    def attach(channel: InstanceChannel) -> Worker:
        """Takes over one end of a channel and serves the other end.

        Raises:
            RuntimeError: the channel was taken before.
        """

    def receive_payload(self) -> bytes | None:
        """Waits for the payload to load; None if the server is gone."""

    def load_failed(self, summary: str, traceback: str) -> None:
        """Reports why the payload could not be loaded."""

    @property
    def is_ready(self) -> bool:
        """Whether it has loaded."""

    def serve(self, definition: Definition) -> bool:
        """Builds a handler, and computes batches until the end. Returns whether the server sent the stop."""

@final
class Listener:
    """Listener for processes that attach models: a Unix socket for one user."""

    def __new__(cls, path: str) -> Listener:
        """Listens at a path. A socket file without a listener is replaced.

        Raises:
            OSError: another process listens there, or the socket cannot be created.
        """

    def accept(self, timeout: float) -> ControlChannel | None:
        """Waits for a connection, whose process must be checked; None after `timeout` seconds, or when closed.

        Raises:
            OSError: the kernel cannot accept connections.
        """

    def close(self) -> None:
        """Stops listening and removes the path."""

@final
class ControlChannel:
    """Control channel between a server and a process that attaches models."""

    @staticmethod
    def connect(path: str) -> ControlChannel:
        """Connects to the server that listens at a path.

        Raises:
            OSError: no server listens there, or this user has no access.
        """

    def fileno(self) -> int:
        """Returns the descriptor of its socket."""

    def watch_process(self, process: int) -> None:
        """Closes the channel when the process with this id ends, which must be the one at the other end."""

    def send(self, message: bytes, channels: list[InstanceChannel]) -> None:
        """Sends a message, and moves instance channels to the other end.

        Raises:
            OSError: the other end is gone or does not read, or the message is too large.
        """

    def receive(self, timeout: float | None = None) -> tuple[bytes, list[InstanceChannel]] | None:
        """Waits for the next message with its instance channels; None after `timeout` seconds.

        Raises:
            EOFError: the channel is closed.
            OSError: the received frames are not a message.
        """

    def close(self) -> None:
        """Closes the channel for both ends."""

@final
class InstanceChannel:
    """Socket of an instance. It is empty after it was sent."""

    @staticmethod
    def pair() -> tuple[InstanceChannel, InstanceChannel]:
        """Creates a channel. Returns its two ends: the server's and the instance's.

        Raises:
            OSError: no descriptors are left.
        """

    def close(self) -> None:
        """Closes the channel for both ends, even if other processes hold them open."""

@final
class Context:
    """Context of a handler call: the requests of its batch, other models, logging and metrics.

    A batch may join several requests. `request_id`, `headers`, `client`, `parameters` and
    `deadline` are for the usual case of one, and raise `RuntimeError` when there are several: use `requests` then.
    """

    @property
    def requests(self) -> tuple[RequestInfo, ...]:
        """The joined requests, in the order of their rows."""

    @property
    def request_id(self) -> str:
        """The only request's id; empty without one."""

    @property
    def headers(self) -> dict[str, str]:
        """The only request's headers, by lower-case name."""

    @property
    def client(self) -> ClientIdentity:
        """The only request's client: its key, certificate and address."""

    @property
    def parameters(self) -> dict[str, bool | int | float | str | list[Any]]:
        """The only request's parameters."""

    @property
    def deadline(self) -> float | None:
        """Seconds left of the only request; None without a limit."""

    @property
    def sequence(self) -> SequenceInfo | None:
        """The only request's step of a sequence; None where the model has no sequences."""

    @property
    def cancelled(self) -> bool:
        """Whether all clients have disconnected, so that no response is needed."""

    @property
    def models(self) -> Peers:
        """The other models of the server: call `ctx.models["b"](x)`, or await `ctx.models["b"].aio(x)`."""

    @property
    def logger(self) -> logging.Logger:
        """The logger `penstock.<model>`."""

    @property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        """The same logger, whose records carry `request_id`, `model` and `version`.

        In a batch that joins several requests, `request_id` is their ids separated by commas.
        """

    @property
    def traceparent(self) -> str | None:
        """W3C `traceparent` of the batch's span; without tracing, the first client's."""

    @property
    def tracestate(self) -> str | None:
        """W3C `tracestate` that belongs to `traceparent`."""

    @property
    def model_name(self) -> str:
        """The name of the running model."""

    @property
    def model_version(self) -> str:
        """The version of the running model."""

    def set_parameter(self, name: str, value: bool | int | float | str) -> None:
        """Adds a parameter to the response of each request in the batch."""

    @property
    def metrics(self) -> HandlerMetrics:
        """Counters, gauges and histograms of the model, exposed at `/metrics`."""

    def record_tokens(
        self,
        *,
        prompt: int | None = None,
        completion: int | None = None,
        finish_reason: str | None = None,
        operation: str | None = None,
    ) -> None:
        """Adds to the tokens of the only request, which are counted when the handler ends.

        Args:
            prompt: Tokens of the prompt.
            completion: Generated tokens.
            finish_reason: Reason for the end of the text, such as `stop` or `length`, for the request's span.
            operation: `chat`, `text_completion` (the default), `embeddings` or `generate_content`, for the span.

        Raises:
            RuntimeError: the batch joins several requests, or the handler has ended.
            TypeError: a count is not an integer, or there is none.
            ValueError: a count or a sum is not from 0 to 2**53, or the operation is unknown.
        """

    def counter(self, name: str, value: float = 1.0) -> None:
        """Adds to `penstock_custom_total{name="..."}`; see `metrics` for metrics with other names.

        Raises:
            ValueError: the value is below 0.
        """

@final
class HandlerMetrics:
    """Metrics of a model. The server adds the labels `model` and `version`.

    Values last as long as the server, also over a reload. A model version has at most 1000 series: further ones are
    dropped, and one line in the log reports it.

    Example:
        >>> ctx.metrics.counter("tokens", 12, kind="prompt")      # tokens_total{kind="prompt",...}
        >>> ctx.metrics.gauge("cache_entries", len(cache))
        >>> ctx.metrics.observe("detections", count)              # detections_bucket{le="..."} and so on
    """

    def counter(self, name: str, /, value: float = 1.0, **labels: str | float) -> None:
        """Adds to a counter, which is exposed as `<name>_total`.

        Raises:
            ValueError: the value is below 0, or the name or a label is not valid for a metric.
        """

    def gauge(self, name: str, /, value: float, **labels: str | float) -> None:
        """Sets a gauge. Of the values that several instances set, the last one counts.

        Raises:
            ValueError: the name or a label is not valid for a metric.
        """

    def observe(self, name: str, /, value: float | Sequence[float], **labels: str | float) -> None:
        """Adds to a histogram. Its buckets are those of `model(buckets=...)`, by default for seconds up to 10.

        Args:
            name: The histogram's name.
            value: A number, or several at once.
            **labels: Its labels, without those that the server adds.

        Raises:
            ValueError: the value is below 0, or the name or a label is not valid for a metric.
        """

@final
class PeerClient:
    """Client with which the handler of one batch calls other models."""

    def call(
        self,
        name: str,
        version: str | None,
        positional: list[Any],
        named: dict[str, Any],
        parameters: dict[str, bool | int | float | str],
    ) -> PeerCall:
        """Creates a call. The request is sent at the first wait or poll.

        Raises:
            PenstockError: there is no such model, it may not be called from here, or the arrays do not fit it.
        """

    def in_flight(self, name: str, version: str | None) -> int:
        """Returns the client requests that a model has now, waiting or computed. Raises as `call` does."""

    def record_tokens(self, name: str, version: str | None, counts: dict[str, int | str | None]) -> None:
        """Counts the tokens of one request to a model: the arguments of `Peer.record_tokens`. Raises as `call` does."""

    def stream(
        self,
        name: str,
        version: str | None,
        positional: list[Any],
        named: dict[str, Any],
        parameters: dict[str, bool | int | float | str],
    ) -> PeerStream:
        """Creates a call with a streamed response. Raises as `call` does."""

@final
class PeerCall:
    """Call of one model by another."""

    def wait(self) -> dict[str, Any]:
        """Waits for the outputs by name, without the GIL."""

    def poll(self, notifier: Notifier, ticket: int, as_handles: bool) -> dict[str, Any] | None:
        """Returns the outputs if they are there, with `as_handles` as `TensorHandle`.

        Otherwise returns None, and the notifier reports `ticket` when polling again can succeed.
        """

    @property
    def poll_after(self) -> float | None:
        """Seconds after which to poll again even without a notification; None without such a time."""

    def cancel(self) -> None:
        """Cancels the call, unless it has ended."""

@final
class PeerStream:
    """Call of one model by another, with a streamed response."""

    def wait(self) -> list[dict[str, Any]]:
        """Waits for the next chunks, without the GIL: the outputs by name of each; empty at the end."""

    def poll(self, notifier: Notifier, ticket: int) -> list[dict[str, Any]] | None:
        """Returns the chunks if there are any; otherwise None, and the notifier reports `ticket` later."""

    @property
    def poll_after(self) -> float | None:
        """Seconds after which to poll again even without a notification; None without such a time."""

    def close(self) -> None:
        """Cancels the call, unless it has ended."""

@final
class ChunkFormat:
    """The outputs of a model that generates, and how their chunks are read."""

    def __new__(
        cls, output: str, *, documents: bool, finish_reason: str | None, stops: list[str], retain: bool
    ) -> ChunkFormat: ...

@final
class EventFormat:
    """The form of a response: events of an API, or with `document` one JSON document."""

    def __new__(
        cls,
        api: str,
        head: str,
        id: str,  # noqa: A002 - the name on the wire
        *,
        document: bool = False,
        include_usage: bool = False,
        continuous_usage: bool = False,
        echo: list[str] = ...,
        prompt_tokens: int = 0,
    ) -> EventFormat: ...

@final
class GeneratedChoice:
    """An answer, as far as it was retained."""

    @property
    def content(self) -> str: ...
    @property
    def reasoning(self) -> str: ...
    @property
    def tool_arguments(self) -> list[str]: ...
    @property
    def finish_reason(self) -> str: ...
    @property
    def usage(self) -> tuple[int | None, int | None, int | None, int | None]:
        """Tokens of the prompt, the answer, the cache and of reasoning, as far as the model gave them."""

@final
class Generation:
    """Answers of a model to one request, one for each call, as events of an API."""

    def __new__(cls, streams: list[PeerStream], chunks: ChunkFormat, events: EventFormat) -> Generation: ...
    def poll(self, notifier: Notifier, ticket: int) -> tuple[bytes, bool] | None:
        """Returns events if there are any, and whether the answers have ended.

        Otherwise returns None, and the notifier reports `ticket` when polling again can succeed.
        """

    @property
    def poll_after(self) -> float | None:
        """Seconds after which to poll again even without a notification; None without such a time."""

    def rest(self) -> GenerationBody:
        """Hands the rest to the server. A streaming handler of raw requests yields the result."""

    def poll_end(self, notifier: Notifier, ticket: int) -> bool | None:
        """Returns True once the server has sent the rest, or raises its error; otherwise as `poll`."""

    def choices(self) -> list[GeneratedChoice]:
        """Returns the answers so far."""

    def finish(
        self,
        prompt_tokens: int,
        completion_tokens: int,
        cached_tokens: int | None = None,
        reasoning_tokens: int | None = None,
    ) -> bytes:
        """Returns the last events, or the document."""

    def fail(self, body: str, message: str, code: str | None) -> bytes:
        """Returns the events of an error, which end the stream."""

    def close(self) -> None:
        """Cancels the calls, unless they have ended."""

@final
class GenerationBody:
    """Chunk of a response that stands for the events of answers."""

@final
class Notifier:
    """Notifier of an event loop: reports the calls that are worth polling again."""

    def __new__(cls) -> Notifier: ...
    def fileno(self) -> int:
        """Returns the descriptor that the loop watches: readable when `take` has tickets."""

    def take(self) -> list[int]:
        """Takes the tickets reported since the last call."""

@final
class TensorHandle:
    """Tensor that passes from one model to another without an array."""

    def share(self) -> TensorHandle:
        """Returns a second handle of the same tensor, for another model. Copies nothing."""

@final
class Donated:
    """Array whose memory is given to the called model, without a copy.

    The called handler may write to the array, so do not use it afterwards. It can be passed once. An array that is
    read-only or not C-contiguous is copied like any other.

    Example:
        >>> ranks = ctx.models["rank"](Donated(vectors))
    """

    def __new__(cls, array: Any) -> Donated: ...

def reset_clients() -> None:
    """Resets the clients' connections and runtime in a forked child."""

@final
class BlockingClient:
    """Client whose calls run on the calling thread."""

    def __new__(cls, url: str, options: Settings) -> BlockingClient: ...
    def infer(self, call: ClientCall, how: How) -> Answer:
        """Runs one inference."""

    def query(self, ask: Ask, how: How) -> bytes:
        """Queries the server or a model. Returns JSON."""

    def raw(self, request: RawArguments, how: How) -> RawAnswer:
        """Sends a request unchanged. Returns status, headers and body; over gRPC only the body."""

    def stream(self, call: ClientCall, how: How) -> BlockingStream:
        """Opens a stream of responses."""

    def close(self) -> None:
        """Closes idle connections."""

    @property
    def url(self) -> str:
        """The server's address."""

@final
class BlockingStream:
    """Stream of responses, read on the calling thread."""

    def next(self) -> Answer | None:
        """Returns the next response; None at the end."""

    def close(self) -> None:
        """Ends the stream."""

@final
class CompletionQueue:
    """Queue of results of the runtime's calls, for one event loop or thread."""

    def __new__(cls) -> CompletionQueue: ...
    def fileno(self) -> int:
        """Returns a descriptor that is readable while there are results."""

    def take(self) -> list[tuple[int, Any, BaseException | None]]:
        """Takes the results: ticket, value and exception; both None for a call that needs another step."""

@final
class LoadRun:
    """Load on a server, on threads of the extension: a warm-up, then a measurement."""

    def __new__(
        cls, url: str, options: Settings, calls: list[ClientCall], bodies: list[RawArguments], plan: Plan
    ) -> LoadRun: ...
    def wait_warm(self, seconds: float) -> bool:
        """Waits for the end of the warm-up, at most that long. Returns whether it is over."""

    def measure(self) -> None:
        """Begins the measurement."""

    def wait(self, seconds: float) -> bool:
        """Waits for the end of the measurement and its requests, at most that long. Returns whether it is over."""

    def stop(self) -> None:
        """Ends the warm-up or the measurement. Requests in flight finish."""

    def progress(self) -> tuple[int, int]:
        """Successful responses and errors of the warm-up or the measurement so far."""

    def measured(self) -> Measured:
        """Returns the result, once `wait` has returned True."""

@final
class PendingCall:
    """Pending call, run by the runtime or by steps of its event loop."""

    @property
    def ticket(self) -> int:
        """Its number in the completion queue."""

    @property
    def wait_fd(self) -> int | None:
        """The descriptor to wait for before the next step; None if the runtime runs the call."""

    def step(self) -> tuple[Any, BaseException | None]:
        """Runs the next step. Returns value and exception if that ends the call, then without a queued result."""

    def cancel(self) -> None:
        """Cancels the call."""

@final
class RuntimeClient:
    """Client whose calls run on the runtime of the process."""

    def __new__(cls, url: str, options: Settings) -> RuntimeClient: ...
    def infer(self, call: ClientCall, how: How, queue: CompletionQueue, stepped: bool) -> PendingCall:
        """Starts an inference. With `stepped`, the event loop may have to run its steps."""

    def query(self, ask: Ask, how: How, queue: CompletionQueue) -> PendingCall:
        """Starts a query, whose result is JSON."""

    def raw(self, request: RawArguments, how: How, queue: CompletionQueue, stepped: bool) -> PendingCall:
        """Starts an unchanged request, whose result is status, headers and body. `stepped` as for `infer`."""

    def stream(self, call: ClientCall, how: How, queue: CompletionQueue) -> PendingCall:
        """Starts a stream, whose result is a `RuntimeStream`."""

    def close(self) -> None:
        """Closes idle connections."""

    @property
    def url(self) -> str:
        """The server's address."""

@final
class RuntimeStream:
    """Stream of responses, read ahead by the runtime."""

    def next(self, queue: CompletionQueue) -> PendingCall:
        """Starts a wait for responses: a list whose last item may be an exception; empty at the end."""

    def close(self) -> None:
        """Ends the stream."""
