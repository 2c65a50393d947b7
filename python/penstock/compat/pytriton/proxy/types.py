"""`Request` and `Response`: what an inference callable gets, and what it may make of it."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, KeysView, ValuesView
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from penstock.compat.pytriton.proxy.telemetry import traced_span

__all__ = ["Request", "Requests", "Response", "Responses"]

Array = npt.NDArray[Any]


class _Named:
    """Arrays by name, with the part of a dict's interface that PyTriton's have."""

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
        """The names."""
        return self.data.keys()

    def values(self) -> ValuesView[Array]:
        """The arrays."""
        return self.data.values()

    def items(self) -> ItemsView[str, Array]:
        """Names with their arrays."""
        return self.data.items()


@dataclass
class Request(_Named):
    """One caller's request. Optional inputs that it left out are not there."""

    data: dict[str, Array]
    """An array for each input, with the caller's rows in front if the model batches."""
    parameters: dict[str, str | int | bool] | None = None
    """What the caller sent beside its tensors, and the headers that the server forwards."""
    span: Any = None
    """The OpenTelemetry span in which it is computed; None where it is not traced."""
    requested_output_names: list[str] | None = None
    """The outputs that the caller asked for."""

    def traced_span(self, span_name: str) -> AbstractContextManager[None]:
        """A context in which a span of that name, below that of the request, is open."""
        return traced_span(self, span_name)


@dataclass
class Response(_Named):
    """One answer."""

    data: dict[str, Array]
    """An array for each output."""


Requests = list[Request]
Responses = list[Response]
