"""CloudEvents: events in requests, and events as responses to them."""

from __future__ import annotations

import base64
import os
import uuid
from datetime import datetime, timezone
from typing import Any

from penstock.compat.kserve.errors import InvalidInput
from penstock.compat.kserve.protocol import _json

__all__ = ["STRUCTURED", "is_binary", "read_binary", "read_structured", "response_event"]

STRUCTURED = "application/cloudevents+json"
"""The content type of an event that is a JSON object."""

Attributes = dict[str, Any]

_VERSIONS = ("1.0", "0.3")
_REQUIRED_HEADERS = ("ce-specversion", "ce-source", "ce-type", "ce-id")
_REQUIRED_MEMBERS = ("time", "type", "source", "id", "specversion", "data")
_NOT_MERGED = ("id", "time", "type", "source", "specversion", "data", "datacontenttype")
"""Attributes that a response event does not take from the request's event."""


def is_binary(headers: dict[str, str]) -> bool:
    """Returns whether a request's headers are those of a binary event."""
    return "ce-specversion" in headers and all(name in headers for name in _REQUIRED_HEADERS)


def read_binary(headers: dict[str, str], body: bytes) -> tuple[Any, Attributes]:
    """Returns data and attributes of a binary event. Data that are not JSON stay bytes.

    Raises:
        InvalidInput: the version is unknown, or data that are declared as JSON are not.
    """
    version = headers["ce-specversion"]
    if version not in _VERSIONS:
        raise InvalidInput(f"Cloud Event Exceptions: Found invalid specversion {version}")
    attributes: Attributes = {name[3:]: value for name, value in headers.items() if name.startswith("ce-")}
    try:
        return _json.loads(body), attributes
    except ValueError as error:
        if attributes.get("content-type") in ("application/json", STRUCTURED):
            raise InvalidInput(f"Failed to decode or parse binary json cloudevent: {error}") from None
        return body, attributes


def read_structured(value: Any) -> tuple[Any, Attributes] | None:
    """Returns data and attributes of a structured event; None for another JSON value."""
    if type(value) is not dict or "specversion" not in value or any(name not in value for name in _REQUIRED_MEMBERS):
        return None
    attributes = dict(value)
    return attributes.pop("data"), attributes


def response_event(
    model: str, value: Any, request_attributes: Attributes, *, binary: bool
) -> tuple[dict[str, str], bytes]:
    """Returns headers and body of the event that responds to one.

    Args:
        model: The model's name.
        value: The event's data.
        request_attributes: The attributes of the request's event; merged in if CE_MERGE is "true".
        binary: Whether the attributes are headers, as those of the request's event were.
    """
    merged = request_attributes if os.environ.get("CE_MERGE", "false").lower() == "true" else {}
    attributes = {
        "specversion": "1.0",
        "id": str(uuid.uuid4()),
        "source": os.environ.get("CE_SOURCE", f"io.kserve.inference.{model}"),
        "type": os.environ.get("CE_TYPE", "io.kserve.inference.response"),
        "time": datetime.now(timezone.utc).isoformat(),
    }
    rest = {name: attribute for name, attribute in merged.items() if name not in _NOT_MERGED}
    if binary:
        headers = {f"ce-{name}": str(attribute) for name, attribute in {**attributes, **rest}.items()}
        headers["content-type"] = "application/json"
        return headers, value if isinstance(value, bytes) else _json.dumps_spaced(value)
    if isinstance(value, bytes):
        data: Attributes = {"data_base64": base64.b64encode(value).decode()}
    else:
        data = {"data": value}
    return {"content-type": STRUCTURED}, _json.dumps_spaced({**attributes, **data, **rest})
