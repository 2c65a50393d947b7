"""Plain HTTP client with strict parsing of responses."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit


@dataclass(frozen=True)
class HttpResponse:
    """A response."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body, parse_constant=_reject_constant)

    @property
    def data(self) -> Any:
        assert self.status == 200, self.body
        return self.json["data"]

    @property
    def error(self) -> str:
        assert self.status >= 400, self.body
        assert set(self.json) == {"error"}
        return str(self.json["error"])


@dataclass(frozen=True)
class HttpClient:
    """Client of one server."""

    url: str
    folder: Path
    isolation: str = "process"

    def raw(
        self, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None, method: str | None = None
    ) -> HttpResponse:
        connection = http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=60)
        try:
            method = method or ("GET" if body is None else "POST")
            connection.request(method, path, body, dict(headers or {}))
            response = connection.getresponse()
            return HttpResponse(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        finally:
            connection.close()

    def call(self, path: str, data: Any, headers: Mapping[str, str] | None = None, **more: Any) -> HttpResponse:
        path = path if path.startswith("/") else f"/v1/{path}"
        path = path if path.count("/") > 2 else f"{path}/latest"
        return self.raw(path, json.dumps({"data": data, **more}).encode(), headers)


def _reject_constant(name: str) -> Any:
    raise AssertionError(f"{name} is not JSON")


def wait_for(condition: Any, seconds: float = 20.0) -> Any:
    """Polls a function and returns its first true result."""
    end = time.monotonic() + seconds
    while not (result := condition()):
        assert time.monotonic() < end, f"no result within {seconds} seconds"
        time.sleep(0.02)
    return result
