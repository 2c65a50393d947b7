"""Types of JSON documents, as msgspec describes them: checks at load, and fields that a class does not have."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from itertools import count, repeat
from typing import Any

import msgspec
from msgspec import inspect as mi

from penstock._handler import type_hints
from penstock.errors import SignatureError

__all__ = ["CLOSED", "Finder", "Unknown", "check", "name_of", "unknown_finder"]

Unknown = tuple[list[Any], str, tuple[str, ...]]
"""The path of an object, a field in it that its class does not have, and the fields of the class."""
Finder = Callable[[Any], "Unknown | None"]

_ARRAYS = (mi.CollectionType, mi.TupleType, mi.NamedTupleType)
CLOSED = (mi.DataclassType, mi.TypedDictType)
"""Classes that refuse fields that they do not have."""
_RECORDS = (mi.DataclassType, mi.TypedDictType, mi.NamedTupleType, mi.StructType)


def check(hint: Any, where: str, *, reads: bool) -> dict[Any, mi.Type]:
    """The classes that a hint contains, except pydantic models, with their descriptions.

    Raises:
        SignatureError: it contains a type without a JSON form, or with `reads` one that cannot be built from JSON.
    """
    classes: dict[Any, mi.Type] = {}
    try:
        _check(mi.type_info(hint), where, classes, reads=reads)
        # Other limits of msgspec, such as unions of two dataclasses.
        msgspec.json.Decoder(hint)
    except SignatureError:
        raise
    except NameError as error:
        shown = type_hints.show(hint)
        raise SignatureError(f"{where}: {shown} has an annotation that cannot be resolved: {error}") from None
    except Exception as error:
        raise SignatureError(f"{where} is {type_hints.show(hint)}, which JSON cannot hold: {error}") from None
    return classes


def name_of(cls: Any) -> str:
    """The name of a class, without type arguments."""
    return str(getattr(cls, "__origin__", cls).__name__)


def _check(info: mi.Type, where: str, seen: dict[Any, mi.Type], *, reads: bool) -> None:
    if isinstance(info, mi.CustomType) and info.cls is not object and not hasattr(info.cls, "model_validate"):
        raise SignatureError(
            f"{where} is {type_hints.show(info.cls)}, which JSON cannot hold: use bool, int, float, str, bytes, list, "
            "tuple, dict, Literal, an Enum, datetime, UUID, Decimal, a dataclass, a TypedDict, a NamedTuple, a "
            "msgspec.Struct or a pydantic model"
        )
    if isinstance(info, mi.DictType) and info.key_type not in (mi.AnyType(), mi.StrType()):
        raise SignatureError(f"{where} is a dict with other keys than str: the keys of a JSON object are str")
    if isinstance(info, (*_RECORDS, mi.EnumType)):
        if info.cls in seen:
            return
        seen[info.cls] = info
    if isinstance(info, mi.DataclassType):
        _check_constructor(getattr(info.cls, "__origin__", info.cls), where, reads=reads)
    for member, inside in _members(info):
        _check(member, where + inside, seen, reads=reads)


def _members(info: mi.Type) -> Iterator[tuple[mi.Type, str]]:
    """The types directly inside a type, each with a text for messages."""
    if isinstance(info, _RECORDS):
        yield from ((field.type, f": {name_of(info.cls)}.{field.name}") for field in info.fields)
    elif isinstance(info, mi.UnionType):
        yield from ((member, "") for member in info.types)
    elif isinstance(info, mi.TupleType):
        yield from ((member, "") for member in info.item_types)
    elif isinstance(info, mi.CollectionType):
        yield info.item_type, ""
    elif isinstance(info, mi.DictType):
        yield info.value_type, ""
    elif isinstance(info, mi.Metadata):
        yield info.type, ""


def _check_constructor(cls: Any, where: str, *, reads: bool) -> None:
    shown, remedy = f"{where}: {cls.__name__}", "make it a pydantic model"
    if not hasattr(cls, "__dataclass_fields__"):
        raise SignatureError(f"{shown} is a class of attrs; make it a dataclass")
    # msgspec sets fields and calls `__post_init__`, but not the constructor. A generated one comes from a string.
    constructor = getattr(cls.__init__, "__code__", None)
    if reads and (constructor is None or constructor.co_filename != "<string>"):
        raise SignatureError(f"{shown} has a constructor, which JSON does not call; use __post_init__, or {remedy}")
    for field in cls.__dataclass_fields__.values():
        if field.init:
            continue
        if reads:
            raise SignatureError(
                f"{shown}.{field.name} has init=False, so JSON cannot fill it; use a property, or {remedy}"
            )
        # msgspec writes attributes of the object, and such a default is one of the class.
        if field.default is not dataclasses.MISSING:
            raise SignatureError(
                f"{shown}.{field.name} has init=False and a default, which JSON does not get; leave one"
            )


def unknown_finder(hint: Any) -> Finder | None:
    """A function that finds a field in valid parsed JSON that its dataclass or TypedDict does not have.

    msgspec ignores such fields. None if the hint contains no such class. Structs and pydantic models have rules of
    their own.
    """
    return _finder(mi.type_info(hint), {})


def _finder(info: mi.Type, seen: dict[Any, Finder]) -> Finder | None:
    if isinstance(info, mi.Metadata):
        return _finder(info.type, seen)
    if isinstance(info, mi.UnionType):
        # msgspec allows one type for arrays, and one for objects.
        kinds = {list if isinstance(one, _ARRAYS) else dict: find for one in info.types if (find := _finder(one, seen))}
        return (lambda value: kinds[type(value)](value) if type(value) in kinds else None) if kinds else None
    if isinstance(info, CLOSED):
        return _record_finder(info, seen)
    if isinstance(info, (mi.CollectionType, mi.DictType)):
        find = _finder(info.value_type if isinstance(info, mi.DictType) else info.item_type, seen)
        if find is None:
            return None
        if isinstance(info, mi.DictType):
            return _inside(lambda value: zip(value.keys(), value.values(), repeat(find)))
        return _inside(lambda value: zip(count(), value, repeat(find)))
    if isinstance(info, (mi.TupleType, mi.NamedTupleType)):
        finders = [_finder(member, seen) for member, _ in _members(info)]
        return _inside(lambda value: zip(count(), value, finders)) if any(finders) else None
    return None


def _record_finder(info: mi.DataclassType | mi.TypedDictType, seen: dict[Any, Finder]) -> Finder:
    if info.cls in seen:
        # A class that refers to itself: its finder is not complete yet, so it is looked up at each call.
        return lambda value: seen[info.cls](value)  # noqa: PLW0108
    seen[info.cls] = lambda value: None
    names = tuple(field.encode_name for field in info.fields)
    known = frozenset(names)
    inner = {field.encode_name: one for field in info.fields if (one := _finder(field.type, seen))}
    find_inside = _inside(lambda value: [(name, value[name], one) for name, one in inner.items() if name in value])

    def find(value: Any) -> Unknown | None:
        if value.keys() <= known:
            return find_inside(value) if inner else None
        return [], next(name for name in value if name not in known), names

    seen[info.cls] = find
    return find


def _inside(members: Callable[[Any], Iterable[tuple[Any, Any, Finder | None]]]) -> Finder:
    """A finder for the members of a value: the step to each, the member, and its finder."""

    def find_inside(value: Any) -> Unknown | None:
        for step, member, find in members(value):
            if find is not None and (found := find(member)) is not None:
                found[0].insert(0, step)
                return found
        return None

    return find_inside
