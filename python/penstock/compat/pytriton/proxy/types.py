"""`Request` and `Response` of inference callables."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, KeysView, ValuesView
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from penstock.compat.pytriton.proxy.telemetry import traced_span

__all__ = ["Request", "Requests", "Response", "Responses"]

Array = npt.NDArray[Any]


class _NamedArrays:
    """Arrays by name, with the subset of dict methods that PyTriton's classes have."""

    data: dict[str, Array]

    def __getitem__(self, name: str) -> Array:
        return self.data[name]

    def __setitem__(self, name: str, array: Array) -> None:
        self.data[name] = array

    def __delitem__(self, name: str) -> None:
        del self.data[name]

    def __contains__(self, name: object) -> bool:
        return name in self.data

    def __len__(self) -> int:
        return len(self.data)

    def __iter__(self) -> Iterator[str]:
        return iter(self.data)

    def keys(self) -> KeysView[str]:
        """Returns the names."""
        return self.data.keys()

    def values(self) -> ValuesView[Array]:
        """Returns the arrays."""
        return self.data.values()

    def items(self) -> ItemsView[str, Array]:
        """Returns names and arrays."""
        return self.data.items()


@dataclass
class Request(_NamedArrays):
    """Request of one client. It lacks the optional inputs that the client left out."""

    data: dict[str, Array]
    """Array of each input. In a batching model the first axis has the client's rows."""
    parameters: dict[str, str | int | bool] | None = None
    """Request parameters, and the headers that the server forwards."""
    span: Any = None
    """OpenTelemetry span of the request; None without tracing."""
    requested_output_names: list[str] | None = None
    """Names of the outputs that the client requested."""

    def traced_span(self, span_name: str) -> AbstractContextManager[None]:
        """Context manager of a child of the request's span."""
        return traced_span(self, span_name)


@dataclass
class Response(_NamedArrays):
    """Response to one request."""

    data: dict[str, Array]
    """Array of each output."""


Requests = list[Request]
Responses = list[Response]
