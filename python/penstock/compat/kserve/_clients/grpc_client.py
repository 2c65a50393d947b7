"""`InferenceGRPCClient`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.compat.kserve._clients import grpc_messages
from penstock.compat.kserve._clients.defaults import USE_CLIENT_DEFAULT, UseClientDefault
from penstock.compat.kserve._clients.grpc_options import GrpcOptions, Metadata, metadata_of, with_port
from penstock.compat.kserve._clients.grpc_transport import AsyncChannel, AsyncNative
from penstock.compat.kserve.errors import InvalidInput
from penstock.compat.kserve.logging import trace_logger as logger
from penstock.compat.kserve.protocol.infer_type import InferRequest, InferResponse

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

__all__ = ["InferenceGRPCClient"]


class InferenceGRPCClient:
    """An asynchronous gRPC client of KServe servers; any number of tasks may use it at once.

    Args:
        url: `host:port`; the default port is 80, or 443 with `use_ssl`.
        verbose: Whether to log requests and responses.
        use_ssl: Whether to encrypt the connection.
        root_certificates: The path of a PEM file of trusted authorities, instead of the platform's.
        private_key: The path of a PEM file with the client's key.
        certificate_chain: The path of a PEM file with the client's certificate.
        creds: grpc credentials, instead of these files; needs the package grpcio.
        channel_args: Arguments of a grpc channel. The native client supports message limits, the certificate's host
            and switching off retries; others need the package grpcio.
        timeout: Seconds per call; None for no limit.
        retries: Additional attempts while the server is UNAVAILABLE.

    Example:
        >>> async with InferenceGRPCClient("127.0.0.1:8081") as client:
        ...     response = await client.infer(request)
    """

    def __init__(  # noqa: PLR0917 - KServe's own order
        self,
        url: str,
        verbose: bool = False,
        use_ssl: bool = False,
        root_certificates: str | None = None,
        private_key: str | None = None,
        certificate_chain: str | None = None,
        creds: Any = None,
        channel_args: list[tuple[str, Any]] | None = None,
        timeout: float | None = 60,
        retries: int | None = 3,
    ) -> None:
        options = GrpcOptions(
            with_port(url, use_ssl),
            use_ssl,
            root_certificates,
            private_key,
            certificate_chain,
            creds,
            channel_args,
            max(0, retries or 0),
        )
        why = options.why_grpc()
        self._transport = AsyncNative(options) if why is None else AsyncChannel(options, why)
        self._verbose = verbose
        self._timeout = timeout

    async def infer(
        self,
        infer_request: InferRequest,
        timeout: float | UseClientDefault | None = USE_CLIENT_DEFAULT,
        headers: Metadata = None,
    ) -> InferResponse:
        """Runs one inference.

        Args:
            infer_request: The request.
            timeout: Seconds, instead of the client's; None for no limit.
            headers: Metadata of the call.

        Raises:
            InvalidInput: the request is not an `InferRequest`.
            RpcError: the server returned an error, or cannot be reached.
        """
        if not isinstance(infer_request, InferRequest):
            raise InvalidInput("Invalid input format")
        if self._verbose:
            logger.info("metadata: %s\n infer_request: %s", headers or (), infer_request)
        call = grpc_messages.model_infer(infer_request.to_grpc())
        response: InferResponse = InferResponse.from_grpc(await self._call(call, timeout, headers))
        if self._verbose:
            logger.info("infer response: %s", response)
        return response

    async def is_server_ready(
        self, timeout: float | UseClientDefault | None = USE_CLIENT_DEFAULT, headers: Metadata = None
    ) -> bool:
        """Returns whether the server is ready.

        Raises:
            RpcError: the server returned an error, or cannot be reached.
        """
        return bool((await self._call(grpc_messages.server_ready(), timeout, headers)).ready)

    async def is_server_live(
        self, timeout: float | UseClientDefault | None = USE_CLIENT_DEFAULT, headers: Metadata = None
    ) -> bool:
        """Returns whether the server is live.

        Raises:
            RpcError: the server returned an error, or cannot be reached.
        """
        return bool((await self._call(grpc_messages.server_live(), timeout, headers)).live)

    async def is_model_ready(
        self,
        model_name: str,
        timeout: float | UseClientDefault | None = USE_CLIENT_DEFAULT,
        headers: Metadata = None,
    ) -> bool:
        """Returns whether a model is ready.

        Raises:
            RpcError: the model does not exist, the server returned an error, or cannot be reached.
        """
        return bool((await self._call(grpc_messages.model_ready(model_name), timeout, headers)).ready)

    async def close(self) -> None:
        """Closes the client; later calls fail."""
        await self._transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _call(self, call: grpc_messages.Call, timeout: float | UseClientDefault | None, headers: Metadata) -> Any:
        limit = self._timeout if isinstance(timeout, UseClientDefault) else timeout
        try:
            message = call.message.SerializeToString()
            reply = call.response_type.FromString(
                await self._transport.call(call.method, message, metadata_of(headers), limit)
            )
        except Exception as error:
            logger.error("%s: %s", call.failed, error, exc_info=True)
            raise
        if self._verbose:
            logger.info("%s response: %s", call.method, reply)
        return reply
