"""The service of the Open Inference Protocol, for scripts that speak gRPC themselves; needs the package grpcio."""

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
    """Asks a server; each call is a method of its name.

    Args:
        channel: Of `grpc` or `grpc.aio`.
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
    """Answers calls; a subclass has a method for each that it answers."""

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
    """Has a server of `grpc` or `grpc.aio` answer with a servicer."""
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
