"""`ctx.models`: calls from a handler to other models of the same server."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from penstock import _core
from penstock._runtime.pending_calls import wait

if TYPE_CHECKING:
    from typing_extensions import Self

    from penstock._core import PeerCall, PeerClient, PeerStream

__all__ = ["Chunks", "Generation", "Peer", "Peers"]

_Parameter = bool | int | float | str
_Wait = Callable[[Callable[..., Any], Callable[[], "float | None"]], Awaitable[Any]]


class Peers:
    """The models of the server that runs a handler, by name, or by name and version.

    Example:
        >>> @model(inputs=[Tensor("x", np.float32, [16])], outputs=[Tensor("y", np.float32, [16])])
        ... def twice(x, ctx: Context):
        ...     return ctx.models["double"](x) + ctx.models["double", "2"](x=x)
    """

    __slots__ = ("_client",)
    # Otherwise `in` and `for` would request models named 0, 1, 2 and so on without end.
    __contains__: ClassVar[None] = None
    __iter__: ClassVar[None] = None

    def __init__(self, client: PeerClient) -> None:
        self._client = client

    def __getitem__(self, which: str | tuple[str, str | int]) -> Peer:
        """A model. An unknown name raises an error at the call."""
        name, version = (which, None) if isinstance(which, str) else which
        if not isinstance(name, str):
            raise TypeError(f"a model's name is a str, not {name!r}")
        return Peer(self._client, name, None if version is None else str(version), {})


class Peer:
    """A model that a handler can call. Calls go through the model's queue and batches, with the caller's deadline.

    Arrays are passed by position in declared order, by name, or as one dict by name; with the batch axis if the model
    has one. Numbers, texts and lists take the declared datatype. The result is the array of the only output, else a
    dict by name. The caller owns the arrays.

    Raises:
        PenstockError: the model's error, as the class of its kind: `InvalidInput`, `Overloaded`, `HandlerError`;
            `Timeout` when the clients' deadline has passed, `Cancelled` when all clients have left.
    """

    __slots__ = ("_client", "_parameters", "name", "version")

    name: str
    """The model's name."""
    version: str | None
    """The requested version; None for the one that the server chooses."""

    def __init__(self, client: PeerClient, name: str, version: str | None, parameters: dict[str, _Parameter]) -> None:
        self._client, self.name, self.version, self._parameters = client, name, version, parameters

    def with_parameters(self, **parameters: _Parameter) -> Peer:
        """Returns the model with request parameters, which its handler gets in `ctx.parameters`."""
        return Peer(self._client, self.name, self.version, {**self._parameters, **parameters})

    @property
    def in_flight(self) -> int:
        """Number of the model's requests from clients, queued or running; calls from other models do not count.

        Raises:
            PenstockError: there is no such model, or this handler may not call it.
        """
        return self._client.in_flight(self.name, self.version)

    def record_tokens(
        self,
        *,
        prompt: int | None = None,
        completion: int | None = None,
        finish_reason: str | None = None,
        operation: str | None = None,
    ) -> None:
        """Counts the tokens of one request to this model, where its caller knows them and it does not.

        Call it once for each request, not if the model's handler records tokens by itself.

        Args:
            prompt: Tokens of the prompt.
            completion: Generated tokens.
            finish_reason: As of `Context.record_tokens`.
            operation: As of `Context.record_tokens`.

        Raises:
            TypeError: a count is not an integer, or there is none.
            ValueError: a count is not from 0 to 2**53, or the operation is unknown.
            PenstockError: there is no such model, or this handler may not call it.
        """
        counts = {
            "prompt": prompt,
            "completion": completion,
            "finish_reason": finish_reason,
            "operation": operation,
        }
        self._client.record_tokens(self.name, self.version, counts)

    def __call__(self, /, *arrays: Any, **named: Any) -> Any:
        """Waits for the response with the GIL released. For plain handlers."""
        if asyncio._get_running_loop() is not None:
            raise RuntimeError(
                f"the call would block the event loop: write `await ctx.models[{self.name!r}].aio(...)` "
                "in an async handler"
            )
        return _plain(self._begin(*_inputs(arrays, named)).wait())

    async def aio(self, /, *arrays: Any, **named: Any) -> Any:
        """As a call, for async handlers: other tasks run meanwhile. Do not change the arrays until it has ended."""
        return _plain(await self._outputs(*_inputs(arrays, named), as_handles=False))

    def stream(self, /, *arrays: Any, **named: Any) -> Chunks:
        """Calls a model that streams. Returns an iterator of its responses, each as from a call.

        For plain handlers with `for`, for async ones with `async for`. A model that does not stream gives one response.
        Closing or deleting the iterator ends the model's generator.

        Example:
            >>> async for word in ctx.models["complete"].stream(text="Once upon"):
            ...     yield word
        """
        return Chunks(self._begin_stream(*_inputs(arrays, named)), _plain, self.name, wait)

    async def _outputs(self, positional: list[Any], named: dict[str, Any], *, as_handles: bool) -> dict[str, Any]:
        call = self._begin(positional, named)
        try:
            return await wait(lambda notifier, ticket: call.poll(notifier, ticket, as_handles), lambda: call.poll_after)
        finally:
            call.cancel()

    def _begin_stream(self, positional: list[Any], named: dict[str, Any]) -> PeerStream:
        return self._client.stream(self.name, self.version, positional, named, self._parameters)

    def _begin(self, positional: list[Any], named: dict[str, Any]) -> PeerCall:
        return self._client.call(self.name, self.version, positional, named, self._parameters)

    def __repr__(self) -> str:
        version = f" version {self.version!r}" if self.version else ""
        return f"<model {self.name!r}{version}>"


class Chunks:
    """Responses of a model that streams: an iterator for plain handlers, an async iterator for async ones.

    The model pauses until they are read. If it fails, its error is raised after the responses before it.
    """

    __slots__ = ("_call", "_name", "_plain", "_ready", "_wait")

    def __init__(self, call: PeerStream, plain: Callable[[dict[str, Any]], Any], name: str, wait: _Wait) -> None:
        self._call, self._plain, self._name, self._wait = call, plain, name, wait
        self._ready: deque[dict[str, Any]] = deque()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        """The next response; waits for it with the GIL released."""
        if asyncio._get_running_loop() is not None:
            raise RuntimeError(
                f"reading would block the event loop: write `async for ... in ctx.models[{self._name!r}].stream(...)` "
                "in an async handler"
            )
        while not self._ready:
            if not self._take(self._call.wait()):
                raise StopIteration
        return self._plain(self._ready.popleft())

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        """The next response; other tasks run meanwhile."""
        while not self._ready:
            if not self._take(await self._wait(self._call.poll, lambda: self._call.poll_after)):
                raise StopAsyncIteration
        return self._plain(self._ready.popleft())

    def _take(self, chunks: list[dict[str, Any]]) -> bool:
        """Queues chunks. Returns whether there were any; an empty one marks the end and is not queued."""
        self._ready.extend(chunk for chunk in chunks if chunk)
        return bool(chunks)

    def close(self) -> None:
        """Closes the model's generator. A second call does nothing."""
        self._ready.clear()
        self._call.close()

    async def aclose(self) -> None:
        """As `close`."""
        self.close()


class Generation:
    """Answers of a model that streams, for async handlers of raw requests.

    Args:
        peer: The model.
        calls: The inputs by name of each answer, and the parameters of its request.
        chunks: How the model's chunks are read.
        events: The form of the response.

    Attributes:
        native: The answers; complete at the end.
    """

    __slots__ = ("native",)

    native: _core.Generation

    def __init__(
        self,
        peer: Peer,
        calls: Iterable[tuple[Mapping[str, Any], Mapping[str, _Parameter]]],
        chunks: _core.ChunkFormat,
        events: _core.EventFormat,
    ) -> None:
        streams = [peer.with_parameters(**parameters)._begin_stream([], dict(inputs)) for inputs, parameters in calls]
        self.native = _core.Generation(streams, chunks, events)

    async def read(self) -> tuple[bytes, bool]:
        """The next events, and whether the answers have ended."""
        return await wait(self.native.poll, lambda: self.native.poll_after)

    async def ended(self) -> None:
        """Waits until the server has sent `native.rest()`.

        Raises:
            PenstockError: the model's error, after the events before it.
        """
        await wait(self.native.poll_end, lambda: None)

    async def aclose(self) -> None:
        """Closes the model's generators."""
        self.native.close()


def _inputs(arrays: tuple[Any, ...], named: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    if len(arrays) == 1 and isinstance(arrays[0], Mapping):
        return [], {**arrays[0], **named}
    return [*arrays], named


def _plain(outputs: dict[str, Any]) -> Any:
    if len(outputs) == 1:
        (value,) = outputs.values()
        return value
    return outputs
