"""Transports of gRPC calls: Penstock's own client, or a channel of grpc."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import penstock
from penstock.compat.kserve._clients.grpc_errors import StatusCode, of_native, rpc_error
from penstock.compat.kserve._clients.grpc_options import GrpcOptions
from penstock.errors import PenstockError

__all__ = ["AsyncChannel", "AsyncNative", "Channel", "Native"]

Metadata = dict[str, str]


class AsyncNative:
    """Asynchronous calls by the native client."""

    def __init__(self, options: GrpcOptions) -> None:
        self._client = penstock.AsyncClient(options.native_url(), **options.native())
        self._most = options.most_sent()

    async def call(self, method: str, message: bytes, metadata: Metadata, timeout: float | None) -> bytes:
        """Performs a call.

        Raises:
            RpcError: the call failed.
        """
        if len(message) > self._most:
            raise _too_large(len(message), self._most, asynchronous=True)
        try:
            return await self._client.call(method, message, headers=metadata, timeout=timeout, repeatable=True)
        except PenstockError as error:
            raise of_native(error, asynchronous=True) from None

    async def close(self) -> None:
        """Closes the connection."""
        await self._client.close()


class Native:
    """Synchronous calls by the native client."""

    def __init__(self, options: GrpcOptions) -> None:
        self._client = penstock.Client(options.native_url(), **options.native())
        self._most = options.most_sent()

    def call(self, method: str, message: bytes, metadata: Metadata, timeout: float | None) -> bytes:
        """Performs a call.

        Raises:
            RpcError: the call failed.
        """
        if len(message) > self._most:
            raise _too_large(len(message), self._most, asynchronous=False)
        try:
            return self._client.call(method, message, headers=metadata, timeout=timeout, repeatable=True)
        except PenstockError as error:
            raise of_native(error, asynchronous=False) from None

    def close(self) -> None:
        """Closes the connections."""
        self._client.close()


class AsyncChannel:
    """Calls over a channel of grpc's; its errors are grpc's own."""

    def __init__(self, options: GrpcOptions, why: str) -> None:
        grpc = _grpc(why)
        self._channel = _channel(grpc, grpc.aio, options)

    async def call(self, method: str, message: bytes, metadata: Metadata, timeout: float | None) -> bytes:
        """Performs a call."""
        call = self._channel.unary_unary("/" + method)
        return await call(message, metadata=tuple(metadata.items()), timeout=timeout)  # type: ignore[no-any-return]

    async def close(self) -> None:
        """Closes the channel."""
        await self._channel.close()


class Channel:
    """Calls over a channel of grpc's; its errors are grpc's own."""

    def __init__(self, options: GrpcOptions, why: str) -> None:
        grpc = _grpc(why)
        self._channel = _channel(grpc, grpc, options)

    def call(self, method: str, message: bytes, metadata: Metadata, timeout: float | None) -> bytes:
        """Performs a call."""
        call = self._channel.unary_unary("/" + method)
        return call(message, metadata=tuple(metadata.items()), timeout=timeout)  # type: ignore[no-any-return]

    def close(self) -> None:
        """Closes the channel."""
        self._channel.close()


def _too_large(size: int, most: int, asynchronous: bool) -> Exception:
    text = f"CLIENT: Sent message larger than max ({size} vs. {most})"
    return rpc_error(StatusCode.RESOURCE_EXHAUSTED, text, asynchronous)


def _grpc(why: str) -> Any:
    try:
        import grpc
        import grpc.aio
    except ImportError:
        raise ImportError(f"the client's {why} needs the package grpcio: pip install 'penstock[kserve]'") from None
    return grpc


def _channel(grpc: Any, kind: Any, options: GrpcOptions) -> Any:
    given = list(options.channel_args or ())
    names = {name for name, _ in given}
    for name in ("grpc.max_send_message_length", "grpc.max_receive_message_length"):
        if name not in names and options.channel_args is None:
            given.append((name, -1))
    if options.retries > 0 and "grpc.service_config" not in names and ("grpc.enable_retries", 0) not in given:
        given.append(("grpc.service_config", _retrying(options.retries)))
    if options.creds is not None:
        return kind.secure_channel(options.url, options.creds, options=given)
    if not options.use_ssl:
        return kind.insecure_channel(options.url, options=given)
    files = (options.root_certificates, options.private_key, options.certificate_chain)
    read = [None if file is None else Path(file).read_bytes() for file in files]
    return kind.secure_channel(options.url, grpc.ssl_channel_credentials(*read), options=given)


def _retrying(retries: int) -> str:
    # grpc counts attempts, and allows five at most.
    policy = {
        "maxAttempts": min(retries + 1, 5),
        "initialBackoff": "0.1s",
        "maxBackoff": "1s",
        "backoffMultiplier": 2,
        "retryableStatusCodes": ["UNAVAILABLE"],
    }
    return json.dumps({"methodConfig": [{"name": [{}], "retryPolicy": policy}]})
