"""Sequences of requests to stateful models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping

    from typing_extensions import Self

    from penstock.client._result import Result

__all__ = ["AsyncSequence", "Sequence"]


class _Client(Protocol):
    """The part of `Client` that a sequence calls."""

    def infer(self, model: str, inputs: Mapping[str, Any] | None = None, /, **options: Any) -> Result: ...


class _AsyncClient(Protocol):
    """The part of `AsyncClient` that a sequence awaits."""

    def infer(self, model: str, inputs: Mapping[str, Any] | None = None, /, **options: Any) -> Awaitable[Result]: ...


class _Flags:
    """Start and end flags of a sequence's requests."""

    def __init__(self, sequence_id: int | str) -> None:
        self.sequence_id = sequence_id
        self._started = False
        self._ended = False

    @property
    def ended(self) -> bool:
        """True if the last request has been sent."""
        return self._ended

    def _parameters(self, given: Mapping[str, Any] | None, end: bool) -> dict[str, Any]:
        if self._ended:
            raise ValueError(f"sequence {self.sequence_id!r} has ended: begin another")
        flags = {"sequence_id": self.sequence_id, "sequence_start": not self._started, "sequence_end": end}
        return {**(given or {}), **flags}

    def _sent(self, end: bool) -> None:
        self._started = True
        self._ended = end


class Sequence(_Flags):
    """A sequence of a `Client`: each request has its id, the first one the start flag, the last one the end flag.

    Leaving the `with` block sends nothing, since only a request can have the end flag. The server expires a sequence
    that has not ended.

    Example:
        >>> with client.sequence("counter", 42) as counting:
        ...     counting.infer(x=np.ones(1, np.int32))
        ...     counting.infer(x=np.ones(1, np.int32), end=True)
    """

    def __init__(self, client: _Client, model: str, sequence_id: int | str) -> None:
        super().__init__(sequence_id)
        self._client, self._model = client, model

    def infer(self, inputs: Mapping[str, Any] | None = None, /, *, end: bool = False, **options: Any) -> Result:
        """As `Client.infer` for the sequence's model; `end` marks the last request."""
        options["parameters"] = self._parameters(options.get("parameters"), end)
        result = self._client.infer(self._model, inputs, **options)
        self._sent(end)
        return result

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._ended = True


class AsyncSequence(_Flags):
    """A sequence of an `AsyncClient`; see `Sequence`."""

    def __init__(self, client: _AsyncClient, model: str, sequence_id: int | str) -> None:
        super().__init__(sequence_id)
        self._client, self._model = client, model

    async def infer(self, inputs: Mapping[str, Any] | None = None, /, *, end: bool = False, **options: Any) -> Result:
        """As `AsyncClient.infer` for the sequence's model; `end` marks the last request."""
        options["parameters"] = self._parameters(options.get("parameters"), end)
        result = await self._client.infer(self._model, inputs, **options)
        self._sent(end)
        return result

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._ended = True
