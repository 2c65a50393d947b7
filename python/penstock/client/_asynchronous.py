"""`AsyncClient`: the client for asyncio."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from penstock.client import _call, _hints, _loop
from penstock.client._base import Ask, Base, Headers, Timeout, ask_of, hint_of, inputs_of
from penstock.client._options import How
from penstock.client._questions import AsyncQuestions
from penstock.client._raw import AsyncRawCalls
from penstock.client._result import Result
from penstock.client._sequence import AsyncSequence
from penstock.client._streams import AsyncStream
from penstock.errors import InvalidInput, NotFound, PenstockError

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self, Unpack

    from penstock import _core
    from penstock.client._options import Call, ClientOptions, Settings
    from penstock.client._raw import RawAnswer, RawArguments
    from penstock.client._result import Answer

__all__ = ["AsyncClient"]


class AsyncClient(Base["_core.RuntimeClient"], AsyncQuestions, AsyncRawCalls):
    """A client of one server for asyncio. Any number of tasks may use it at once.

    Calls run on one thread that all clients of the process share, which never holds the GIL; a single small call runs
    on the event loop itself. Cancelling a task cancels its request: the connection is closed, or the stream reset.

    Args:
        url: As for `Client`.
        options: See `ClientOptions`.

    Example:
        >>> async with AsyncClient("http://127.0.0.1:8000") as client:
        ...     results = await asyncio.gather(*(client.infer("double", x=x) for x in batch))
    """

    def __init__(self, url: str, **options: Unpack[ClientOptions]) -> None:
        super().__init__(url, options)

    async def infer(
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
        """Runs one inference; see `Client.infer`. Do not write to the arrays before it is awaited."""
        how = self._how(headers, timeout)
        call = await self._call(
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
            answer: Answer = await _loop.run(lambda mailbox, stepped: self._core.infer(call, how, mailbox, stepped))
        except (InvalidInput, NotFound) as error:
            await self._explain(error, call, how)
            raise
        return Result(answer)

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
    ) -> AsyncStream:
        """Runs one inference with a streamed response; see `Client.stream`.

        Example:
            >>> async for chunk in client.stream("chat", prompt="hi"):
            ...     print(chunk.text, end="")
        """
        how = self._how(headers, timeout)

        async def opened() -> _core.RuntimeStream:
            call = await self._call(
                model,
                inputs_of(inputs, named),
                how,
                version=version,
                request_id=request_id,
                outputs=outputs,
                parameters=parameters,
                datatypes=datatypes,
            )
            pieces: _core.RuntimeStream = await _loop.run(lambda mailbox, _: self._core.stream(call, how, mailbox))
            return pieces

        return AsyncStream(opened)

    def sequence(self, model: str, sequence_id: int | str) -> AsyncSequence:
        """Begins a sequence of requests to a stateful model; see `Sequence`."""
        return AsyncSequence(self, model, sequence_id)

    async def close(self) -> None:
        """Closes idle connections. Calls under way finish; new ones are refused."""
        self._closed = True
        self._core.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _make(self, url: str, settings: Settings) -> _core.RuntimeClient:
        from penstock import _core

        return _core.RuntimeClient(url, settings)

    async def _ask(self, ask: Ask, headers: Headers, timeout: Timeout) -> Any:
        return json.loads(await self._asked(ask, self._how(headers, timeout)) or b"{}")

    async def _asked(self, ask: Ask, how: How) -> bytes:
        answer: bytes = await _loop.run(lambda mailbox, _: self._core.query(ask, how, mailbox))
        return answer

    async def _raw(self, arguments: RawArguments, how: How) -> RawAnswer:
        answer: RawAnswer = await _loop.run(lambda mailbox, stepped: self._core.raw(arguments, how, mailbox, stepped))
        return answer

    async def _call(self, model: str, inputs: Mapping[str, Any], how: How, *, version: str | None, **rest: Any) -> Call:
        if version is not None:
            _hints.check_type("version", version)
        known = None
        if _call.needs_metadata(inputs):
            key = (model, version or "")
            known = self._declared.get(key)
            if known is None:
                known = self._remember(key, json.loads(await self._asked(ask_of("metadata", model, version), how)))
        call = _call.call(model, inputs, known=known, version=version, **rest)
        if self._ambiguous:
            self._refuse_options(call, how)
        return call

    async def _explain(self, error: InvalidInput | NotFound, call: Call, how: How) -> None:
        """Adds to an error of the server what its answer to a question adds. Without an answer it stays unchanged."""
        question = hint_of(error, call, how)
        if question is None:
            return
        with suppress(PenstockError, ValueError, LookupError, TypeError):
            self._add_hint(error, call, how, json.loads(await self._asked(*question)))
