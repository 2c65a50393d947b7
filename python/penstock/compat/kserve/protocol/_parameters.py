"""Custom parameters: plain values in JSON, messages in gRPC."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.compat.kserve.errors import InvalidInput

__all__ = ["NOTHING", "is_message", "plain_value", "to_grpc_parameters", "to_http_parameters"]


def to_grpc_parameters(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters as gRPC has them: `InferParameter`s; those that are some already stay what they are.

    Raises:
        InvalidInput: one is neither text, a bool nor an integer.
    """
    from penstock.compat.kserve.protocol.grpc.grpc_predict_v2_pb2 import InferParameter

    found: dict[str, Any] = {}
    for key, value in parameters.items():
        if isinstance(value, str):
            found[key] = InferParameter(string_param=value)
        elif isinstance(value, bool):
            found[key] = InferParameter(bool_param=value)
        elif isinstance(value, int):
            found[key] = InferParameter(int64_param=value)
        elif is_message(value):
            found[key] = value
        else:
            raise InvalidInput(f"to_grpc: invalid parameter value: {value}")
    return found


def to_http_parameters(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters as JSON has them: what an `InferParameter` holds, without those that hold nothing."""
    return {key: value for key, held in parameters.items() if (value := plain_value(held)) is not NOTHING}


def is_message(value: Any) -> bool:
    """Whether it is an `InferParameter`, ours or one of a package that protobuf has generated."""
    return hasattr(value, "WhichOneof")


NOTHING = object()
"""What a message holds in which nothing is set."""


def plain_value(value: Any) -> Any:
    """What a parameter holds; `NOTHING` of a message in which nothing is set."""
    if not is_message(value):
        return value
    which = value.WhichOneof("parameter_choice")
    return NOTHING if which is None else getattr(value, which)
