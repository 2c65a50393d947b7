"""A model definition as JSON, without its code: what a server needs to know of a model that runs in another process.

Reading constructs the same classes that users write, so it accepts only what they accept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, get_type_hints

from penstock._attach.codecs import Codec, codec_of
from penstock._model.checks import check_batching
from penstock._model.options import check_cache, check_sequences, checked_name
from penstock._spec.definition import Definition
from penstock.errors import InvalidInput, StartupError

if TYPE_CHECKING:
    from penstock._spec.placement import Channels

__all__ = ["from_json", "to_json"]

_NOT_SENT = frozenset(
    {
        "calls",
        "concurrency",
        "explainer",
        "factory",
        "iterative",
        "opaque",
        "processes",
        "stall_timeout",
        "version_policy",
        "warmup",
    }
)
"""Fields that concern one side only; `iterative`, which is not attached; and `warmup`, which is sent as samples."""


def _field_codecs() -> dict[str, Codec]:
    hints = get_type_hints(Definition)
    return {field.name: codec_of(hints[field.name]) for field in fields(Definition) if field.name not in _NOT_SENT}


_CODECS = _field_codecs()


@dataclass(frozen=True, slots=True)
class _Samples:
    """Warm-up requests that the attaching process has encoded."""

    samples: Sequence[tuple[str, bytes, int]]

    def requests(self, _definition: Definition) -> Iterator[tuple[str, bytes, int]]:
        return iter(self.samples)


def to_json(definition: Definition, parts: list[bytes]) -> dict[str, Any]:
    """A definition as JSON values. Warm-up samples are appended to `parts`, the binary parts of the message."""
    description = {name: codec.to_json(getattr(definition, name)) for name, codec in _CODECS.items()}
    description["samples"] = None if definition.warmup is None else _write_samples(definition, parts)
    return description


def from_json(description: object, parts: Sequence[bytes], channels: Channels) -> Definition:
    """The definition that JSON values describe; its instances are at the other ends of `channels`.

    Raises:
        InvalidInput: not a valid description of a model.
    """
    try:
        if not isinstance(description, dict):
            raise TypeError(f"got {type(description).__name__}, expected an object")
        return _read(description, parts, channels)
    except (TypeError, ValueError, KeyError, IndexError, AttributeError, StartupError) as error:
        problem = f"{type(error).__name__}: {error}" if isinstance(error, (KeyError, IndexError)) else str(error)
        raise InvalidInput(f"invalid model description: {problem}") from None


def _read(description: dict[str, Any], parts: Sequence[bytes], channels: Channels) -> Definition:
    definition = Definition(
        **{name: _read_field(name, codec, description) for name, codec in _CODECS.items()},
        factory=_unbuildable,
        processes=channels,
        warmup=_read_samples(description["samples"], parts),
    )
    where = f"model {checked_name('name', definition.name)!r}"
    checked_name("version", definition.version, where)
    inputs, outputs = definition.inputs, definition.outputs
    for tensors in (inputs, outputs):
        if len({tensor.name for tensor in tensors}) < len(tensors):
            raise ValueError(f"{where}: two tensors have one name")
    streams, sequences = definition.streams, definition.sequences
    check_batching(definition.batching, (inputs, outputs), where, streams=streams, processes=True)
    check_cache(definition.cache, streams=streams, sequences=sequences is not None, where=where)
    check_sequences(sequences, definition.queueing, context=definition.wants_context, where=where)
    return definition


def _read_field(name: str, codec: Codec, description: dict[str, Any]) -> Any:
    value = description[name]
    try:
        return codec.from_json(value)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}: {error}") from None


def _unbuildable() -> Any:
    raise StartupError("the instances of an attached model are built by the process that attaches it")


def _write_samples(definition: Definition, parts: list[bytes]) -> list[list[Any]]:
    samples = []
    previous = None
    assert definition.warmup is not None
    for label, body, length in definition.warmup.requests(definition):
        # A repeated sample is sent once.
        if body is not previous:
            parts.append(body)
        previous = body
        samples.append([label, len(parts) - 1, length])
    return samples


def _read_samples(value: list[Any] | None, parts: Sequence[bytes]) -> _Samples | None:
    if value is None:
        return None
    return _Samples([(str(label), parts[part], int(length)) for label, part, length in value])
