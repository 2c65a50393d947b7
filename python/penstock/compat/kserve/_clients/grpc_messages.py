"""Calls of the gRPC service: method, message and response class."""

from __future__ import annotations

from typing import Any

from penstock.compat.kserve.protocol.grpc import grpc_predict_v2_pb2 as messages

__all__ = ["Call", "model_infer", "model_ready", "server_live", "server_ready"]

_SERVICE = "inference.GRPCInferenceService"


class Call:
    """A call: its method, its message, the class of its response, and the log text of a failure."""

    def __init__(self, method: str, message: Any, response_type: Any, failed: str) -> None:
        self.method = f"{_SERVICE}/{method}"
        self.message = message
        self.response_type = response_type
        self.failed = failed


def model_infer(message: Any) -> Call:
    """Returns the call of an inference."""
    return Call("ModelInfer", message, messages.ModelInferResponse, "Failed to infer")


def model_ready(name: str) -> Call:
    """Returns the readiness call of a model."""
    failed = f"Failed to get readiness of the model with name {name}"
    return Call("ModelReady", messages.ModelReadyRequest(name=name), messages.ModelReadyResponse, failed)


def server_ready() -> Call:
    """Returns the readiness call of the server."""
    message = messages.ServerReadyRequest()
    return Call("ServerReady", message, messages.ServerReadyResponse, "Failed to get server readiness")


def server_live() -> Call:
    """Returns the liveness call of the server."""
    return Call(
        "ServerLive", messages.ServerLiveRequest(), messages.ServerLiveResponse, "Failed to get server liveness"
    )
