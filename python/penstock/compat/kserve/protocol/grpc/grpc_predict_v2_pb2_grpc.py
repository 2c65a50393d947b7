"""The gRPC service of the Open Inference Protocol, for scripts that use grpcio themselves."""

from __future__ import annotations

from typing import Any

from penstock.compat.kserve.protocol.grpc import grpc_predict_v2_pb2 as messages

__all__ = ["GRPCInferenceServiceServicer", "GRPCInferenceServiceStub", "add_GRPCInferenceServiceServicer_to_server"]

_SERVICE = "inference.GRPCInferenceService"
_CALLS = (
    *("ServerLive", "ServerReady", "ModelReady", "ServerMetadata", "ModelMetadata", "ModelInfer"),
    *("RepositoryModelLoad", "RepositoryModelUnload"),
)


class GRPCInferenceServiceStub:
    """Client of the service; each call is a method of its name.

    Args:
        channel: A channel of `grpc` or `grpc.aio`.
    """

    ServerLive: Any
    ServerReady: Any
    ModelReady: Any
    ServerMetadata: Any
    ModelMetadata: Any
    ModelInfer: Any
    RepositoryModelLoad: Any
    RepositoryModelUnload: Any

    def __init__(self, channel: Any) -> None:
        for call in _CALLS:
            method = channel.unary_unary(
                f"/{_SERVICE}/{call}",
                request_serializer=getattr(messages, f"{call}Request").SerializeToString,
                response_deserializer=getattr(messages, f"{call}Response").FromString,
            )
            setattr(self, call, method)


class GRPCInferenceServiceServicer:
    """Base of a service; a subclass has a method per implemented call."""

    def __getattr__(self, name: str) -> Any:
        if name not in _CALLS:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

        def unknown(request: Any, context: Any) -> Any:
            import grpc

            context.set_code(grpc.StatusCode.UNIMPLEMENTED)
            context.set_details("Method not implemented!")
            raise NotImplementedError("Method not implemented!")

        return unknown


def add_GRPCInferenceServiceServicer_to_server(servicer: Any, server: Any) -> None:
    """Adds a service to a server of `grpc` or `grpc.aio`."""
    import grpc

    handlers = {
        call: grpc.unary_unary_rpc_method_handler(
            getattr(servicer, call),
            request_deserializer=getattr(messages, f"{call}Request").FromString,
            response_serializer=getattr(messages, f"{call}Response").SerializeToString,
        )
        for call in _CALLS
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_SERVICE, handlers),))
