"""Declared tensors of a function, and the checks of requests and responses against them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock import HandlerError, InvalidInput
from penstock.compat.openinference._definition.function_spec import TensorSpec

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["DTYPES", "DeclaredTensors", "format_tensors", "to_array"]

DTYPES: dict[str, np.dtype[Any]] = {
    "BOOL": np.dtype(np.bool_),
    **{f"INT{bits}": np.dtype(f"int{bits}") for bits in (8, 16, 32, 64)},
    **{f"UINT{bits}": np.dtype(f"uint{bits}") for bits in (8, 16, 32, 64)},
    **{f"FP{bits}": np.dtype(f"float{bits}") for bits in (16, 32, 64)},
    "BYTES": np.dtype(object),
}
"""numpy dtype of each datatype."""

_ZERO = {name: np.zeros((), dtype) for name, dtype in DTYPES.items()}


def format_tensors(tensors: Sequence[TensorSpec]) -> str:
    """Returns a list of the tensors, for messages."""
    return ", ".join(f"{tensor.name} ({tensor.datatype} {list(tensor.shape)})" for tensor in tensors)


class DeclaredTensors:
    """Declared inputs or outputs of a function, prepared for comparison.

    Args:
        tensors: Declared tensors.
        model: Name of the model, for messages.
    """

    def __init__(self, tensors: Sequence[TensorSpec], model: str = "") -> None:
        self._tensors, self._model = tensors, model
        self._known = {tensor.name: (tensor.shape, tensor.datatype, DTYPES[tensor.datatype]) for tensor in tensors}

    def check_request(
        self, tensors: dict[str, npt.NDArray[Any]], datatypes: dict[str, str]
    ) -> tuple[dict[str, npt.NDArray[Any]], dict[str, str]]:
        """Returns a request's tensors and datatypes, converted to the declared ones.

        Raises:
            InvalidInput: they do not match the declaration; the message names the tensor.
        """
        known = self._known
        if len(tensors) == len(known):
            for name, array in tensors.items():
                found = known.get(name)
                if found is None or datatypes[name] != found[1] or not _shape_matches(array.shape, found[0]):
                    break
            else:
                return tensors, datatypes
        return _check_inputs(tensors, datatypes, self._tensors, self._model)

    def check_datatypes(self, tensors: dict[str, tuple[str, tuple[int, ...]]]) -> dict[str, str]:
        """Returns the declared datatypes of tensors whose elements are still JSON.

        Args:
            tensors: Datatype and shape of each tensor, by name.

        Raises:
            InvalidInput: they do not match the declaration; the message names the tensor.
        """
        # Zeros instead of the elements: they are in range for every conversion.
        empty = {name: np.broadcast_to(_ZERO[datatype], shape) for name, (datatype, shape) in tensors.items()}
        return self.check_request(empty, {name: datatype for name, (datatype, _) in tensors.items()})[1]

    def check_outputs(self, outputs: dict[str, npt.NDArray[Any]]) -> None:
        """Checks a handler's outputs, if any outputs are declared.

        Raises:
            HandlerError: they do not match the declaration; the message names the tensor.
        """
        known = self._known
        for name, array in outputs.items():
            found = known.get(name)
            if found is None or array.dtype != found[2] or not _shape_matches(array.shape, found[0]):
                break
        else:
            return
        if known:
            _check_outputs(outputs, self._tensors)


def _check_inputs(
    tensors: dict[str, npt.NDArray[Any]], datatypes: dict[str, str], declared: Sequence[TensorSpec], model: str
) -> tuple[dict[str, npt.NDArray[Any]], dict[str, str]]:
    names = list(tensors)
    found: dict[str, npt.NDArray[Any]] = {}
    for index, tensor in enumerate(declared):
        name = tensor.name if tensor.named else names[index] if index < len(names) else tensor.name
        if name not in tensors:
            raise InvalidInput(f"input '{name}' is missing: model '{model}' expects {format_tensors(declared)}")
        found[name] = _check_input(tensors[name], name, datatypes[name], tensor, model)
    for name in tensors:
        if name not in found:
            raise InvalidInput(f"unexpected input '{name}': model '{model}' expects {format_tensors(declared)}")
    datatypes_found = {name: tensor.datatype for name, tensor in zip(found, declared, strict=True)}
    # In the order of the request.
    return {name: found[name] for name in tensors}, datatypes_found


def _check_input(
    array: npt.NDArray[Any], name: str, datatype: str, declared: TensorSpec, model: str
) -> npt.NDArray[Any]:
    if not _shape_matches(array.shape, declared.shape):
        raise InvalidInput(
            f"input '{name}' has shape {list(array.shape)}, model '{model}' expects {list(declared.shape)}"
        )
    if datatype == declared.datatype:
        return array
    if _datatype_family(datatype) != _datatype_family(declared.datatype):
        raise InvalidInput(f"input '{name}' has datatype {datatype}, model '{model}' expects {declared.datatype}")
    dtype = DTYPES[declared.datatype]
    with np.errstate(over="ignore"):
        converted = array.astype(dtype)
    # Rounding a float is acceptable. An integer that does not fit would become another number.
    if dtype.kind in "iu" and not np.array_equal(converted, array):
        raise InvalidInput(f"input '{name}' has a number outside the range of {declared.datatype}")
    return converted


def _check_outputs(outputs: dict[str, npt.NDArray[Any]], declared: Sequence[TensorSpec]) -> None:
    known = {tensor.name: tensor for tensor in declared}
    for index, (name, array) in enumerate(outputs.items()):
        tensor = known.get(name)
        if tensor is None and index < len(declared) and not declared[index].named:
            tensor = declared[index]
        if tensor is None:
            raise HandlerError(f"the handler returned an output '{name}', declared are {format_tensors(declared)}")
        if not _shape_matches(array.shape, tensor.shape):
            raise HandlerError(
                f"the handler returned output '{name}' of shape {list(array.shape)}, declared is {list(tensor.shape)}"
            )
        if array.dtype != DTYPES[tensor.datatype]:
            raise HandlerError(
                f"the handler returned output '{name}' of {_datatype_name(array.dtype)}, declared is {tensor.datatype}"
            )


def to_array(data: Any, datatype: str | None, shape: Sequence[int] | None, name: str, *, repair: bool) -> Any:
    """Converts an output's data to an array.

    Args:
        data: Numbers, texts, lists of them, or an array of any package.
        datatype: Datatype of the result; None takes the data's.
        shape: Shape of the result; None takes the data's.
        name: Name of the output.
        repair: Replace a shape that does not fit. For BYTES this is always done, because handlers count characters.

    Raises:
        HandlerError: the data is not a tensor, or does not fit the shape.
    """
    if datatype is not None and datatype not in DTYPES:
        raise HandlerError(f"output '{name}' has datatype {datatype!r}, expected one of {', '.join(DTYPES)}")
    array = _convert(data, datatype, name)
    if shape is None or (len(shape) == array.ndim and array.shape == tuple(shape)):
        return array
    if array.size == _element_count(shape, name):
        return array.reshape(shape)
    if repair or array.dtype == object:
        # Same rank as the given shape, with all elements on the last axis.
        return array.reshape([1] * (max(1, len(shape)) - 1) + [array.size])
    raise HandlerError(f"output '{name}' has {array.size} elements, which do not fit the shape {list(shape)}")


def _convert(data: Any, datatype: str | None, name: str) -> npt.NDArray[Any]:
    if type(data) is not list and hasattr(data, "detach") and hasattr(data, "cpu"):
        data = data.detach().cpu().numpy()
    try:
        array = np.asarray(data) if datatype != "BYTES" else _to_bytes_array(data)
        if datatype is None and array.dtype.kind in "USO":
            array = _to_bytes_array(data)
        wanted = array.dtype if datatype is None else DTYPES[datatype]
        if array.dtype == wanted:
            return array
        if wanted.kind in "iu" and array.dtype.kind == "f" and not np.array_equal(array, np.trunc(array)):
            raise HandlerError(f"output '{name}' has fractions, expected {datatype}")
        if array.dtype.kind not in "biuf":
            raise HandlerError(f"output '{name}' has {array.dtype} where {datatype} is expected")
        converted = array.astype(wanted)
    except HandlerError:
        raise
    except (TypeError, ValueError, OverflowError) as error:
        raise HandlerError(f"output '{name}' is not a tensor: {error}") from None
    if wanted.kind in "iu" and not np.array_equal(converted, array):
        raise HandlerError(f"output '{name}' has a number outside the range of {datatype}")
    return converted


def _to_bytes_array(data: Any) -> npt.NDArray[Any]:
    if isinstance(data, (str, bytes, bytearray)):
        data = [data]
    array = np.array(data, dtype=object)
    flat = [_to_bytes(tensor) for tensor in array.ravel().tolist()]
    found = np.empty(len(flat), dtype=object)
    found[:] = flat
    return found.reshape(array.shape)


def _to_bytes(tensor: Any) -> bytes:
    if isinstance(tensor, str):
        return tensor.encode()
    if isinstance(tensor, (bytes, bytearray)):
        return bytes(tensor)
    raise TypeError(f"BYTES are str or bytes, not {type(tensor).__name__}")


def _element_count(shape: Sequence[int], name: str) -> int:
    size = 1
    for tensor in shape:
        if isinstance(tensor, bool) or not isinstance(tensor, (int, np.integer)) or tensor < 0:
            raise HandlerError(f"output '{name}' has shape {shape!r}, expected numbers of 0 or more")
        size *= int(tensor)
    return size


def _shape_matches(shape: tuple[int, ...], declared: tuple[int, ...]) -> bool:
    if shape == declared:
        return True
    if len(shape) != len(declared):
        return False
    # A loop instead of `any`: this runs for every request.
    for size, want in zip(shape, declared, strict=True):  # noqa: SIM110
        if want not in (-1, size):
            return False
    return True


def _datatype_family(datatype: str) -> str:
    return {"I": "integers", "U": "integers", "F": "floats"}.get(datatype[0], datatype)


def _datatype_name(dtype: np.dtype[Any]) -> str:
    return next((name for name, tensor in DTYPES.items() if tensor == dtype), str(dtype))
