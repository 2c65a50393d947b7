"""CloudEvents of KServe's helpers, without a package."""

from __future__ import annotations

import base64
import json
import os
import uuid
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

import numpy as np

__all__ = ["create_response_cloudevent", "is_structured_cloudevent"]

_REQUIRED = ("time", "type", "source", "id", "specversion", "data")
_KNOWN = ("specversion", "id", "source", "type", "datacontenttype", "dataschema", "subject", "time")


def is_structured_cloudevent(body: Any) -> bool:
    """Returns whether a JSON body has all members of a structured event."""
    return all(name in body for name in _REQUIRED)


def create_response_cloudevent(
    model_name: str, response: Any, req_attributes: Mapping[str, Any], binary_event: bool = False
) -> tuple[dict[str, str], Any]:
    """Returns headers and body of a model's response as an event with a new id and time.

    CE_TYPE and CE_SOURCE in the environment set its type and source; with CE_MERGE=true it has the other attributes
    of the request's event as well.

    Args:
        model_name: The model's name, part of the default source.
        response: The data: a JSON value, or bytes.
        req_attributes: The attributes of the request's event.
        binary_event: Whether attributes are headers and the data is the body; else all is in the body.

    Returns:
        The headers and the body.
    """
    merged: dict[str, Any] = {}
    if os.getenv("CE_MERGE", "false").lower() == "true":
        merged = dict(req_attributes)
        if binary_event:
            merged.pop("datacontenttype", None)
    attributes = {
        "specversion": "1.0",
        **merged,
        "id": str(uuid.uuid4()),
        "time": datetime.now(timezone.utc).isoformat(),
        "type": os.getenv("CE_TYPE", "io.kserve.inference.response"),
        "source": os.getenv("CE_SOURCE", f"io.kserve.inference.{model_name}"),
    }
    known = {name: attributes.pop(name) for name in _KNOWN if name in attributes}
    if binary_event:
        headers = {f"ce-{name}": str(value) for name, value in {**known, **attributes}.items()}
        return headers, response if response is None or isinstance(response, bytes) else _json(response)
    data: dict[str, Any] = {}
    if isinstance(response, bytes):
        data = {"data_base64": base64.b64encode(response).decode()}
    elif response is not None:
        data = {"data": response}
    return {"content-type": "application/cloudevents+json"}, _json({**known, **data, **attributes})


def _json(value: Any) -> bytes:
    return json.dumps(value, default=_plain).encode()


def _plain(value: Any) -> Any:
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    raise TypeError(f"a response of type {type(value).__name__} cannot be written as JSON")
