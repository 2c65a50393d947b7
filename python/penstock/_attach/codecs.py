"""JSON codecs of the types that a model definition consists of: one table, by type."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from types import NoneType
from typing import Any, NamedTuple, get_args

from penstock._model.options import buckets_of, checked_name
from penstock._spec.batching import Batching
from penstock._spec.caching import Cache
from penstock._spec.cost import Cost
from penstock._spec.definition import Document
from penstock._spec.fallback import Fallback
from penstock._spec.resources import Resources
from penstock._spec.scheduling import Level, Queueing, Sequences
from penstock._spec.tensor import Tensor

__all__ = ["Codec", "codec_of"]


class Codec(NamedTuple):
    """Conversion of one type to JSON values and back.

    `from_json` raises TypeError, ValueError, KeyError or a StartupError for a value that it does not accept.
    """

    to_json: Callable[[Any], Any]
    from_json: Callable[[Any], Any]


def codec_of(hint: object) -> Codec:
    """The codec of a field's type. An optional type becomes null for None.

    Raises:
        LookupError: no codec for the type.
    """
    members = get_args(hint)
    if NoneType not in members:
        return _CODECS[hint]
    (inner,) = (member for member in members if member is not NoneType)
    codec = codec_of(inner)
    return Codec(
        lambda value: None if value is None else codec.to_json(value),
        lambda value: None if value is None else codec.from_json(value),
    )


def _unchanged(value: Any) -> Any:
    return value


def _read_flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"got {value!r}, expected true or false")
    return value


def _read_names(value: object) -> dict[str, str]:
    if not isinstance(value, dict):
        raise TypeError(f"got {value!r}, expected texts by name")
    return {_read_text(name): _read_text(text) for name, text in value.items()}


def _read_count(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"got {value!r}, expected an integer of 1 or more")
    return value


def _read_text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"got {value!r}, expected text")
    return value


def _read_texts(value: Sequence[object]) -> tuple[str, ...]:
    return tuple(map(_read_text, value))


def _write_bytes(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _read_bytes(value: object) -> bytes:
    return base64.b64decode(_read_text(value), validate=True)


def _write_tensor(tensor: Tensor) -> dict[str, Any]:
    pad = tensor.pad
    return {
        "name": tensor.name,
        "datatype": tensor.datatype,
        "text": tensor.text,
        "shape": list(tensor.shape),
        "optional": tensor.optional,
        "labels": list(tensor.labels),
        "document": tensor.document,
        "media_type": tensor.media_type,
        "ragged": tensor.ragged,
        "pad": {"base64": _write_bytes(pad)} if isinstance(pad, bytes) else pad,
    }


def _read_tensor(value: dict[str, Any]) -> Tensor:
    pad = value["pad"]
    tensor = Tensor(
        _read_text(value["name"]),
        str if _read_flag(value["text"]) else value["datatype"],
        value["shape"],
        optional=_read_flag(value["optional"]),
        labels=list(_read_texts(value["labels"])) or None,
        ragged=_read_flag(value["ragged"]),
        pad=_read_bytes(pad["base64"]) if isinstance(pad, dict) else pad,
    )
    if value["media_type"] is not None:
        tensor = tensor.of_media_type(_read_text(value["media_type"]))
    return tensor.as_document() if _read_flag(value["document"]) else tensor


def _write_documents(documents: Mapping[str, Document]) -> dict[str, list[str | None]]:
    return {name: [document.schema, document.example] for name, document in documents.items()}


def _read_documents(value: dict[str, Any]) -> dict[str, Document]:
    return {
        name: Document(_read_text(schema), None if example is None else _read_text(example))
        for name, (schema, example) in value.items()
    }


def _write_buckets(buckets: Sequence[tuple[str, list[float]]]) -> list[Any]:
    return [[name, list(bounds)] for name, bounds in buckets]


def _read_buckets(value: Any) -> tuple[tuple[str, list[float]], ...]:
    return buckets_of(dict(value), "attached model")


# Except for those that are excluded here, each attribute is an argument of the same name.
_BATCHING = tuple(name for name in Batching.__slots__ if name != "cost")
_QUEUEING = tuple(name for name in Queueing.__slots__ if name != "policies")


def _write_batching(batching: Batching) -> dict[str, Any]:
    options = {name: getattr(batching, name) for name in _BATCHING}
    options["cost"] = None if batching.cost is None else [[times, axes] for times, axes in batching.cost.terms]
    return options


def _read_batching(value: dict[str, Any]) -> Batching:
    options = {name: value[name] for name in _BATCHING}
    terms = value["cost"]
    if terms is not None:
        options["cost"] = Cost(
            {tuple((str(name), int(axis)) for name, axis in axes): int(times) for times, axes in terms}
        )
    return Batching(**options)


def _write_queueing(queueing: Queueing) -> dict[str, Any]:
    options = {name: getattr(queueing, name) for name in _QUEUEING}
    options["levels"] = [[level.max_size, level.timeout, level.on_timeout] for level in queueing.policies]
    return options


def _read_queueing(value: dict[str, Any]) -> Queueing:
    levels = {
        number: Level(max_size=size, timeout=timeout, on_timeout=on_timeout)
        for number, (size, timeout, on_timeout) in enumerate(value["levels"], 1)
    }
    return Queueing(**{name: value[name] for name in _QUEUEING}, levels=levels)


def _write_resources(resources: Resources) -> dict[str, Any]:
    return {"amounts": dict(resources.amounts), "weight": resources.weight}


def _write_fallback(fallback: Fallback) -> list[Any]:
    return [fallback.model, fallback.after, list(map(_write_bytes, fallback.match_body))]


def _read_fallback(value: Any) -> Fallback:
    if not isinstance(value, list) or len(value) != 3:
        raise TypeError(f"got {value!r}, expected [model, after, match_body]")
    name, after, match_body = value
    checked_name("the fallback's name", _read_text(name).removeprefix(":"))
    return Fallback(name, after, tuple(map(_read_bytes, match_body)))


def _record(kind: Any) -> Codec:
    """The codec of a class whose attributes are its arguments, all of JSON types."""
    return Codec(
        lambda record: {name: getattr(record, name) for name in kind.__slots__},
        lambda value: kind(**value),
    )


_CODECS: dict[object, Codec] = {
    bool: Codec(_unchanged, _read_flag),
    int: Codec(_unchanged, _read_count),
    str: Codec(_unchanged, _read_text),
    tuple[str, ...]: Codec(list, _read_texts),
    tuple[Tensor, ...]: Codec(
        lambda tensors: list(map(_write_tensor, tensors)), lambda value: tuple(map(_read_tensor, value))
    ),
    Mapping[str, str]: Codec(dict, _read_names),
    Mapping[str, Document]: Codec(_write_documents, _read_documents),
    Sequence[tuple[str, list[float]]]: Codec(_write_buckets, _read_buckets),
    Batching: Codec(_write_batching, _read_batching),
    Queueing: Codec(_write_queueing, _read_queueing),
    Resources: Codec(_write_resources, lambda value: Resources(**value)),
    Sequences: _record(Sequences),
    Cache: _record(Cache),
    Fallback: Codec(_write_fallback, _read_fallback),
}
