"""The calls of the gRPC service, as bytes in and bytes out."""

from __future__ import annotations

from typing import Any

from penstock.compat.kserve.protocol.grpc import grpc_predict_v2_pb2 as messages

__all__ = ["Call", "model_infer", "model_ready", "server_live", "server_ready"]

_SERVICE = "inference.GRPCInferenceService"


class Call:
    """One call: its method, its message, the class of its answer, and what is logged when it fails."""

    def __init__(self, method: str, message: Any, answer: Any, failed: str) -> None:
        self.method = f"{_SERVICE}/{method}"
        self.message = message
        self.answer = answer
        self.failed = failed


def model_infer(message: Any) -> Call:
    """An inference."""
    return Call("ModelInfer", message, messages.ModelInferResponse, "Failed to infer")


def model_ready(name: str) -> Call:
    """Whether a model can answer."""
    failed = f"Failed to get readiness of the model with name {name}"
    return Call("ModelReady", messages.ModelReadyRequest(name=name), messages.ModelReadyResponse, failed)


def server_ready() -> Call:
    """Whether the server can answer."""
    message = messages.ServerReadyRequest()
    return Call("ServerReady", message, messages.ServerReadyResponse, "Failed to get server readiness")


def server_live() -> Call:
    """Whether the server runs."""
    return Call(
        "ServerLive", messages.ServerLiveRequest(), messages.ServerLiveResponse, "Failed to get server liveness"
    )
