"""Tensors that a function declares, and those that come: what fits, and what is refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock import HandlerError, InvalidInput
from penstock.compat.openinference._definition.function_spec import TensorSpec

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["DTYPES", "Declared", "as_array", "declared_text"]

DTYPES: dict[str, np.dtype[Any]] = {
    "BOOL": np.dtype(np.bool_),
    **{f"INT{bits}": np.dtype(f"int{bits}") for bits in (8, 16, 32, 64)},
    **{f"UINT{bits}": np.dtype(f"uint{bits}") for bits in (8, 16, 32, 64)},
    **{f"FP{bits}": np.dtype(f"float{bits}") for bits in (16, 32, 64)},
    "BYTES": np.dtype(object),
}
"""The dtype of the arrays of each datatype."""

_ZERO = {name: np.zeros((), dtype) for name, dtype in DTYPES.items()}


def declared_text(tensors: Sequence[TensorSpec]) -> str:
    """What is declared, for messages."""
    return ", ".join(f"{one.name} ({one.datatype} {list(one.shape)})" for one in tensors)


class Declared:
    """What a function declares of its inputs or its outputs, ready to be compared.

    Args:
        tensors: What it declares.
        model: The model's name, for messages.
    """

    def __init__(self, tensors: Sequence[TensorSpec], model: str = "") -> None:
        self._tensors, self._model = tensors, model
        self._known = {one.name: (one.shape, one.datatype, DTYPES[one.datatype]) for one in tensors}

    def of_request(
        self, tensors: dict[str, npt.NDArray[Any]], datatypes: dict[str, str]
    ) -> tuple[dict[str, npt.NDArray[Any]], dict[str, str]]:
        """A request's tensors and their datatypes, as they are declared.

        Raises:
            InvalidInput: they are not what is declared; the message names the tensor.
        """
        known = self._known
        if len(tensors) == len(known):
            for name, array in tensors.items():
                found = known.get(name)
                if found is None or datatypes[name] != found[1] or not _fits(array.shape, found[0]):
                    break
            else:
                return tensors, datatypes
        return _checked_inputs(tensors, datatypes, self._tensors, self._model)

    def of_json(self, tensors: dict[str, tuple[str, tuple[int, ...]]]) -> dict[str, str]:
        """The datatypes that are declared, of tensors whose elements are still as JSON has them.

        Args:
            tensors: The datatype and shape of each, by name.

        Raises:
            InvalidInput: they are not what is declared; the message names the tensor.
        """
        # Without elements: a converted one cannot be out of range.
        empty = {name: np.broadcast_to(_ZERO[datatype], shape) for name, (datatype, shape) in tensors.items()}
        return self.of_request(empty, {name: datatype for name, (datatype, _) in tensors.items()})[1]

    def check_answer(self, outputs: dict[str, npt.NDArray[Any]]) -> None:
        """Checks what a handler has returned, if any outputs are declared.

        Raises:
            HandlerError: it is not what is declared; the message names the tensor.
        """
        known = self._known
        for name, array in outputs.items():
            found = known.get(name)
            if found is None or array.dtype != found[2] or not _fits(array.shape, found[0]):
                break
        else:
            return
        if known:
            _check_outputs(outputs, self._tensors)


def _checked_inputs(
    tensors: dict[str, npt.NDArray[Any]], datatypes: dict[str, str], declared: Sequence[TensorSpec], model: str
) -> tuple[dict[str, npt.NDArray[Any]], dict[str, str]]:
    names = list(tensors)
    found: dict[str, npt.NDArray[Any]] = {}
    for index, one in enumerate(declared):
        name = one.name if one.named else names[index] if index < len(names) else one.name
        if name not in tensors:
            raise InvalidInput(f"input '{name}' is missing: model '{model}' expects {declared_text(declared)}")
        found[name] = _checked_input(tensors[name], name, datatypes[name], one, model)
    for name in tensors:
        if name not in found:
            raise InvalidInput(f"unexpected input '{name}': model '{model}' expects {declared_text(declared)}")
    told = {name: one.datatype for name, one in zip(found, declared, strict=True)}
    # In the order sent.
    return {name: found[name] for name in tensors}, told


def _checked_input(
    array: npt.NDArray[Any], name: str, datatype: str, declared: TensorSpec, model: str
) -> npt.NDArray[Any]:
    if not _fits(array.shape, declared.shape):
        raise InvalidInput(
            f"input '{name}' has shape {list(array.shape)}, model '{model}' expects {list(declared.shape)}"
        )
    if datatype == declared.datatype:
        return array
    if _family(datatype) != _family(declared.datatype):
        raise InvalidInput(f"input '{name}' has datatype {datatype}, model '{model}' expects {declared.datatype}")
    dtype = DTYPES[declared.datatype]
    with np.errstate(over="ignore"):
        converted = array.astype(dtype)
    # A float that is rounded is one all the same; an integer that does not fit is another number.
    if dtype.kind in "iu" and not np.array_equal(converted, array):
        raise InvalidInput(f"input '{name}' has a number that is out of the range of {declared.datatype}")
    return converted


def _check_outputs(outputs: dict[str, npt.NDArray[Any]], declared: Sequence[TensorSpec]) -> None:
    known = {one.name: one for one in declared}
    for index, (name, array) in enumerate(outputs.items()):
        one = known.get(name)
        if one is None and index < len(declared) and not declared[index].named:
            one = declared[index]
        if one is None:
            raise HandlerError(f"the handler returned an output '{name}', declared are {declared_text(declared)}")
        if not _fits(array.shape, one.shape):
            raise HandlerError(
                f"the handler returned output '{name}' of shape {list(array.shape)}, declared is {list(one.shape)}"
            )
        if array.dtype != DTYPES[one.datatype]:
            raise HandlerError(
                f"the handler returned output '{name}' of {_name_of(array.dtype)}, declared is {one.datatype}"
            )


def as_array(data: Any, datatype: str | None, shape: Sequence[int] | None, name: str, *, repair: bool) -> Any:
    """The array of what a handler gives as an output's data.

    Args:
        data: Numbers, texts, lists of them, or an array of whatever package.
        datatype: The datatype that it is to have; None for that of the data.
        shape: The shape; None for that of the data.
        name: The output's name.
        repair: Whether a shape that does not fit gives way. That of BYTES always does: handlers count characters.

    Raises:
        HandlerError: it is no tensor, or does not have the shape.
    """
    if datatype is not None and datatype not in DTYPES:
        raise HandlerError(f"output '{name}' has datatype {datatype!r}, expected one of {', '.join(DTYPES)}")
    array = _array(data, datatype, name)
    if shape is None or (len(shape) == array.ndim and array.shape == tuple(shape)):
        return array
    if array.size == _size(shape, name):
        return array.reshape(shape)
    if repair or array.dtype == object:
        # As many axes as were said, of which the last has all there is.
        return array.reshape([1] * (max(1, len(shape)) - 1) + [array.size])
    raise HandlerError(f"output '{name}' has {array.size} elements, which do not make the shape {list(shape)}")


def _array(data: Any, datatype: str | None, name: str) -> npt.NDArray[Any]:
    if type(data) is not list and hasattr(data, "detach") and hasattr(data, "cpu"):
        data = data.detach().cpu().numpy()
    try:
        array = np.asarray(data) if datatype != "BYTES" else _bytes(data)
        if datatype is None and array.dtype.kind in "USO":
            array = _bytes(data)
        wanted = array.dtype if datatype is None else DTYPES[datatype]
        if array.dtype == wanted:
            return array
        if wanted.kind in "iu" and array.dtype.kind == "f" and not np.array_equal(array, np.trunc(array)):
            raise HandlerError(f"output '{name}' has fractions, which are no {datatype}")
        if array.dtype.kind not in "biuf":
            raise HandlerError(f"output '{name}' has {array.dtype} where {datatype} is expected")
        converted = array.astype(wanted)
    except HandlerError:
        raise
    except (TypeError, ValueError, OverflowError) as error:
        raise HandlerError(f"output '{name}' is no tensor: {error}") from None
    if wanted.kind in "iu" and not np.array_equal(converted, array):
        raise HandlerError(f"output '{name}' has a number that is out of the range of {datatype}")
    return converted


def _bytes(data: Any) -> npt.NDArray[Any]:
    if isinstance(data, (str, bytes, bytearray)):
        data = [data]
    array = np.array(data, dtype=object)
    flat = [_raw(one) for one in array.ravel().tolist()]
    found = np.empty(len(flat), dtype=object)
    found[:] = flat
    return found.reshape(array.shape)


def _raw(one: Any) -> bytes:
    if isinstance(one, str):
        return one.encode()
    if isinstance(one, (bytes, bytearray)):
        return bytes(one)
    raise TypeError(f"BYTES are str or bytes, not {type(one).__name__}")


def _size(shape: Sequence[int], name: str) -> int:
    size = 1
    for one in shape:
        if isinstance(one, bool) or not isinstance(one, (int, np.integer)) or one < 0:
            raise HandlerError(f"output '{name}' has shape {shape!r}, expected numbers of 0 or more")
        size *= int(one)
    return size


def _fits(shape: tuple[int, ...], declared: tuple[int, ...]) -> bool:
    if shape == declared:
        return True
    if len(shape) != len(declared):
        return False
    # A loop, as every request comes here.
    for size, want in zip(shape, declared, strict=True):  # noqa: SIM110
        if want not in (-1, size):
            return False
    return True


def _family(datatype: str) -> str:
    return {"I": "integers", "U": "integers", "F": "floats"}.get(datatype[0], datatype)


def _name_of(dtype: np.dtype[Any]) -> str:
    return next((name for name, one in DTYPES.items() if one == dtype), str(dtype))
