"""The compiled part: it does all serving. Users reach it through `penstock`."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, final

import numpy as np
import numpy.typing as npt
from typing_extensions import Self

from penstock._runtime.peers import Peers
from penstock._spec.definition import Definition
from penstock.client._base import Ask, How
from penstock.client._call import Call as ClientCall
from penstock.client._options import Settings
from penstock.client._raw import RawAnswer, RawArguments
from penstock.client._result import Answer
from penstock.config import ServerConfig
from penstock.errors import PenstockError

__all__ = [
    "BlockingClient",
    "BlockingPieces",
    "Call",
    "Channel",
    "Command",
    "Context",
    "Door",
    "HandlerMetrics",
    "Held",
    "InProcess",
    "Line",
    "Link",
    "Mailbox",
    "Models",
    "Moved",
    "News",
    "PeerCall",
    "PeerPieces",
    "Port",
    "Post",
    "Prepared",
    "Request",
    "RequestInfo",
    "Response",
    "Running",
    "SequenceInfo",
    "Server",
    "SharedClient",
    "SharedPieces",
    "Signals",
    "Worker",
    "client_forked",
    "copies",
    "current",
    "debug_build",
    "enable_request_contexts",
    "forked",
    "plain_text",
    "processors",
    "version",
]

version: str
"""The version of the package."""

debug_build: bool
"""Whether it was compiled without optimisation, which is many times slower."""

def copies() -> dict[str, int]:
    """The bytes of tensors that were copied in this process, by step of a request's way. For tests."""

def processors() -> int:
    """The processors that this process may use: affinity, and the control group's quota rounded down; at least 1."""

def current() -> tuple[str, str, tuple[str, ...]] | None:
    """What this thread computes now: a model, its version, and the ids of the requests."""

def plain_text(text: str, *, cut: bool) -> str:
    """Text as the server's log has it: what does not print is escaped, and with `cut` 256 bytes are kept."""

def forked() -> None:
    """To be called in the child after a fork: what returns from a handler there ends the child."""

def enable_request_contexts() -> None:
    """From now on requests say who they are, for `current`."""

@final
class Signals:
    """Counts signals as they come, drains at the first one, and ends the process if Python does not.

    Args:
        numbers: The signals that mean the end.
        start_timeout: How long the first one leaves to a start, in seconds; None for as long as it needs.
    """

    def __new__(cls, numbers: list[int], start_timeout: float | None = None) -> Signals: ...
    def fileno(self) -> int:
        """For `signal.set_wakeup_fd`."""

    @property
    def count(self) -> int:
        """How many have come that mean the end."""

    def heed(self, server: Server, timeout: float) -> None:
        """Has them stop a server that has started, whose requests have so many seconds."""

    def heed_attached(self, line: Line, message: bytes, timeout: float) -> None:
        """Has the first one say this to the server at the other end; requests have so many seconds."""

    def heed_nothing(self) -> None:
        """Has them counted only."""

    def stop(self) -> None:
        """Does what a signal does."""

    def close(self) -> None:
        """Heeds them no longer."""

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

    @property
    def metrics_address(self) -> str | None:
        """Where metrics and nothing else are served; None when off or not started."""

    @property
    def descriptors(self) -> list[int]:
        """What it listens on, as descriptors, until it has stopped; empty when not started."""

    def wait(self, timeout: float | None) -> bool:
        """Blocks until the server has stopped; signals interrupt it. Whether it has stopped."""

    def stop(self, timeout: float | None) -> list[str]:
        """Drains for at most `timeout` seconds (None: the configured time) and stops.

        Returns the names of what the deadline cut; empty when all requests finished.
        """

    @property
    def models(self) -> Models:
        """What is served, to load and unload models."""

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

    @property
    def models(self) -> Models:
        """What is served, to load and unload models."""

    def stuck(self) -> list[str]:
        """The models whose handlers had not returned a few seconds after the stop."""

@final
class Models:
    """The models of a running server, for whoever loads and unloads them."""

    def prepare(self, definition: Definition) -> Prepared:
        """Builds the instances of a model, which nobody finds yet. Blocks until all are built.

        Raises:
            LoadError: one failed; `__cause__` is its own exception.
        """

    def check_routes(self, prepared: list[Prepared], leaving: list[str]) -> None:
        """Refuses models of which one has a route that another has, or one that serves and is not to leave.

        Raises:
            SignatureError: it names both models and the route.
        """

    def set_refusal(self, model: str, version: str | None, refusal: str | None) -> None:
        """Has a model, in one version or in all, refuse requests for a reason; None: no more.

        Raises:
            NotFound: there is no such model or version.
            Unavailable: it is not loaded.
        """

    def swap(self, model: str, prepared: list[Prepared], keep: list[str]) -> None:
        """In one step, makes a model's versions those prepared, and of those that serve those kept.

        All others finish the requests that found them, and end.
        """

    def describe(self, model: str, versions: list[tuple[str, bool, str]]) -> None:
        """Makes a model known, and says of versions whether they are being loaded, and why they do not serve."""

    def forget(self, model: str) -> None:
        """Forgets a model of which nothing serves."""

    def serving(self, model: str) -> list[str]:
        """The versions that serve, in ascending order."""

    def leaving(self) -> int:
        """How many versions were swapped out and have not ended yet."""

    def next(self, timeout: float) -> Command | None:
        """The next command of a client; None after so many seconds, or at once when closed."""

    def close(self) -> None:
        """Takes no more commands."""

    @property
    def closed(self) -> bool:
        """Whether it takes no more commands."""

@final
class Prepared:
    """A model whose instances are built. Dropped, it ends."""

@final
class Command:
    """A client's wish to load or unload a model. Dropped without an answer, it is answered `Unavailable`."""

    @property
    def model(self) -> str:
        """The model's name as the client gave it."""

    @property
    def load(self) -> tuple[str | None, dict[str, bytes]] | None:
        """The configuration and the files of a load; None to unload."""

    def done(self) -> None:
        """Answers that it is done."""

    def refuse(self, kind: str, message: str) -> None:
        """Answers with an error of a kind."""

@final
class Request:
    """One request as it is: any tensors, or an HTTP request to a route of the model's own.

    A server makes them. One that is made by hand is for calling a handler in a test.

    Args:
        tensors: Arrays by name.
        id: The request's id.
        headers: Header values by name.
        parameters: The request's own parameters.
        outputs: The names of the outputs that it asks for; None for all.
        tensor_parameters: The own parameters of tensors, by name.
        nested: The names of the tensors that came as lists in lists.
        route: The route that it came to, as the model declares it; without it there are no method, path and body.
        method: Its HTTP method.
        path: Its path.
        query: What follows the `?`.
        path_params: What the named parts of the route stand for.
        body: Its body.

    Raises:
        TypeError: a tensor is no array of a type that the protocol has.

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
        """The request's id; empty if it has none."""

    @property
    def headers(self) -> dict[str, str]:
        """Header values by name in lower case (gRPC: the metadata)."""

    @property
    def parameters(self) -> dict[str, bool | int | float | str | list[Any]]:
        """The request's own parameters, without the reserved ones."""

    @property
    def outputs(self) -> tuple[str, ...] | None:
        """The names of the outputs that its caller asked for, in that order; None for all."""

    @property
    def deadline(self) -> float | None:
        """Seconds left until the caller stops waiting; None if it set no limit."""

    @property
    def cancelled(self) -> bool:
        """Whether the caller left."""

    @property
    def refused(self) -> PenstockError | None:
        """Why the model that this one is the `Fallback` of could not answer; None for any other request."""

    @property
    def priority(self) -> int:
        """The priority that its caller asked for; 0 if it named none."""

    @property
    def protocol(self) -> str:
        """How it came: "http", "grpc", or "inprocess" from another model."""

    @property
    def tensors(self) -> dict[str, np.ndarray[Any, Any]]:
        """Its tensors by name, in the order sent: made once, and the handler's own; none of a request to a route.

        BYTES are objects of `bytes`, BF16 is float32.
        """

    @property
    def datatypes(self) -> dict[str, str]:
        """The wire's datatype of each tensor, by name."""

    @property
    def tensor_parameters(self) -> dict[str, dict[str, bool | int | float | str]]:
        """The own parameters of each tensor, by name."""

    @property
    def nested(self) -> tuple[str, ...]:
        """The names of the tensors whose JSON was lists in lists, one level for each axis, not one flat list."""

    @property
    def binary(self) -> bool:
        """Whether its tensors came as raw bytes: after the JSON, or as gRPC's raw contents."""

    @property
    def route(self) -> str | None:
        """The route that it came to, as the model declares it; None for a request that brings tensors."""

    @property
    def method(self) -> str:
        """The HTTP method, of a request to a route."""

    @property
    def path(self) -> str:
        """The path as it was sent, of a request to a route."""

    @property
    def query(self) -> str:
        """What follows the `?` of a request to a route; empty without one."""

    @property
    def path_params(self) -> dict[str, str]:
        """What the named parts of the route stand for, decoded."""

    @property
    def body(self) -> bytes:
        """The body of a request to a route."""

@final
class Response:
    """An answer to one request: tensors, or a whole body.

    Args:
        body: The body; text is sent as UTF-8.
        outputs: Arrays by name, of any datatype that the protocol has; lists of bytes, str and numbers become such.
        status: The HTTP status, 200 to 599. Over gRPC one of 400 or more is an error with the body as its text.
        headers: Further headers, by name or as pairs; over gRPC initial metadata.
        parameters: Parameters of an answer in tensors.
        content_type: The type of the body; else plain text for str, and bytes of no type for bytes. Over gRPC a body of
            the type "application/grpc" is the answer's message, a ModelInferResponse, as it is.
        id: The id of an answer in tensors, instead of the request's.

    Raises:
        TypeError: a body, header or parameter is of another type.
        ValueError: a status or header cannot be sent, or there are a body and outputs.
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
    ) -> Self: ...
    @property
    def body(self) -> bytes | None:
        """The body; None for an answer in tensors."""

    @property
    def outputs(self) -> dict[str, Any] | None:
        """The outputs by name; None for an answer in another form."""

    @property
    def id(self) -> str | None:
        """The answer's id, where it is not to be the request's."""

    @property
    def status(self) -> int:
        """The HTTP status."""

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        """The headers, their names in lower case."""

    @property
    def parameters(self) -> dict[str, bool | int | float | str | list[Any]]:
        """The parameters."""

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
    def outputs(self) -> tuple[str, ...]:
        """The names of the outputs that its caller asked for; all of them if it named none."""

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
class Port:
    """Where the event loop of an async instance gets its calls."""

    def fileno(self) -> int:
        """What the loop watches for reading."""

    @property
    def streams(self) -> bool:
        """Whether the handler answers in pieces."""

    @property
    def patience(self) -> float:
        """How long a stream's caller may leave its handler waiting, in seconds."""

    def runs_on(self, thread: int) -> None:
        """The loop runs on the thread with this `threading.get_ident()`."""

    def built(self, close_sequence: Callable[[SequenceInfo], object]) -> None:
        """The handler is built."""

    def failed(self, raised: BaseException) -> None:
        """The handler could not be built."""

    def take(self) -> News:
        """What came since the last time."""

    def close_sequences(self) -> None:
        """Lets go of all sequences."""

    def log(self, raised: BaseException) -> None:
        """Logs what the handler raised when it was closed."""

@final
class News:
    """What a look at a `Port` brings."""

    @property
    def calls(self) -> list[Call]:
        """What is to be computed."""

    @property
    def moved(self) -> bool:
        """Whether a caller left, or read from a full stream."""

    @property
    def closed(self) -> bool:
        """Whether nothing more will come."""

@final
class Call:
    """A batch that a task of an event loop computes. Dropped without an answer, it fails its callers."""

    @property
    def arguments(self) -> tuple[Any, ...]:
        """The arguments of the handler."""

    @property
    def current(self) -> tuple[str, str, tuple[str, ...]] | None:
        """As `current` tells it of a thread."""

    @property
    def trace(self) -> tuple[str, str] | None:
        """`traceparent` and `tracestate` of the span that it is computed in."""

    @property
    def wanted(self) -> bool:
        """Whether any caller still waits."""

    @property
    def full(self) -> bool:
        """Whether a caller has to read before the handler may go on."""

    def answer(self, returned: object) -> None:
        """Answers every caller with what the handler returned."""

    def send(self, piece: object) -> bool:
        """Gives every caller one more piece. Whether the next one may follow at once."""

    def end(self) -> None:
        """The handler has no more pieces."""

    def give_up_full(self) -> None:
        """Lets go of the callers that have not read for too long."""

    def fail(self, raised: BaseException) -> None:
        """Answers every caller with what the handler raised."""

    def cancelled(self) -> None:
        """Ends a call that nobody waits for any more."""

@final
class Worker:
    """A process that computes batches for the server that started it."""

    def __new__(cls) -> Worker:
        """Takes the socket that the server has put in the place of the standard input.

        Raises:
            RuntimeError: no server has started this process.
        """

    @staticmethod
    def attached(channel: Channel) -> Worker:
        """One that serves the other end of a channel, which it takes over.

        Raises:
            RuntimeError: the channel was given away.
        """

    def payload(self) -> bytes | None:
        """What is to be loaded; None if the server is gone."""

    def failed(self, summary: str, traceback: str) -> None:
        """Says why it could not be loaded."""

    @property
    def is_ready(self) -> bool:
        """Whether it has loaded."""

    def serve(self, definition: Definition) -> bool:
        """Builds a handler, and computes batches until the server says stop, or is gone. Whether it said so."""

@final
class Door:
    """Where processes come that attach models: a Unix socket for one user."""

    def __new__(cls, path: str) -> Door:
        """Listens there. A socket that nobody listens on any more is taken over.

        Raises:
            OSError: somebody listens there, or it cannot be made.
        """

    def next(self, timeout: float) -> Line | None:
        """Waits for somebody to come, who is to be looked at; None after so many seconds, or when it is closed.

        Raises:
            OSError: the kernel's.
        """

    def close(self) -> None:
        """Lets nobody in any more, and takes the path away."""

@final
class Line:
    """What a server and a process that attaches models say to each other."""

    @staticmethod
    def connect(path: str) -> Line:
        """A line to the server that listens there.

        Raises:
            OSError: nobody does, or not for this user.
        """

    def fileno(self) -> int:
        """Its socket."""

    def watch(self, process: int) -> None:
        """Ends it with the process of that number, the one at the other end."""

    def say(self, message: bytes, channels: list[Channel]) -> None:
        """Says something, and gives channels away with it.

        Raises:
            OSError: the other end is gone or does not listen, or the message is too large.
        """

    def hear(self, timeout: float | None = None) -> tuple[bytes, list[Channel]] | None:
        """What is said next, and what is given with it; None after so many seconds.

        Raises:
            EOFError: the line has ended.
            OSError: what came is no message.
        """

    def hang_up(self) -> None:
        """Ends the line."""

@final
class Channel:
    """The socket of an instance. Given away, it is empty."""

    @staticmethod
    def pair() -> tuple[Channel, Channel]:
        """Its two ends: the server's and the instance's.

        Raises:
            OSError: there are no descriptors left.
        """

    def hang_up(self) -> None:
        """Ends what goes over it, whoever holds it."""

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
    def models(self) -> Peers:
        """The other models of the server, to be called: `ctx.models["b"](x)`, or with `.aio(x)` to await."""

    @property
    def logger(self) -> logging.Logger:
        """The logger `penstock.<model>`."""

    @property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        """The same logger, whose records carry `request_id`, `model` and `version`.

        Of a batch that joins several requests, `request_id` has their ids with commas in between.
        """

    @property
    def traceparent(self) -> str | None:
        """The span that the batch is computed in, as W3C's header; of one that is not traced, the first caller's."""

    @property
    def tracestate(self) -> str | None:
        """What goes with `traceparent`."""

    @property
    def model_name(self) -> str:
        """The name of the model that runs."""

    @property
    def model_version(self) -> str:
        """The version of the model that runs."""

    def set_parameter(self, name: str, value: bool | int | float | str) -> None:
        """Adds a parameter to the answer of each request in the batch."""

    @property
    def metrics(self) -> HandlerMetrics:
        """Counters, gauges and histograms of the model's own, shown at `/metrics` beside the server's."""

    def counter(self, name: str, value: float = 1.0) -> None:
        """Adds to `penstock_custom_total{name="..."}` in the server's metrics; see `metrics` for those of other names.

        Raises:
            ValueError: the value is below 0.
        """

@final
class HandlerMetrics:
    """Metrics of the model's own. The server adds the labels `model` and `version`.

    What is kept lasts as long as the server, also over a reload. A model version keeps at most 1000 series: with
    more, a line in the log says so once, and further ones are not kept.

    Example:
        >>> ctx.metrics.counter("tokens", 12, kind="prompt")      # tokens_total{kind="prompt",...}
        >>> ctx.metrics.gauge("cache_entries", len(cache))
        >>> ctx.metrics.observe("detections", count)              # detections_bucket{le="..."} and so on
    """

    def counter(self, name: str, /, value: float = 1.0, **labels: str | float) -> None:
        """Adds to a counter, which is shown as `<name>_total`.

        Raises:
            ValueError: the value is below 0, or the name or a label cannot be that of a metric.
        """

    def gauge(self, name: str, /, value: float, **labels: str | float) -> None:
        """Sets a gauge. Of what several instances set, the last counts.

        Raises:
            ValueError: the name or a label cannot be that of a metric.
        """

    def observe(self, name: str, /, value: float | Sequence[float], **labels: str | float) -> None:
        """Adds to a histogram, whose buckets are those of `model(buckets=...)`, or else for seconds up to 10.

        Args:
            name: The histogram's name.
            value: A number, or several at once.
            **labels: Its labels beside the server's own.

        Raises:
            ValueError: the value is below 0, or the name or a label cannot be that of a metric.
        """

@final
class Link:
    """One batch's way to other models."""

    def begin(
        self,
        name: str,
        version: str | None,
        positional: list[Any],
        named: dict[str, Any],
        parameters: dict[str, bool | int | float | str],
    ) -> PeerCall:
        """Makes a call, which is sent when it is first waited for.

        Raises:
            PenstockError: there is no such model, it may not be called from here, or it takes no such arrays.
        """

    def in_flight(self, name: str, version: str | None) -> int:
        """The clients' requests that a model has now, waiting or computed. Raises what `begin` raises."""

    def begin_stream(
        self,
        name: str,
        version: str | None,
        positional: list[Any],
        named: dict[str, Any],
        parameters: dict[str, bool | int | float | str],
    ) -> PeerPieces:
        """Makes a call that is answered in pieces. As `begin`."""

@final
class PeerCall:
    """One call of a model by a model."""

    def wait(self) -> dict[str, Any]:
        """Waits for the outputs by name, without the interpreter."""

    def poll(self, post: Post, ticket: int, held: bool) -> dict[str, Any] | None:
        """The outputs if they are there, as `Held` if asked; else the ticket is left when it is worth asking again."""

    @property
    def patience(self) -> float | None:
        """In how many seconds it is worth asking again, whatever happens; None if there is no such time."""

    def cancel(self) -> None:
        """Abandons the call, if it has not ended."""

@final
class PeerPieces:
    """One call of a model by a model that is answered in pieces."""

    def wait(self) -> list[dict[str, Any]]:
        """Waits for the outputs by name of all pieces that are there, without the interpreter; empty at the end."""

    def poll(self, post: Post, ticket: int) -> list[dict[str, Any]] | None:
        """The same if there are any; else the ticket is left when it is worth asking again."""

    @property
    def patience(self) -> float | None:
        """In how many seconds it is worth asking again, whatever happens; None if there is no such time."""

    def close(self) -> None:
        """Abandons the call, if it has not ended."""

@final
class Post:
    """Tells an event loop which of its calls are worth asking again."""

    def __new__(cls) -> Post: ...
    def fileno(self) -> int:
        """What the loop watches for reading: `take` has something then."""

    def take(self) -> list[int]:
        """The tickets that were left since the last time."""

@final
class Held:
    """A tensor that is only handed on, from one model to another."""

    def share(self) -> Held:
        """The same tensor once more, for one more model. Copies nothing."""

@final
class Moved:
    """An array that is given away: a model that is called with it gets its memory, and no copy.

    The called handler may write to it, so it must not be used afterwards. It can be passed once. Where the array cannot
    be handed over as it lies, because it is read-only or not C-contiguous, it is copied like any other.

    Example:
        >>> ranks = ctx.models["rank"](Moved(vectors))
    """

    def __new__(cls, array: Any) -> Moved: ...

def client_forked() -> None:
    """To be called in the child after a fork."""

@final
class BlockingClient:
    """Calls on the caller's own thread."""

    def __new__(cls, url: str, options: Settings) -> BlockingClient: ...
    def infer(self, call: ClientCall, how: How) -> Answer:
        """Runs one inference."""

    def ask(self, ask: Ask, how: How) -> bytes:
        """Asks a question about the server or a model; JSON."""

    def raw(self, request: RawArguments, how: How) -> RawAnswer:
        """Sends a request as it is: status, headers and body; of gRPC only the body."""

    def stream(self, call: ClientCall, how: How) -> BlockingPieces:
        """Opens a stream of answers."""

    def close(self) -> None:
        """Lets idle connections go."""

    @property
    def url(self) -> str:
        """The server's address."""

@final
class BlockingPieces:
    """A stream of answers, read on the caller's own thread."""

    def next(self) -> Answer | None:
        """The next piece; None at the end."""

    def close(self) -> None:
        """Ends the stream."""

@final
class Mailbox:
    """What became of calls on the runtime, for one event loop or thread."""

    def __new__(cls) -> Mailbox: ...
    def fileno(self) -> int:
        """Readable while there is something to take."""

    def take(self) -> list[tuple[int, Any, BaseException | None]]:
        """Ticket, value and exception of each call that has ended; neither for one that is to take another step."""

@final
class Running:
    """A call under way: on the runtime, or carried on by its asker's steps."""

    @property
    def ticket(self) -> int:
        """Its number in the mailbox."""

    @property
    def waits(self) -> int | None:
        """The descriptor that is to be readable before the next step; None if its asker is to take none."""

    def step(self) -> tuple[Any, BaseException | None]:
        """Carries the call on. Value and exception if it has ended with this step; the mailbox then has neither."""

    def cancel(self) -> None:
        """Gives it up."""

@final
class SharedClient:
    """Calls on the process's runtime."""

    def __new__(cls, url: str, options: Settings) -> SharedClient: ...
    def infer(self, call: ClientCall, how: How, mailbox: Mailbox, stepped: bool) -> Running:
        """Begins an inference, whose value is an answer; `stepped`: its asker may be told to carry it on."""

    def ask(self, ask: Ask, how: How, mailbox: Mailbox) -> Running:
        """Begins a question, whose value is JSON."""

    def raw(self, request: RawArguments, how: How, mailbox: Mailbox, stepped: bool) -> Running:
        """Begins a request as it is, whose value is status, headers and body; `stepped` as for `infer`."""

    def stream(self, call: ClientCall, how: How, mailbox: Mailbox) -> Running:
        """Begins a stream, whose value is `SharedPieces`."""

    def close(self) -> None:
        """Lets idle connections go."""

    @property
    def url(self) -> str:
        """The server's address."""

@final
class SharedPieces:
    """A stream of answers, read ahead by the runtime."""

    def next(self, mailbox: Mailbox) -> Running:
        """Begins to wait for pieces: a list of answers, the last may be an exception; empty at the end."""

    def close(self) -> None:
        """Ends the stream."""
