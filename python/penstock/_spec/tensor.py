"""`Tensor`: one declared input or output of a model."""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock._spec import datatypes

if TYPE_CHECKING:
    import numpy as np

    from penstock._spec.datatypes import DatatypeLike

__all__ = ["Tensor"]


@dataclass(frozen=True, init=False, slots=True)
class Tensor:
    """One declared input or output.

    Args:
        name: Name on the wire. Optional inside `Annotated`, where it defaults to the parameter's name.
        datatype: A numpy dtype or scalar type, `bool`, `int` (INT64), `float` (FP64), `bytes` or
            `str` (both BYTES on the wire), or a wire name such as "BF16". `"BF16"` arrives as a
            float32 array, `ml_dtypes.bfloat16` as an array of that type.
        shape: Sizes of the axes without the batch axis; -1 is variable, `()` is one element.
        optional: Whether it may be absent. For an absent input the handler gets None or the parameter's default. A
            handler leaves out an output by returning None for it, or a dict without it.
        labels: Names of the elements of a row, for classification requests: a list, or the path of a UTF-8 text file
            with one in each line. For outputs of integers, FP32 or FP64 only.
        ragged: Whether rows of different lengths (sizes of the first axis, which is -1) share a batch. The handler
            gets a `Ragged` with the concatenated rows, and may return one, or a list, for an output.
        pad: Padding value of an input whose rows are padded to the longest of the batch. The handler gets a
            `Padded`.

    Raises:
        ValueError: an invalid datatype, shape, name, labels or pad.
        OSError: the file of labels cannot be read.

    Example:
        >>> Tensor("image", np.uint8, [-1, -1, 3])
        Tensor('image', 'UINT8', [-1, -1, 3])
    """

    name: str
    """Name on the wire; empty inside `Annotated`, before the parameter's name is set."""
    datatype: str
    """Wire name of the datatype, for example "FP32"."""
    shape: tuple[int, ...]
    """Sizes of the axes without the batch axis; -1 is variable."""
    optional: bool
    """True if a request may leave it out."""
    dtype: np.dtype[Any] | None
    """The dtype of the arrays that a handler gets; None for BYTES (object arrays)."""
    text: bool
    """True if the elements of a BYTES array are `str` instead of `bytes`."""
    labels: tuple[str, ...]
    """Names of the elements of a row; empty for none."""
    document: bool
    """True if its elements are JSON documents, which are JSON in plain requests and in the V1 protocol too."""
    media_type: str | None
    """Media type of its BYTES elements, as `image/png`; None if it is not known."""
    ragged: bool
    """True if rows of different lengths are concatenated in a batch."""
    pad: float | str | bytes | None
    """Padding value of rows of different lengths; None without padding."""

    def __init__(
        self,
        name: str | None = None,
        datatype: DatatypeLike | None = None,
        shape: Iterable[int] = (),
        *,
        optional: bool = False,
        labels: Iterable[str] | os.PathLike[str] | None = None,
        ragged: bool = False,
        pad: float | str | bytes | None = None,
    ) -> None:
        shown = "a Tensor" if name is None else f"tensor {name!r}"
        if name is not None and not (isinstance(name, str) and name and name.isprintable()):
            raise ValueError(f"{shown}: its name must be printable text of at least one character")
        if datatype is None:
            raise ValueError(f"{shown} needs a datatype, for example np.float32")
        try:
            parsed = datatypes.parse(datatype)
            axes = _axes(shape)
            names = _labels(labels, parsed.name, axes)
            _check_ragged(parsed, axes, ragged=ragged, pad=pad)
        except ValueError as error:
            raise ValueError(f"{shown}: {error}") from None
        values: tuple[object, ...] = (
            name or "",
            parsed.name,
            axes,
            bool(optional),
            parsed.dtype,
            parsed.text,
            names,
            False,
            None,
        )
        values += (bool(ragged), pad)
        for field, value in zip(self.__slots__, values, strict=True):
            object.__setattr__(self, field, value)

    def named(self, name: str) -> Tensor:
        """The tensor with this name, if it has none yet."""
        return self if self.name else self._with(name=name)

    def as_optional(self) -> Tensor:
        """The tensor as an optional one."""
        return self if self.optional else self._with(optional=True)

    @property
    def pad_bytes(self) -> bytes | None:
        """The padding value as bytes of one element."""
        if self.pad is None:
            return None
        return datatypes.element(self.pad, datatypes.Datatype(self.datatype, self.dtype, self.text))

    def as_document(self) -> Tensor:
        """The tensor as JSON documents in BYTES elements."""
        return self._with(document=True)

    def of_media_type(self, media_type: str) -> Tensor:
        """The tensor with a media type of its BYTES elements."""
        return self._with(media_type=media_type)

    def wire_shape(self, *, batched: bool) -> list[int]:
        """The shape in metadata: with a leading -1 if the model has batching."""
        return [-1, *self.shape] if batched else list(self.shape)

    def _with(self, **changes: object) -> Tensor:
        copy = object.__new__(Tensor)
        for field in self.__slots__:
            object.__setattr__(copy, field, changes.get(field, getattr(self, field)))
        return copy

    def __repr__(self) -> str:
        datatype = "str" if self.text else repr(self.datatype)
        optional = ", optional=True" if self.optional else ""
        labels = f", labels={list(self.labels)}" if self.labels else ""
        lengths = ", ragged=True" if self.ragged else "" if self.pad is None else f", pad={self.pad!r}"
        return f"Tensor({self.name!r}, {datatype}, {list(self.shape)}{optional}{labels}{lengths})"

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, tuple(getattr(self, field) for field in self.__slots__)


def _rebuild(*values: object) -> Tensor:
    tensor = object.__new__(Tensor)
    for field, value in zip(Tensor.__slots__, values, strict=True):
        object.__setattr__(tensor, field, value)
    return tensor


def _axes(shape: Iterable[int]) -> tuple[int, ...]:
    problem = f"shape {shape!r} must be a list of sizes of 0 or more, or -1 for a variable axis"
    if isinstance(shape, (str, bytes)):
        raise ValueError(problem)
    try:
        axes = tuple(operator.index(axis) for axis in shape)
    except TypeError:
        raise ValueError(problem) from None
    if any(axis < -1 for axis in axes):
        raise ValueError(problem)
    return axes


def _check_ragged(datatype: datatypes.Datatype, axes: tuple[int, ...], *, ragged: bool, pad: object) -> None:
    if not ragged and pad is None:
        return
    if ragged and pad is not None:
        raise ValueError("its rows are either ragged=True, one behind another, or filled up with pad=, not both")
    if not axes or axes[0] != -1:
        raise ValueError(f"rows of different lengths need -1 as their first axis, not shape {list(axes)}")
    if pad is not None:
        datatypes.element(pad, datatype)


_RANKED = (*(f"{sign}INT{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)), "FP32", "FP64")


def _labels(labels: Iterable[str] | os.PathLike[str] | None, datatype: str, axes: tuple[int, ...]) -> tuple[str, ...]:
    if labels is None:
        return ()
    if isinstance(labels, (str, os.PathLike)):
        labels = Path(labels).read_text(encoding="utf-8").splitlines()
    if not isinstance(labels, Iterable):
        raise ValueError(f"labels must be a list of texts or a file's path, not {type(labels).__name__}")
    names = tuple(labels)
    for index, name in enumerate(names):
        if not (isinstance(name, str) and name.isprintable()):
            raise ValueError(f"labels[{index}] must be printable text, not {name!r}")
    if datatype not in _RANKED:
        raise ValueError(f"labels are for classification, which takes integers, FP32 or FP64, not {datatype}")
    if -1 not in axes and len(names) > math.prod(axes):
        raise ValueError(f"it has {len(names)} labels and {math.prod(axes)} elements")
    return names
