"""CloudEvents: the requests that are some, and the answers to them."""

from __future__ import annotations

import base64
import os
import uuid
from datetime import datetime, timezone
from typing import Any

from penstock.compat.kserve.errors import InvalidInput
from penstock.compat.kserve.protocol import _json

__all__ = ["STRUCTURED", "answer", "is_binary", "of_headers", "of_object"]

STRUCTURED = "application/cloudevents+json"
"""The content type of an event that is a JSON object."""

Attributes = dict[str, Any]

_VERSIONS = ("1.0", "0.3")
_IN_HEADERS = ("ce-specversion", "ce-source", "ce-type", "ce-id")
_IN_OBJECT = ("time", "type", "source", "id", "specversion", "data")
_MADE_ANEW = ("id", "time", "type", "source", "specversion", "data", "datacontenttype")


def is_binary(headers: dict[str, str]) -> bool:
    """Whether the headers of a request are those of an event."""
    return "ce-specversion" in headers and all(name in headers for name in _IN_HEADERS)


def of_headers(headers: dict[str, str], body: bytes) -> tuple[Any, Attributes]:
    """The data and attributes of an event whose attributes are in headers. Data that are no JSON stay bytes.

    Raises:
        InvalidInput: the version is unknown, or they say that they are JSON.
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


def of_object(value: Any) -> tuple[Any, Attributes] | None:
    """The data and attributes of an event that is a JSON object; None if it is none."""
    if type(value) is not dict or "specversion" not in value or any(name not in value for name in _IN_OBJECT):
        return None
    attributes = dict(value)
    return attributes.pop("data"), attributes


def answer(model: str, value: Any, asked: Attributes, *, binary: bool) -> tuple[dict[str, str], bytes]:
    """An event that answers one.

    Args:
        model: The model's name.
        value: The answer.
        asked: The attributes of the event that it answers, which go into it if the environment says so.
        binary: Whether its attributes are headers, as those of the asked one were.

    Returns:
        Its headers and its body.
    """
    merged = asked if os.environ.get("CE_MERGE", "false").lower() == "true" else {}
    attributes = {
        "specversion": "1.0",
        "id": str(uuid.uuid4()),
        "source": os.environ.get("CE_SOURCE", f"io.kserve.inference.{model}"),
        "type": os.environ.get("CE_TYPE", "io.kserve.inference.response"),
        "time": datetime.now(timezone.utc).isoformat(),
    }
    rest = {name: told for name, told in merged.items() if name not in _MADE_ANEW}
    if binary:
        headers = {f"ce-{name}": str(told) for name, told in {**attributes, **rest}.items()}
        headers["content-type"] = "application/json"
        return headers, value if isinstance(value, bytes) else _json.spaced(value)
    if isinstance(value, bytes):
        data: Attributes = {"data_base64": base64.b64encode(value).decode()}
    else:
        data = {"data": value}
    return {"content-type": STRUCTURED}, _json.spaced({**attributes, **data, **rest})
