"""gRPC response encoder: writes arrays into the message's bytes without an intermediate message or list."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from penstock.compat.kserve.constants.constants import GRPC_CONTENT_DATATYPE_MAPPINGS
from penstock.compat.kserve.errors import InvalidInput
from penstock.compat.kserve.protocol._arrays import raw_bytes
from penstock.compat.kserve.protocol._bytes_elements import Array, as_bytes
from penstock.compat.kserve.protocol._grpc import all_raw, wants_raw
from penstock.compat.kserve.protocol._parameters import UNSET, parameter_value
from penstock.compat.kserve.protocol.grpc._varints import encoded, length_of, number

if TYPE_CHECKING:
    from penstock.compat.kserve.protocol._response import InferResponse

__all__ = ["response_bytes"]

_FIELDS = ("bool", "int", "int64", "uint", "uint64", "fp32", "fp64", "bytes")
_NUMBERS = {f"{name}_contents": index for index, name in enumerate(_FIELDS, 1)}
"""Field numbers of `InferTensorContents`."""


def response_bytes(response: InferResponse) -> bytes:
    """Returns the bytes of `response.to_grpc().SerializeToString()`, about ten times as fast.

    Raises:
        InvalidInput: an output has no data, or a datatype that has no typed contents.
    """
    raw = all_raw(response.outputs, wants_raw(response))
    parts = [_text(1, response.model_name), _text(2, response.model_version), _text(3, response.id)]
    if response.parameters:
        _put_parameters(parts, response.parameters)
    raws: list[bytes] = []
    for output in response.outputs:
        head = [_text(1, output.name), _text(2, output.datatype), _shape(output.shape)]
        parameters = dict(output.parameters or {})
        if raw:
            data = _raw(output, parameters)
            raws.append(b"".join((b"\x32", length_of(data), data)))
            _put_parameters(head, parameters)
        else:
            _put_parameters(head, parameters)
            head.append(_contents(output))
        body = b"".join(head)
        parts += [b"\x2a", length_of(body), body]
    return b"".join([*parts, *raws])


def _raw(output: Any, parameters: dict[str, Any]) -> bytes:
    if output._value is None and output._array is None and output._raw is None:
        raise InvalidInput("output data is not a List")
    data = output._raw_data
    if data is None:
        data = raw_bytes(output._outgoing(), output.datatype)
        parameters["binary_data_size"] = len(data)
    return bytes(data)


def _contents(output: Any) -> bytes:
    field = GRPC_CONTENT_DATATYPE_MAPPINGS.get(output.datatype)
    if output._array is None and not isinstance(output._value, list):
        raise InvalidInput("output data is not a List")
    if field is None:
        raise InvalidInput("to_grpc: invalid output datatype")
    inside = _elements(_NUMBERS[field], output.datatype, output._outgoing())
    return b"".join((b"\x2a", length_of(inside), inside))


def _elements(field: int, datatype: str, array: Array) -> bytes:
    tag = bytes((field << 3 | 2,))
    if datatype == "BYTES":
        return b"".join(part for one in as_bytes(array) for part in (tag, length_of(one), one))
    data = raw_bytes(array, datatype) if datatype in ("FP32", "FP64") else encoded(array)
    return b"".join((tag, length_of(data), data)) if data else b""


def _shape(shape: list[int]) -> bytes:
    if not shape:
        return b""
    data = b"".join([number(int(length) & 2**64 - 1) for length in shape])
    return b"".join((b"\x1a", length_of(data), data))


def _text(field: int, text: Any) -> bytes:
    if not text:
        return b""
    data = str(text).encode()
    return b"".join((bytes((field << 3 | 2,)), length_of(data), data))


def _put_parameters(parts: list[bytes], parameters: Mapping[str, Any]) -> None:
    for name, parameter in parameters.items():
        value = _value(parameter_value(parameter))
        entry = b"".join((_text(1, name) or b"\x0a\x00", b"\x12", length_of(value), value))
        parts += [b"\x22", length_of(entry), entry]


def _value(value: Any) -> bytes:
    if isinstance(value, str):
        return _text(3, value) or b"\x1a\x00"
    if isinstance(value, bool):
        return b"\x08\x01" if value else b"\x08\x00"
    if value is UNSET:
        return b""
    if isinstance(value, int) and -(2**63) <= value < 2**63:
        return b"\x10" + number(value & 2**64 - 1)
    raise InvalidInput(f"to_grpc: invalid parameter value: {value}")
