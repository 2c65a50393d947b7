"""`raw_request` and `context["response"]`: an HTTP request and its answer as handlers of KServe's scripts see them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, MutableMapping
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qsl

__all__ = ["Headers", "RawRequest", "RawResponse"]


class Headers(MutableMapping[str, str]):
    """Headers by name, in any case."""

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
    """An HTTP request: its head, its body, and as a mapping whatever a script puts into it.

    Attributes:
        headers: By name in any case.
        method: Such as "POST".
        path_params: What stands in the place of a route's names.
        query_params: By name; of those that come twice the last.
        scope: What it holds as a mapping.
        state: For whatever a script keeps with it.
        url: With its `path` and `query`.
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
        """The body as it came."""
        return bytes(self._request.body)

    async def json(self) -> Any:
        """The body's JSON value."""
        return json.loads(self._request.body)

    async def is_disconnected(self) -> bool:
        """Whether the client has left."""
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
    """What a script may say of the answer before it is sent.

    Attributes:
        headers: Sent with the answer.
        status_code: Its status; None for the usual one.
    """

    def __init__(self) -> None:
        self.headers = Headers()
        self.status_code: int | None = None
