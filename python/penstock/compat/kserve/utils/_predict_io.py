"""Conversion between payloads and a model's values: rows of V1 and tensors of V2."""

from __future__ import annotations

import uuid
from typing import Any

import numpy as np

from penstock.compat.kserve.errors import InferenceError, InvalidInput
from penstock.compat.kserve.protocol._arrays import Shown, byte_size, copied
from penstock.compat.kserve.protocol._parameters import parameter_value
from penstock.compat.kserve.protocol.infer_type import InferOutput, InferRequest, InferResponse
from penstock.compat.kserve.utils._dataframe import is_frame, pandas
from penstock.compat.kserve.utils.numpy_codec import from_np_dtype

__all__ = ["get_predict_input", "get_predict_response"]


def get_predict_input(payload: dict[str, Any] | InferRequest, columns: list[Any] | None = None) -> Any:
    """Returns a model's input.

    Args:
        payload: A V1 or V2 request.
        columns: Columns of DataFrames, in order.

    Returns:
        V1: an array of the rows; the list itself if they are text; a DataFrame if they are dicts. V2: a DataFrame of
        all inputs, if the parameter `content_type` is `pd`; else the first input, as a list if it is text,
        else as an array.

    Raises:
        InvalidInput: the payload is neither.
        ImportError: a DataFrame is required, and pandas is not installed.
        KeyError: a V1 payload has no rows.
    """
    if isinstance(payload, dict):
        return _rows(payload["inputs"] if "inputs" in payload else payload["instances"], columns)
    if not isinstance(payload, InferRequest):
        raise InvalidInput(f"unsupported payload type {type(payload)}")
    if parameter_value((payload.parameters or {}).get("content_type")) == "pd":
        return payload.as_dataframe()
    first = payload.inputs[0]
    if first.datatype == "BYTES" and first._raw_data is None:
        data = first.data
        if len(data) and isinstance(data[0], str):
            return data
    return first.as_numpy()


def _rows(rows: Any, columns: list[Any] | None) -> Any:
    if len(rows) == 0:
        return np.array(rows)
    first = rows[0]
    if isinstance(first, dict) or (isinstance(first, list) and first and isinstance(first[0], dict)):
        pd = pandas()
        return pd.concat([pd.DataFrame(_table(row), columns=columns) for row in rows], axis=0)
    return rows if isinstance(first, str) else np.array(rows)


def _table(row: Any) -> Any:
    """Returns the argument of `DataFrame` for a row: a dict of plain values is one line."""
    plain = isinstance(row, dict) and not any(isinstance(value, (dict, list, tuple)) for value in row.values())
    return [row] if plain else row


def get_predict_response(
    payload: dict[str, Any] | InferRequest, result: Any, model_name: str
) -> dict[str, Any] | InferResponse:
    """Returns a model's response.

    Args:
        payload: The request; the response has the same protocol.
        result: The model's result: an array, a list or a DataFrame.
        model_name: The model's name.

    Returns:
        V1: `predictions`, a dict per row of a DataFrame. V2: an output per column of a DataFrame, or
        else one output named `output-0`.

    Raises:
        InvalidInput: the payload is of neither protocol.
        InferenceError: the protocol cannot express the result's type.
    """
    if isinstance(payload, dict):
        return {"predictions": _predictions(result)}
    if not isinstance(payload, InferRequest):
        raise InvalidInput(f"unsupported payload type {type(payload)}")
    binary = payload.use_binary_outputs
    if is_frame(result):
        outputs = [_output(str(name), result[name].to_numpy(), binary) for name in result.columns]
    else:
        outputs = [_output("output-0", _only(result), binary)]
    return InferResponse(
        model_name=model_name,
        infer_outputs=outputs,
        response_id=payload.id or str(uuid.uuid4()),
        use_binary_outputs=binary,
        requested_outputs=payload.request_outputs,
    )


def _predictions(result: Any) -> Any:
    if is_frame(result):
        return [row.to_dict() for _, row in result.iterrows()]
    return result.tolist() if isinstance(result, np.ndarray) else result


def _only(result: Any) -> np.ndarray[Any, Any]:
    texts = isinstance(result, list) and result and isinstance(result[0], str)
    return np.array(result, dtype=object) if texts else np.asarray(result)


def _output(name: str, array: np.ndarray[Any, Any], binary: bool) -> InferOutput:
    datatype = from_np_dtype(array.dtype)
    if datatype is None or (array.dtype == object and array.ndim == 0):
        raise InferenceError(
            f"output '{name}' is {array.dtype} of shape {array.shape}, which the protocol does not support"
        )
    held = copied(array, datatype)
    if not binary:
        # Bytes that are not UTF-8 are valid as raw bytes; the JSON encoder refuses them otherwise.
        return InferOutput._holding(name, datatype, held, None, Shown.LIST)
    return InferOutput._holding(name, datatype, held, {"binary_data_size": byte_size(held, datatype)}, Shown.BINARY)
