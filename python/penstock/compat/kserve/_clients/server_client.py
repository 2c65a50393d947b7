"""`InferenceServerClient`: the synchronous client of 0.13."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from penstock.compat.kserve._clients import grpc_messages
from penstock.compat.kserve._clients.grpc_options import GrpcOptions, metadata_of, with_port
from penstock.compat.kserve._clients.grpc_transport import Channel, Native
from penstock.compat.kserve.logging import logger
from penstock.compat.kserve.protocol.infer_type import InferRequest

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

__all__ = ["InferenceServerClient"]


class InferenceServerClient:
    """A synchronous gRPC client of KServe servers; any number of threads may use it at once.

    Args:
        url: `host:port`; the default port is 80, or 443 with `ssl`.
        verbose: Whether to log requests and responses.
        ssl: Whether to encrypt the connection.
        root_certificates: The path of a PEM file; see `InferenceGRPCClient` for this and all following.
        private_key: A path.
        certificate_chain: A path.
        creds: grpc credentials.
        channel_args: Arguments of a grpc channel.

    Example:
        >>> with InferenceServerClient("127.0.0.1:8081") as client:
        ...     response = InferResponse.from_grpc(client.infer(request))
    """

    def __init__(  # noqa: PLR0917 - KServe's own order
        self,
        url: str,
        verbose: bool = False,
        ssl: bool = False,
        root_certificates: str | None = None,
        private_key: str | None = None,
        certificate_chain: str | None = None,
        creds: Any = None,
        channel_args: list[tuple[str, Any]] | None = None,
    ) -> None:
        options = GrpcOptions(
            with_port(url, ssl), ssl, root_certificates, private_key, certificate_chain, creds, channel_args, 0
        )
        why = options.why_grpc()
        self._transport = Native(options) if why is None else Channel(options, why)
        self._verbose = verbose

    def infer(
        self,
        infer_request: InferRequest,
        client_timeout: float | None = None,
        headers: Mapping[str, Any] | None = None,
    ) -> Any:
        """Runs one inference.

        Args:
            infer_request: The request.
            client_timeout: Seconds; None for no limit.
            headers: Metadata of the call.

        Returns:
            The message `ModelInferResponse`, for `InferResponse.from_grpc`.

        Raises:
            RpcError: the server returned an error, or cannot be reached.
        """
        call = grpc_messages.model_infer(infer_request.to_grpc())
        if self._verbose:
            logger.info("infer, metadata %s\n%s", headers, call.message)
        message = call.message.SerializeToString()
        reply = call.response_type.FromString(
            self._transport.call(call.method, message, metadata_of(headers), client_timeout)
        )
        if self._verbose:
            logger.info(reply)
        return reply

    def close(self) -> None:
        """Closes the client; later calls fail."""
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
