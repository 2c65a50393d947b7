"""`Client`: calls on the caller's own thread."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from penstock.client import _call
from penstock.client._base import Ask, Base, How, Timeout, inputs_of, metadata_ask
from penstock.client._result import Result
from penstock.client._sequence import Sequence

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self, Unpack

    from penstock import _core
    from penstock.client._hedged import HedgedClient
    from penstock.client._options import ClientOptions, Settings

__all__ = ["Client"]


class Client(Base["_core.BlockingClient | HedgedClient"]):
    """A client of one server. It may be used by any number of threads at once.

    Connections are made when they are needed, one for each call at a time, and kept. A call runs on
    the thread that makes it, without the interpreter.

    Args:
        url: `http://host:port`, `https://host`, `grpc://host:port`, `grpcs://host`, `unix:/path` (REST
            over a Unix socket) or `grpc+unix:/path`.
        options: See `ClientOptions`.

    Raises:
        InvalidInput: the URL, a header or a certificate cannot be used.

    Example:
        >>> with Client("grpc://127.0.0.1:8001", timeout=5, retries=2) as client:
        ...     y = client.infer("double", x=np.ones((1, 16), np.float32)).y
    """

    def __init__(self, url: str, **options: Unpack[ClientOptions]) -> None:
        super().__init__(url, options)

    def infer(
        self,
        model: str,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        outputs: Iterable[str] | None = None,
        parameters: Mapping[str, bool | int | float | str] | None = None,
        timeout: Timeout = ...,
        request_id: str | None = None,
        headers: Mapping[str, str] | None = None,
        version: str | None = None,
        datatypes: Mapping[str, str] | None = None,
        **named: Any,
    ) -> Result:
        """Runs one inference.

        Args:
            model: The model's name.
            inputs: A value by input name. Inputs may also be given as keywords. An array goes as it is,
                from its own memory: do not write to it meanwhile. Lists, numbers, `str` and `bytes`
                become what the model's metadata says, which is asked for once.
            outputs: The outputs to ask for; all by default.
            parameters: The request's parameters.
            timeout: Seconds that the call may take, instead of the client's.
            request_id: The request's id, which the server repeats.
            headers: Headers (gRPC: metadata) of this call.
            version: The model's version; the server chooses by default.
            datatypes: Wire names by input, where an array's dtype does not say it: `{"x": "BF16"}`
                sends a float32 array as brain floats.
            named: Inputs.

        Raises:
            InvalidInput: an input cannot be sent, or the server refused the request.
            Unavailable: the server cannot be reached, or the connection was lost.
            Timeout: there was no answer in time.
            PenstockError: any other refusal, by its kind.

        Example:
            >>> client.infer("double", x=np.ones((1, 16), np.float32)).value.shape
            (1, 16)
            >>> client.infer("upper", text="hello").text
            'HELLO'
        """
        how = self._how(headers, timeout)
        call = self._call(
            model,
            inputs_of(inputs, named),
            how,
            version=version,
            request_id=request_id,
            outputs=outputs,
            parameters=parameters,
            datatypes=datatypes,
        )
        return Result(self._core.infer(call, how))

    def stream(
        self,
        model: str,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        outputs: Iterable[str] | None = None,
        parameters: Mapping[str, bool | int | float | str] | None = None,
        timeout: Timeout = ...,
        request_id: str | None = None,
        headers: Mapping[str, str] | None = None,
        version: str | None = None,
        datatypes: Mapping[str, str] | None = None,
        **named: Any,
    ) -> Stream:
        """Runs one inference whose answer comes in pieces.

        Arguments are those of `infer`; `timeout` is for each piece. Leaving the loop ends the stream on
        the server too, once the stream is closed or collected.

        Example:
            >>> for piece in client.stream("chat", prompt="hi"):
            ...     print(piece.text, end="")
        """
        how = self._how(headers, timeout)
        call = self._call(
            model,
            inputs_of(inputs, named),
            how,
            version=version,
            request_id=request_id,
            outputs=outputs,
            parameters=parameters,
            datatypes=datatypes,
        )
        return Stream(self._core.stream(call, how))

    def sequence(self, model: str, sequence_id: int | str) -> Sequence:
        """Begins a sequence of requests to a model that remembers; see `Sequence`."""
        return Sequence(self, model, sequence_id)

    def live(self, *, timeout: Timeout = ...) -> bool:
        """Whether the server runs."""
        return bool(self._ask(("live", "", "", None), timeout))

    def ready(self, *, timeout: Timeout = ...) -> bool:
        """Whether the server and all its models can answer."""
        return bool(self._ask(("ready", "", "", None), timeout))

    def model_ready(self, model: str, *, version: str | None = None, timeout: Timeout = ...) -> bool:
        """Whether a model can answer.

        Raises:
            NotFound: there is no such model.
        """
        return bool(self._ask(("model_ready", model, version or "", None), timeout))

    def server_metadata(self, *, timeout: Timeout = ...) -> dict[str, Any]:
        """The server's `name`, `version` and `extensions`."""
        return dict(self._ask(("server_metadata", "", "", None), timeout))

    def metadata(self, model: str, *, version: str | None = None, timeout: Timeout = ...) -> dict[str, Any]:
        """A model's `name`, `versions`, `platform`, `inputs` and `outputs`."""
        return dict(self._ask(metadata_ask(model, version), timeout))

    def config(self, model: str, *, version: str | None = None, timeout: Timeout = ...) -> dict[str, Any]:
        """A model's configuration, in Triton's form."""
        return dict(self._ask(("config", model, version or "", None), timeout))

    def statistics(
        self, model: str | None = None, *, version: str | None = None, timeout: Timeout = ...
    ) -> dict[str, Any]:
        """Counts and times of past inferences, of one model or all, in Triton's form."""
        return dict(self._ask(("statistics", model or "", version or "", None), timeout))

    def index(self, *, timeout: Timeout = ...) -> list[dict[str, Any]]:
        """The models that the server knows, each with its `state`."""
        return list(self._ask(("index", "", "", None), timeout))

    def load(self, model: str, *, config: Mapping[str, Any] | None = None, timeout: Timeout = ...) -> None:
        """Loads a model, or loads it anew; `config` is in Triton's form."""
        self._ask(("load", model, "", None if config is None else json.dumps(dict(config))), timeout)

    def unload(self, model: str, *, dependents: bool = False, timeout: Timeout = ...) -> None:
        """Unloads a model, and with `dependents` those that only it needs."""
        self._ask(("unload", model, "", "dependents" if dependents else None), timeout)

    def close(self) -> None:
        """Lets the connections go. Calls under way finish; new ones are refused."""
        self._closed = True
        self._core.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _make(self, url: str, settings: Settings) -> _core.BlockingClient | HedgedClient:
        from penstock import _core

        if settings.hedge is None:
            return _core.BlockingClient(url, settings)
        from penstock.client._hedged import HedgedClient

        return HedgedClient(url, settings)

    def _ask(self, ask: Ask, timeout: Timeout) -> Any:
        return json.loads(self._core.ask(ask, self._how(None, timeout)) or b"{}")

    def _call(self, model: str, inputs: Mapping[str, Any], how: How, *, version: str | None, **rest: Any) -> _call.Call:
        known = None
        if _call.needs_metadata(inputs):
            key = (model, version or "")
            known = self._declared.get(key)
            if known is None:
                known = _call.declared(json.loads(self._core.ask(metadata_ask(model, version), how)))
                self._declared[key] = known
        return _call.call(model, inputs, known=known, version=version, **rest)


class Stream(Iterator[Result]):
    """The pieces of a streamed answer. Iterate over it; it is a context manager too."""

    def __init__(self, pieces: _core.BlockingPieces) -> None:
        self._pieces = pieces

    def __next__(self) -> Result:
        piece = self._pieces.next()
        if piece is None:
            raise StopIteration
        return Result(piece)

    def close(self) -> None:
        """Ends the stream, also on the server's side."""
        self._pieces.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
