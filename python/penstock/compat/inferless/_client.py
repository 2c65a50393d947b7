"""`call` and `call_async`: the client of apps, with the signatures of the `inferless` package."""

from __future__ import annotations

import json
import os
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from penstock.integrations.downloads import opened

__all__ = ["call", "call_async"]

Callback = Callable[[Exception | None, Any], object]

_TYPES: dict[Any, str] = {
    **{np.dtype(name): name.upper() for name in ("uint8", "uint16", "uint32", "uint64")},
    **{np.dtype(name): name.upper() for name in ("int8", "int16", "int32", "int64")},
    **{np.dtype(f"float{bits}"): f"FP{bits}" for bits in (16, 32, 64)},
    np.dtype(bool): "BOOL",
}


def call(  # noqa: PLR0917 - the signature of the package
    url: str,
    workspace_api_key: str | None = None,
    data: Mapping[str, Any] | None = None,
    callback: Callback | None = None,
    inputs: Mapping[str, Any] | None = None,
    is_batch: bool | None = False,
) -> Any:
    """Calls an app.

    Args:
        url: URL of its `infer`, such as http://localhost:8000/v2/models/NAME/infer.
        workspace_api_key: The API key; default INFERLESS_API_KEY.
        data: Values by input: str, int, float, bool, lists of these, or arrays.
        callback: Called with None and the response, or with the error and None. No error is raised then.
        inputs: The request's body, instead of `data`.
        is_batch: Whether each value gets a row axis.

    Returns:
        The response's JSON; None if the callback got an error.

    Raises:
        Exception: the status is not 200; the message has the status and the body.
    """
    try:
        response = _post(url, workspace_api_key, data, inputs, is_batch=bool(is_batch))
        if callback is not None:
            callback(None, response)
        return response
    except Exception as error:
        if callback is None:
            raise
        callback(error, None)
        return None


def call_async(  # noqa: PLR0917 - the signature of the package
    url: str,
    workspace_api_key: str | None = None,
    data: Mapping[str, Any] | None = None,
    callback: Callback | None = None,
    inputs: Mapping[str, Any] | None = None,
    is_batch: bool | None = False,
) -> threading.Thread:
    """Calls an app on a new thread, and returns the thread. See `call`."""
    thread = threading.Thread(target=call, args=(url, workspace_api_key, data, callback, inputs, is_batch))
    thread.start()
    return thread


def _post(url: str, key: str | None, data: Any, inputs: Any, *, is_batch: bool) -> Any:
    if inputs is not None and data is not None:
        raise ValueError("give data or inputs, not both")
    if data is not None:
        inputs = {"inputs": [_tensor(name, value, is_batch=is_batch) for name, value in data.items()]}
    key = os.environ.get("INFERLESS_API_KEY") if key is None else key
    request = urllib.request.Request(  # noqa: S310 - the caller's URL
        url,
        json.dumps({} if inputs is None else inputs).encode(),
        {"Content-Type": "application/json", "Authorization": f"Bearer {key}"},
    )
    try:
        with opened(request, None) as response:
            return json.load(response)
    except urllib.error.HTTPError as error:
        text = error.read().decode(errors="replace")
        raise RuntimeError(f"Failed to call {url} with status code {error.code} and response {text}") from None


def _tensor(name: str, value: Any, *, is_batch: bool) -> dict[str, Any]:
    if isinstance(value, np.ndarray):
        datatype, shape, data = _TYPES.get(value.dtype), list(value.shape), value.tolist()
    else:
        data = value if isinstance(value, list) else [value]
        shape = []
        inner: Any = data
        while isinstance(inner, list):
            shape.append(len(inner))
            inner = inner[0] if inner else None
        words = {str: "BYTES", bool: "BOOL", int: "INT64", float: "FP64"}
        datatype = words.get(type(inner))
    if datatype is None:
        raise ValueError(f"{name!r}: expected str, int, float, bool, lists of these or an array; or give inputs")
    return {"name": name, "shape": [1, *shape] if is_batch else shape, "datatype": datatype, "data": data}
