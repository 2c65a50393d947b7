"""`raw_request` and `context["response"]`: an HTTP request and its response for handlers of KServe's scripts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, MutableMapping
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qsl

__all__ = ["Headers", "RawRequest", "RawResponse"]


class Headers(MutableMapping[str, str]):
    """Headers by case-insensitive name."""

    def __init__(self, headers: Mapping[str, str] | None = None) -> None:
        self._values = {name.lower(): value for name, value in (headers or {}).items()}

    def __getitem__(self, name: str) -> str:
        return self._values[name.lower()]

    def __setitem__(self, name: str, value: str) -> None:
        self._values[name.lower()] = str(value)

    def __delitem__(self, name: str) -> None:
        del self._values[name.lower()]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.lower() in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"Headers({self._values})"


class RawRequest(MutableMapping[str, Any]):
    """An HTTP request: its head, its body, and a mapping for the script's own values.

    Attributes:
        headers: Headers by case-insensitive name.
        method: The HTTP method.
        path_params: Path parameters by name.
        query_params: Query parameters by name; the last value of a repeated one.
        scope: The mapping's content.
        state: A namespace for the script's own values.
        url: An object with `path` and `query`.
    """

    def __init__(self, request: Any) -> None:
        self._request = request
        self.headers = Headers(request.headers)
        self.method, self.path_params = request.method, dict(request.path_params)
        self.query_params = dict(parse_qsl(request.query, keep_blank_values=True))
        self.url = SimpleNamespace(path=request.path, query=request.query)
        self.state = SimpleNamespace()
        self.scope: dict[str, Any] = {"type": "http", "method": self.method, "path": request.path}

    async def body(self) -> bytes:
        """Returns the body's bytes."""
        return bytes(self._request.body)

    async def json(self) -> Any:
        """Returns the body's JSON value."""
        return json.loads(self._request.body)

    async def is_disconnected(self) -> bool:
        """Returns whether the client has disconnected."""
        return bool(self._request.cancelled)

    def __getitem__(self, name: str) -> Any:
        return self.scope[name]

    def __setitem__(self, name: str, value: Any) -> None:
        self.scope[name] = value

    def __delitem__(self, name: str) -> None:
        del self.scope[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.scope)

    def __len__(self) -> int:
        return len(self.scope)

    def __bool__(self) -> bool:
        return True


class RawResponse:
    """Headers and status that a script sets before the response is sent.

    Attributes:
        headers: Headers of the response.
        status_code: Its status; None for the default.
    """

    def __init__(self) -> None:
        self.headers = Headers()
        self.status_code: int | None = None
