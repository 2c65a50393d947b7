"""Tensors of annotations: the tensor and the adapter of a parameter's or a return value's hint."""

from __future__ import annotations

import inspect
import typing
from typing import Any

import numpy as np

from penstock._handler import type_hints
from penstock._handler.adapters import SCALARS, Adapter, filled_array, list_adapter, scalar_adapter
from penstock._handler.library_adapters import library_adapter
from penstock._handler.parameters import BoundTensor
from penstock._handler.row_adapters import row_adapter
from penstock._handler.torch_adapter import is_torch, torch_adapter
from penstock._spec.definition import Document
from penstock._spec.tensor import Tensor
from penstock.errors import SignatureError

__all__ = ["parameter_tensor", "return_tensors"]

_MISSING = inspect.Parameter.empty


def parameter_tensor(parameter: inspect.Parameter, hints: dict[str, Any], where: str, *, batched: bool) -> BoundTensor:
    where = f"{where}: parameter {parameter.name!r}"
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        raise SignatureError(f"{where} stands for any number of inputs; declare them with inputs=")
    if parameter.name not in hints:
        more = "; decorate the class instead of its method" if parameter.name == "self" else ""
        raise SignatureError(f"{where} has no annotation; annotate it, or declare inputs={more}")
    hint, nullable = type_hints.without_none(hints[parameter.name])
    bound = _bound_tensor(hint, parameter.name, where, batched=batched, reads=True)
    default = None if parameter.default is _MISSING else parameter.default
    if nullable or parameter.default is not _MISSING or bound.tensor.optional:
        return BoundTensor(bound.tensor.as_optional(), bound.adapter, default, bound.hint)
    return bound


def return_tensors(hints: dict[str, Any], where: str, *, batched: bool, streams: bool) -> list[BoundTensor]:
    if "return" not in hints:
        raise SignatureError(f"{where}: the handler does not declare what it returns; annotate it, or declare outputs=")
    hint = type_hints.item(hints["return"]) if streams else hints["return"]
    if hint is type_hints.UNKNOWN:
        raise SignatureError(
            f"{where}: the handler yields, and its annotation does not declare what; write Iterator[...] or "
            "AsyncIterator[...], or declare outputs="
        )
    if hint is type(None) or hint is None:
        return []
    where = f"{where}: the return value"
    if typing.get_origin(hint) is tuple or hint is tuple:
        members = typing.get_args(hint)
        if not members or Ellipsis in members:
            raise SignatureError(f"{where} is a tuple of unknown length; write each member, as in tuple[int, str]")
        return [
            _bound_tensor(member, f"output_{index}", f"{where}, member {index}", batched=batched, reads=False)
            for index, member in enumerate(members)
        ]
    return [_bound_tensor(hint, "output", where, batched=batched, reads=False)]


def _bound_tensor(hint: Any, name: str, where: str, *, batched: bool, reads: bool) -> BoundTensor:
    hint = type_hints.unaliased(hint)
    bare, tensor = type_hints.split_annotated(hint, where)
    bare = type_hints.unaliased(bare)
    if tensor is not None:
        return BoundTensor(tensor.named(name), torch_adapter(tensor, where) if is_torch(bare) else None)
    if type_hints.is_array(bare) or is_torch(bare):
        kind = "torch.Tensor" if is_torch(bare) else "np.ndarray"
        raise SignatureError(
            f"{where} is an array of unknown datatype and shape; "
            f"write Annotated[{kind}, Tensor(datatype=np.float32, shape=[-1])]"
        )
    if batched and (rows := _row_adapter(bare, where, reads=reads)) is not None:
        return BoundTensor(rows.tensor.named(name), rows, hint=type_hints.show_short(bare))
    value_adapter = _adapter(bare, where, reads=reads, document=hint)
    if value_adapter is None:
        raise SignatureError(
            f"{where} is {type_hints.show(bare)}, which is not a tensor; use Annotated[np.ndarray, Tensor(...)], "
            "bool, int, float, str, bytes, list[...] of these, dict, a dataclass, a TypedDict, a msgspec.Struct or a "
            "pydantic model"
        )
    if batched:
        raise SignatureError(
            f"{where} is {type_hints.show(bare)}, one value per request, and batching= needs one row per "
            f"request; write list[{type_hints.show(bare)}] for a list of rows, or Annotated[np.ndarray, "
            f"Tensor(datatype={type_hints.datatype_text(value_adapter.tensor)}, "
            f"shape={list(value_adapter.tensor.shape)})], or leave batching= out"
        )
    return BoundTensor(value_adapter.tensor.named(name), value_adapter, hint=type_hints.show_short(bare))


def _row_adapter(hint: Any, where: str, *, reads: bool) -> Adapter | None:
    """The adapter of a batched `list[X]`, one X per row; None for any other hint."""
    if typing.get_origin(hint) not in type_hints.LISTS or not typing.get_args(hint):
        return None
    item = type_hints.unaliased(typing.get_args(hint)[0])
    bare, tensor = type_hints.split_annotated(item, where)
    if tensor is not None:
        return None
    element = _adapter(type_hints.unaliased(bare), where, reads=reads, document=item)
    if element is None or element.tensor.shape:
        # Rows of lists: each row is one JSON document.
        return None
    return row_adapter(element, type_hints.show(hint))


def _adapter(hint: Any, where: str, *, reads: bool, document: Any) -> Adapter | None:
    """The adapter of a hint; None for a hint that no rule covers.

    Args:
        hint: The hint, without `Annotated`.
        where: Prefix of messages.
        reads: Whether it is the hint of an input.
        document: The hint as it was, whose metadata may bound a JSON document.

    Raises:
        SignatureError: a hint of a JSON document that contains a type without a JSON form.
    """
    if hint in SCALARS:
        return scalar_adapter(hint)
    if typing.get_origin(hint) is list and (item := typing.get_args(hint)[0]) in SCALARS:
        return list_adapter(item)
    if (found := library_adapter(hint)) is not None:
        return found
    # A document can be `null`, so an output may be None too.
    return _document(document, where, reads=reads) if type_hints.is_document(type_hints.without_none(hint)[0]) else None


def _document(hint: Any, where: str, *, reads: bool) -> Adapter:
    # Only such handlers need msgspec, whose import takes a while.
    from penstock._handler.json_codec import compile_codec

    codec = compile_codec(hint, where, reads=reads)
    tensor = Tensor(datatype=bytes).as_document()

    def to_array(value: Any, name: str) -> np.ndarray[Any, Any]:
        return filled_array(codec.encode(value, name), tensor, (), name)

    def to_python(array: np.ndarray[Any, Any], name: str) -> Any:
        return codec.decode(array.item(), name)

    return Adapter(tensor, to_python, to_array, Document(codec.schema, codec.example))
