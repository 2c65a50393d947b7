"""`Client`: the blocking client."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from penstock.client import _call, _hints
from penstock.client._base import Ask, Base, Headers, Timeout, ask_of, hint_of, inputs_of
from penstock.client._options import How
from penstock.client._pending import Pending, begin
from penstock.client._questions import Questions
from penstock.client._raw import RawCalls
from penstock.client._result import Result
from penstock.client._sequence import Sequence
from penstock.client._streams import Stream
from penstock.errors import InvalidInput, NotFound, PenstockError

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self, Unpack

    from penstock import _core
    from penstock.client._hedged import HedgedClient
    from penstock.client._options import Call, ClientOptions, Settings
    from penstock.client._raw import RawAnswer, RawArguments

__all__ = ["Client"]


class Client(Base["_core.BlockingClient | HedgedClient"], Questions, RawCalls):
    """A client of one server. Any number of threads may use it at once.

    Connections are opened on demand, one for each concurrent call, and reused. A call runs on the calling thread with
    the GIL released.

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
        self._shared: _core.RuntimeClient | None = None
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
            inputs: A value by input name. Inputs may also be keywords. An array is sent from its own memory: do not
                write to it during the call. Lists, numbers, `str` and `bytes` are converted to the datatype in the
                model's metadata, which is requested once.
            outputs: The requested outputs; all by default.
            parameters: Parameters of the request.
            timeout: Time limit in seconds, in place of the client's.
            request_id: Id of the request, which the response repeats.
            headers: Headers (gRPC: metadata) of this call.
            version: Version of the model; the server chooses by default.
            datatypes: Datatypes on the wire by input, where they differ from the array's: `{"x": "BF16"}` sends a
                float32 array as BF16.
            named: Inputs.

        Raises:
            InvalidInput: an input cannot be sent, or the server rejected the request.
            Unavailable: the server cannot be reached, or the connection was lost.
            Timeout: no response in time.
            PenstockError: any other error, by its kind.

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
        try:
            return Result(self._core.infer(call, how))
        except (InvalidInput, NotFound) as error:
            self._explain(error, call, how)
            raise

    def submit(
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
        into: Pending[Any] | None = None,
        **named: Any,
    ) -> Pending[Result]:
        """Begins one inference without waiting. Returns a future of its result.

        Arguments are those of `infer`; `into` is a future in place of a new one, see `Pending`. Any number of calls may
        be under way at once, on one thread for the whole process; over REST each needs a connection. Do not write
        to the arrays before the future is done.

        Raises:
            InvalidInput: an input cannot be sent.

        Example:
            >>> futures = [client.submit("double", x=row) for row in rows]
            >>> results = [future.result() for future in futures]
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
        pending: Pending[Any] = Pending() if into is None else into
        begin(self._runtime_client(), call, how, pending)
        return pending

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
        """Runs one inference with a streamed response.

        Arguments are those of `infer`; `timeout` applies to each chunk. After the loop is left, the stream ends on the
        server too once it is closed or collected.

        Example:
            >>> for chunk in client.stream("chat", prompt="hi"):
            ...     print(chunk.text, end="")
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
        try:
            return Stream(self._core.stream(call, how))
        except (InvalidInput, NotFound) as error:
            self._explain(error, call, how)
            raise

    def sequence(self, model: str, sequence_id: int | str) -> Sequence:
        """Begins a sequence of requests to a stateful model; see `Sequence`."""
        return Sequence(self, model, sequence_id)

    def close(self) -> None:
        """Closes idle connections. Calls under way finish; new ones are refused."""
        self._closed = True
        self._core.close()
        if self._shared is not None:
            self._shared.close()

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

    def _runtime_client(self) -> _core.RuntimeClient:
        if self._shared is None:
            from penstock import _core

            self._shared = _core.RuntimeClient(self._url, self._settings)
        return self._shared

    def _renew(self) -> None:
        super()._renew()
        if self._shared is not None:
            self._leave(self._shared)
            self._shared = None

    def _ask(self, ask: Ask, headers: Headers, timeout: Timeout) -> Any:
        return json.loads(self._core.query(ask, self._how(headers, timeout)) or b"{}")

    def _raw(self, arguments: RawArguments, how: How) -> RawAnswer:
        return self._core.raw(arguments, how)

    def _call(self, model: str, inputs: Mapping[str, Any], how: How, *, version: str | None, **rest: Any) -> Call:
        if version is not None:
            _hints.check_type("version", version)
        known = None
        if _call.needs_metadata(inputs):
            key = (model, version or "")
            known = self._declared.get(key)
            if known is None:
                known = self._remember(key, json.loads(self._core.query(ask_of("metadata", model, version), how)))
        call = _call.call(model, inputs, known=known, version=version, **rest)
        if self._ambiguous:
            self._refuse_options(call, how)
        return call

    def _explain(self, error: InvalidInput | NotFound, call: Call, how: How) -> None:
        """Adds to an error of the server what its answer to a question adds. Without an answer it stays unchanged."""
        question = hint_of(error, call, how)
        if question is None:
            return
        with suppress(PenstockError, ValueError, LookupError, TypeError):
            answer = json.loads(self._core.query(*question))
            self._add_hint(error, call, how, answer)
