"""Requests of other protocols, over the client's connections: `request` over HTTP, `call` over gRPC."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.client._base import Headers, How, Timeout
from penstock.errors import Unsupported

__all__ = ["AsyncRawCalls", "HttpAnswer", "RawCalls"]

Body = bytes | bytearray | memoryview | str
RawArguments = tuple[str, str, bytes, bool]
"""Method, path, body, and whether it may be sent twice."""
RawAnswer = tuple[int, "list[tuple[str, str]]", bytes]

_SAFE = frozenset(["GET", "HEAD", "OPTIONS"])


@dataclass(frozen=True)
class HttpAnswer:
    """What an HTTP request was answered, whatever the status."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    """By name in lower case; several of one name are joined with a comma."""
    body: bytes = b""
    """The body before it was compressed."""

    @property
    def ok(self) -> bool:
        """Whether the status is one of success."""
        return 200 <= self.status < 300

    @property
    def text(self) -> str:
        """The body as UTF-8, with replacements for what is not."""
        return self.body.decode(errors="replace")

    def json(self) -> Any:
        """The body as JSON.

        Raises:
            ValueError: it is not JSON.
        """
        return json.loads(self.body)


class RawCalls:
    """The requests of a `Client` that are sent as they are."""

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
        """Sends an HTTP request to any path of the server: a model's own route, or another protocol.

        Args:
            method: `"POST"`, for example.
            path: What comes after the client's URL, encoded and with its query: `"/v1/models/m:predict"`.
            body: The body as it is; the option `compression` does not count.
            headers: Headers of this request, among them `Content-Type`.
            timeout: Seconds that it may take, instead of the client's.
            repeatable: Whether it may be sent again after its connection was lost, by the option
                `retries`. By default only if the method is one that reads.

        Raises:
            InvalidInput: the path, the method or a header cannot be sent.
            Unavailable: the server cannot be reached, or the connection was lost.
            Timeout: there was no answer in time.
            Unsupported: the client's URL is of gRPC.

        Example:
            >>> client.request("POST", "/v1/models/m:predict", '{"instances": [1]}').json()
            {'predictions': [2]}
        """
        return _answer(self._raw(_http(self._url, method, path, body, repeatable), self._how(headers, timeout)))

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
            timeout: Seconds that it may take, instead of the client's.
            repeatable: Whether the option `retries` counts although the server may have worked on it: after
                a lost connection, and after RESOURCE_EXHAUSTED or UNAVAILABLE.

        Returns:
            The answer as bytes of protobuf.

        Raises:
            Unsupported: the client's URL is of HTTP, or the server has no such method.
            PenstockError: any other refusal, by its kind; `status` is the gRPC code.
        """
        return self._raw(_grpc(self._url, method, message, repeatable), self._how(headers, timeout))[2]

    def _how(self, headers: Mapping[str, str] | None, timeout: Timeout) -> How:
        raise NotImplementedError

    def _raw(self, arguments: RawArguments, how: How) -> RawAnswer:
        raise NotImplementedError


class AsyncRawCalls:
    """The requests of an `AsyncClient` that are sent as they are; see `RawCalls`."""

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
        return _answer(await self._raw(_http(self._url, method, path, body, repeatable), self._how(headers, timeout)))

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
        raise Unsupported(f"the client of {url} speaks gRPC, which has no HTTP requests: use call")
    if repeatable is None:
        repeatable = method in _SAFE
    return (method, path, body.encode() if isinstance(body, str) else bytes(body), repeatable)


def _grpc(url: str, method: str, message: bytes, repeatable: bool) -> RawArguments:
    if not _is_grpc(url):
        raise Unsupported(f"the client of {url} speaks HTTP, which has no gRPC calls: use request")
    return ("", "/" + method.removeprefix("/"), bytes(message), repeatable)


def _answer(answer: RawAnswer) -> HttpAnswer:
    status, pairs, body = answer
    headers: dict[str, str] = {}
    for name, value in pairs:
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return HttpAnswer(status, headers, body)
