"""HTTP transports to a server: a socket, and the in-process testing client."""

from __future__ import annotations

import contextlib
import http.client
import json
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urlsplit

from penstock.testing import Client


@dataclass(frozen=True)
class Reply:
    """An HTTP response; header names are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        """The JSON part of the body."""
        length = self.headers.get("inference-header-content-length")
        return json.loads(self.body if length is None else self.body[: int(length)])

    def tail(self) -> bytes:
        """The bytes after the JSON."""
        return self.body[int(self.headers.get("inference-header-content-length", len(self.body))) :]

    def refusal(self, status: int) -> str:
        """The message of a refusal, which must be the protocol's error object."""
        assert self.status == status, f"{self.status}: {self.body[:500]!r}"
        assert self.headers["content-type"] == "application/json"
        assert "content-encoding" not in self.headers
        document = json.loads(self.body)
        assert list(document) == ["error"]
        assert isinstance(document["error"], str)
        assert document["error"]
        return document["error"]


class Transport(Protocol):
    """Sends one request with exactly these bytes and headers."""

    def request(self, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None) -> Reply: ...


class Rest:
    """A transport with a new connection for each request."""

    def __init__(self, url: str) -> None:
        self.address = (urlsplit(url).hostname or "", urlsplit(url).port or 0)

    def request(self, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None) -> Reply:
        connection = http.client.HTTPConnection(*self.address, timeout=20)
        try:
            # A server may refuse a body before it has read all of it; then its response counts.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                connection.request(method, path, body or None, headers or {})
            response = connection.getresponse()
            return Reply(
                response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()
            )
        finally:
            connection.close()


class InProcess:
    """The testing client, with raw requests."""

    def __init__(self, client: Client) -> None:
        self.client = client

    def request(self, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None) -> Reply:
        assert method in ("GET", "POST"), "the testing client supports only these methods"
        if method == "GET":
            response = self.client.get(path, headers=headers)
        else:
            response = self.client.post(path, body, headers=headers)
        return Reply(response.status, response.headers, response.body)


def infer(
    transport: Transport, model: str, document: Any, tail: bytes = b"", headers: dict[str, str] | None = None
) -> Reply:
    """Posts a JSON document or literal JSON text, optionally followed by binary data."""
    text = document.encode() if isinstance(document, str) else json.dumps(document).encode()
    sent = dict(headers or {})
    if tail:
        sent.setdefault("Inference-Header-Content-Length", str(len(text)))
    return transport.request("POST", f"/v2/models/{model}/infer", text + tail, sent)
