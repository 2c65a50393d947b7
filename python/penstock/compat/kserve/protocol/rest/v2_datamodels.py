"""HTTP bodies of the Open Inference Protocol as dataclasses, in place of KServe's pydantic models."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, fields
from typing import Any, ClassVar

__all__ = [
    "InferenceRequest",
    "InferenceResponse",
    "ListModelsResponse",
    "MetadataTensor",
    "ModelMetadataResponse",
    "ModelReadyResponse",
    "RequestInput",
    "RequestOutput",
    "ResponseOutput",
    "ServerLiveResponse",
    "ServerMetadataResponse",
    "ServerReadyResponse",
]


class Body:
    """Base of all bodies: conversion from and to dicts."""

    PARTS: ClassVar[dict[str, type[Body]]] = {}
    """The fields that are lists of bodies."""

    def __post_init__(self) -> None:
        for field in fields(self):  # type: ignore[arg-type] # each that derives is a dataclass
            given, kind = getattr(self, field.name), self.PARTS.get(field.name)
            if not str(field.type).startswith("list") or (given is None and field.default is None):
                continue
            if not isinstance(given, list):
                raise ValueError(f"{type(self).__name__}.{field.name}: got {type(given).__name__}, expected a list")
            if kind is not None:
                setattr(self, field.name, [kind.model_validate(one) for one in given])

    @classmethod
    def model_validate(cls, obj: Any) -> Any:
        """Returns the body of a dict; a body is returned unchanged.

        Raises:
            ValueError: `obj` is neither, a required field is missing, or a field is not a list that has to be one.
        """
        if isinstance(obj, cls):
            return obj
        if not isinstance(obj, dict):
            raise ValueError(f"{cls.__name__}: got {type(obj).__name__}, expected an object")
        known = fields(cls)  # type: ignore[arg-type] # each that derives is a dataclass
        missing = [one.name for one in known if one.name not in obj and one.default is dataclasses.MISSING]
        if missing:
            raise ValueError(f"{cls.__name__}: {', '.join(missing)} missing")
        return cls(**{one.name: obj[one.name] for one in known if one.name in obj})

    def model_dump(self, *, exclude_none: bool = False) -> dict[str, Any]:
        """Returns the body as a dict.

        Args:
            exclude_none: Whether to leave out fields that are None.
        """
        dumped: dict[str, Any] = _dumped(self, exclude_none)
        return dumped

    def model_dump_json(self, *, exclude_none: bool = False) -> str:
        """Returns the body as JSON text; arguments as for `model_dump`."""
        return json.dumps(self.model_dump(exclude_none=exclude_none), ensure_ascii=False, separators=(",", ":"))

    def dict(self, *, exclude_none: bool = False) -> Any:
        """Returns `model_dump`, under older pydantic's name."""
        return self.model_dump(exclude_none=exclude_none)

    def json(self, *, exclude_none: bool = False) -> str:
        """Returns `model_dump_json`, under older pydantic's name."""
        return self.model_dump_json(exclude_none=exclude_none)


def _dumped(value: Any, exclude_none: bool) -> Any:
    if isinstance(value, Body):
        found = {one.name: getattr(value, one.name) for one in fields(value)}  # type: ignore[arg-type]
        return {name: _dumped(one, exclude_none) for name, one in found.items() if one is not None or not exclude_none}
    if isinstance(value, list) and value and isinstance(value[0], Body):
        return [_dumped(one, exclude_none) for one in value]
    return value


@dataclass(kw_only=True)
class ServerLiveResponse(Body):
    """Liveness of the server."""

    live: bool


@dataclass(kw_only=True)
class ServerReadyResponse(Body):
    """Readiness of the server."""

    ready: bool


@dataclass(kw_only=True)
class ServerMetadataResponse(Body):
    """Metadata of the server."""

    name: str
    version: str
    extensions: list[str]


@dataclass(kw_only=True)
class MetadataTensor(Body):
    """An input or output of a model."""

    name: str
    datatype: str
    shape: list[int]


@dataclass(kw_only=True)
class ListModelsResponse(Body):
    """Names of the models."""

    models: list[str]


@dataclass(kw_only=True)
class ModelMetadataResponse(Body):
    """Metadata of a model: inputs and outputs."""

    PARTS = {"inputs": MetadataTensor, "outputs": MetadataTensor}  # noqa: RUF012 - never changed
    name: str
    versions: list[str] | None = None
    platform: str
    inputs: list[MetadataTensor]
    outputs: list[MetadataTensor]


@dataclass(kw_only=True)
class ModelReadyResponse(Body):
    """Readiness of a model."""

    name: str
    ready: bool


@dataclass(kw_only=True)
class RequestInput(Body):
    """An input of a request."""

    name: str
    shape: list[int]
    datatype: str
    parameters: dict[str, Any] | None = None
    data: list[Any]


@dataclass(kw_only=True)
class RequestOutput(Body):
    """A requested output."""

    name: str
    parameters: dict[str, Any] | None = None


@dataclass(kw_only=True)
class ResponseOutput(Body):
    """An output of a response."""

    name: str
    shape: list[int]
    datatype: str
    parameters: dict[str, Any] | None = None
    data: list[Any]


@dataclass(kw_only=True)
class InferenceRequest(Body):
    """An inference request."""

    PARTS = {"inputs": RequestInput, "outputs": RequestOutput}  # noqa: RUF012 - never changed
    id: str | None = None
    parameters: dict[str, Any] | None = None
    inputs: list[RequestInput]
    outputs: list[RequestOutput] | None = None


@dataclass(kw_only=True)
class InferenceResponse(Body):
    """An inference response."""

    PARTS = {"outputs": ResponseOutput}  # noqa: RUF012 - never changed
    model_name: str
    model_version: str | None = None
    id: str
    parameters: dict[str, Any] | None = None
    outputs: list[ResponseOutput]
