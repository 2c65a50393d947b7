"""Requests of other protocols, over the client's connections: `request` over HTTP, `call` over gRPC."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.client._base import Headers, Timeout
from penstock.client._options import How
from penstock.errors import Unsupported

__all__ = ["AsyncRawCalls", "HttpAnswer", "RawCalls"]

Body = bytes | bytearray | memoryview | str
RawArguments = tuple[str, str, bytes, bool]
"""Method, path, body, and whether the request may be sent twice."""
RawAnswer = tuple[int, "list[tuple[str, str]]", bytes]

_SAFE = frozenset(["GET", "HEAD", "OPTIONS"])


@dataclass(frozen=True)
class HttpAnswer:
    """An HTTP response with any status."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    """Headers by name in lower case; values of the same name are joined with a comma."""
    body: bytes = b""
    """The decompressed body."""

    @property
    def ok(self) -> bool:
        """True if the status is from 200 to 299."""
        return 200 <= self.status < 300

    @property
    def text(self) -> str:
        """The body as UTF-8, with replacements for invalid bytes."""
        return self.body.decode(errors="replace")

    def json(self) -> Any:
        """The body as JSON.

        Raises:
            ValueError: the body is not JSON.
        """
        return json.loads(self.body)


class RawCalls:
    """Raw requests of a `Client`."""

    _url: str

    def request(
        self,
        method: str,
        path: str,
        body: Body = b"",
        *,
        headers: Headers = None,
        timeout: Timeout = ...,
        repeatable: bool | None = None,
    ) -> HttpAnswer:
        """Sends an HTTP request to any path of the server: a route of a model, or another protocol.

        Args:
            method: `"POST"`, for example.
            path: Path after the client's URL, encoded and with its query: `"/v1/models/m:predict"`.
            body: The body; the option `compression` does not apply.
            headers: Headers of this request, including `Content-Type`.
            timeout: Time limit in seconds, in place of the client's.
            repeatable: Whether it may be sent again after a lost connection, by the option
                `retries`. By default only for GET, HEAD and OPTIONS.

        Raises:
            InvalidInput: the path, the method or a header cannot be sent.
            Unavailable: the server cannot be reached, or the connection was lost.
            Timeout: no response in time.
            Unsupported: the client's URL is for gRPC.

        Example:
            >>> client.request("POST", "/v1/models/m:predict", '{"instances": [1]}').json()
            {'predictions': [2]}
        """
        return _response(self._raw(_http(self._url, method, path, body, repeatable), self._how(headers, timeout)))

    def call(
        self,
        method: str,
        message: bytes,
        *,
        headers: Headers = None,
        timeout: Timeout = ...,
        repeatable: bool = False,
    ) -> bytes:
        """Makes a unary gRPC call of any service.

        Args:
            method: `"package.Service/Method"`.
            message: The request as bytes of protobuf.
            headers: Metadata of this call.
            timeout: Time limit in seconds, in place of the client's.
            repeatable: Whether it may be sent again, by the option `retries`, even if the server may have executed
                it: after a lost connection, and after RESOURCE_EXHAUSTED or UNAVAILABLE.

        Returns:
            The response as bytes of protobuf.

        Raises:
            Unsupported: the client's URL is for HTTP, or the server has no such method.
            PenstockError: any other error, by its kind; `status` is the gRPC code.
        """
        return self._raw(_grpc(self._url, method, message, repeatable), self._how(headers, timeout))[2]

    def _how(self, headers: Mapping[str, str] | None, timeout: Timeout) -> How:
        raise NotImplementedError

    def _raw(self, arguments: RawArguments, how: How) -> RawAnswer:
        raise NotImplementedError


class AsyncRawCalls:
    """Raw requests of an `AsyncClient`; see `RawCalls`."""

    _url: str

    async def request(
        self,
        method: str,
        path: str,
        body: Body = b"",
        *,
        headers: Headers = None,
        timeout: Timeout = ...,
        repeatable: bool | None = None,
    ) -> HttpAnswer:
        """Sends an HTTP request to any path of the server; see `Client.request`."""
        return _response(await self._raw(_http(self._url, method, path, body, repeatable), self._how(headers, timeout)))

    async def call(
        self,
        method: str,
        message: bytes,
        *,
        headers: Headers = None,
        timeout: Timeout = ...,
        repeatable: bool = False,
    ) -> bytes:
        """Makes a unary gRPC call of any service; see `Client.call`."""
        return (await self._raw(_grpc(self._url, method, message, repeatable), self._how(headers, timeout)))[2]

    def _how(self, headers: Mapping[str, str] | None, timeout: Timeout) -> How:
        raise NotImplementedError

    async def _raw(self, arguments: RawArguments, how: How) -> RawAnswer:
        raise NotImplementedError


def _is_grpc(url: str) -> bool:
    return url.partition(":")[0].lower() in ("grpc", "grpcs", "grpc+unix")


def _http(url: str, method: str, path: str, body: Body, repeatable: bool | None) -> RawArguments:
    if _is_grpc(url):
        raise Unsupported(f"the client of {url} uses gRPC, which has no HTTP requests: use call")
    if repeatable is None:
        repeatable = method in _SAFE
    return (method, path, body.encode() if isinstance(body, str) else bytes(body), repeatable)


def _grpc(url: str, method: str, message: bytes, repeatable: bool) -> RawArguments:
    if not _is_grpc(url):
        raise Unsupported(f"the client of {url} uses HTTP, which has no gRPC calls: use request")
    return ("", "/" + method.removeprefix("/"), bytes(message), repeatable)


def _response(response: RawAnswer) -> HttpAnswer:
    status, pairs, body = response
    headers: dict[str, str] = {}
    for name, value in pairs:
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return HttpAnswer(status, headers, body)
