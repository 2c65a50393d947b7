"""A model's definition without its code, as JSON: what a server must know of a model that runs elsewhere.

It is read back by the same classes that users write, so that nothing gets in that they refuse.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock._attach.options_json import batching_of, batching_read, cache_of, queueing_of, queueing_read
from penstock._model.checks import check_batching
from penstock._model.options import buckets_of, check_cache, check_sequences, checked_count, checked_name
from penstock._spec.caching import Cache
from penstock._spec.definition import Definition, Document
from penstock._spec.fallback import Fallback
from penstock._spec.resources import Resources
from penstock._spec.scheduling import Sequences
from penstock._spec.tensor import Tensor
from penstock.errors import InvalidInput, StartupError

if TYPE_CHECKING:
    from penstock._spec.placement import Channels
    from penstock._spec.warmup import Warmup

__all__ = ["described", "read"]


@dataclass(frozen=True, slots=True)
class _Samples:
    """What a `Warmup` gives, made by the process that knows how."""

    samples: Sequence[tuple[str, bytes, int]]

    def requests(self, _definition: Definition) -> Iterator[tuple[str, bytes, int]]:
        return iter(self.samples)


def described(definition: Definition, parts: list[bytes]) -> dict[str, Any]:
    """A definition as JSON. Samples for the warm-up are added to the parts of the message."""
    samples = []
    if definition.warmup is not None:
        before = None
        for what, body, length in definition.warmup.requests(definition):
            # A sample that is repeated is sent once.
            if body is not before:
                parts.append(body)
            before = body
            samples.append([what, len(parts) - 1, length])
    found = {
        "name": definition.name,
        "version": definition.version,
        "platform": definition.platform,
        "description": definition.description,
        "inputs": [_tensor(one) for one in definition.inputs],
        "outputs": [_tensor(one) for one in definition.outputs],
        "input_documents": _documents(definition.input_documents),
        "output_documents": _documents(definition.output_documents),
        "batching": batching_of(definition.batching),
        "instances": definition.instances,
        "max_queue": definition.max_queue,
        "wants_context": definition.wants_context,
        "streams": definition.streams,
        "any_shape": definition.any_shape,
        "open": definition.open,
        "lenient": definition.lenient,
        "routes": list(definition.routes),
        "fallback": _fallback(definition.fallback),
        "queueing": queueing_of(definition.queueing),
        "cache": cache_of(definition.cache),
        "buckets": [[name, list(bounds)] for name, bounds in definition.buckets],
        "samples": samples if definition.warmup is not None else None,
    }
    if (needs := definition.resources) is not None:
        found["resources"] = {"amounts": dict(needs.amounts), "weight": needs.weight}
    if (kept := definition.sequences) is not None:
        found["sequences"] = {"idle_timeout": kept.idle_timeout, "max_active": kept.max_active}
    return found


def read(found: object, parts: Sequence[bytes], channels: Channels) -> Definition:
    """The definition that is described, whose instances are at the other ends of the channels.

    Raises:
        InvalidInput: it describes no model.
    """
    try:
        if not isinstance(found, dict):
            raise TypeError("it is no object")
        return _read(found, parts, channels)
    except (TypeError, ValueError, KeyError, IndexError, AttributeError, StartupError) as error:
        what = f"{type(error).__name__}: {error}" if isinstance(error, (KeyError, IndexError)) else str(error)
        raise InvalidInput(f"a model is described that is none: {what}") from None


def _read(found: dict[str, Any], parts: Sequence[bytes], channels: Channels) -> Definition:
    name = checked_name("name", found["name"])
    where = f"model {name!r}"
    inputs = tuple(_tensor_read(one) for one in found["inputs"])
    outputs = tuple(_tensor_read(one) for one in found["outputs"])
    for tensors in (inputs, outputs):
        if len({one.name for one in tensors}) < len(tensors):
            raise ValueError(f"{where}: two tensors have one name")
    batching, queueing = batching_read(found["batching"]), queueing_read(found["queueing"])
    streams, context = _flag(found["streams"]), _flag(found["wants_context"])
    sequences = Sequences(**found["sequences"]) if found.get("sequences") else None
    cache = Cache(**found["cache"]) if found["cache"] else None
    check_batching(batching, (inputs, outputs), where, streams=streams, processes=True)
    check_cache(cache, streams=streams, sequences=sequences is not None, where=where)
    check_sequences(sequences, queueing, context=context, where=where)
    return Definition(
        name=name,
        version=checked_name("version", found["version"], where),
        platform=_text(found["platform"]),
        inputs=inputs,
        outputs=outputs,
        batching=batching,
        instances=checked_count(found["instances"], f"{where}: instances"),
        max_queue=checked_count(found["max_queue"], f"{where}: max_queue"),
        wants_context=context,
        streams=streams,
        any_shape=_flag(found["any_shape"]),
        open=_flag(found["open"]),
        lenient=_flag(found.get("lenient", False)),
        routes=tuple(map(_text, found["routes"])),
        fallback=_fallback_read(found.get("fallback")),
        factory=_nothing_to_build,
        description=_text(found["description"]),
        input_documents=_documents_read(found["input_documents"]),
        output_documents=_documents_read(found["output_documents"]),
        queueing=queueing,
        resources=Resources(**found["resources"]) if found.get("resources") else None,
        sequences=sequences,
        cache=cache,
        warmup=_samples(found["samples"], parts),
        processes=channels,
        buckets=buckets_of(dict(found["buckets"]), where),
    )


def _nothing_to_build() -> Any:
    raise StartupError("the instances of an attached model are built by the process that attaches it")


def _tensor(tensor: Tensor) -> dict[str, Any]:
    pad = tensor.pad
    return {
        "name": tensor.name,
        "datatype": tensor.datatype,
        "text": tensor.text,
        "shape": list(tensor.shape),
        "optional": tensor.optional,
        "labels": list(tensor.labels),
        "document": tensor.document,
        "ragged": tensor.ragged,
        "pad": {"base64": base64.b64encode(pad).decode()} if isinstance(pad, bytes) else pad,
    }


def _tensor_read(found: dict[str, Any]) -> Tensor:
    pad = found["pad"]
    tensor = Tensor(
        _text(found["name"]),
        str if _flag(found["text"]) else found["datatype"],
        found["shape"],
        optional=_flag(found["optional"]),
        labels=list(map(_text, found["labels"])) or None,
        ragged=_flag(found["ragged"]),
        pad=base64.b64decode(pad["base64"], validate=True) if isinstance(pad, dict) else pad,
    )
    return tensor.made_document() if _flag(found["document"]) else tensor


def _documents(documents: Mapping[str, Document]) -> dict[str, list[str | None]]:
    return {name: [one.schema, one.example] for name, one in documents.items()}


def _documents_read(found: dict[str, Any]) -> dict[str, Document]:
    return {
        name: Document(_text(schema), None if example is None else _text(example))
        for name, (schema, example) in found.items()
    }


def _samples(found: list[Any] | None, parts: Sequence[bytes]) -> Warmup | None:
    if found is None:
        return None
    samples: Any = _Samples([(_text(what), parts[place], int(length)) for what, place, length in found])
    made: Warmup = samples
    return made


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _fallback(fallback: Fallback | None) -> list[Any] | None:
    if fallback is None:
        return None
    return [fallback.model, fallback.after, [base64.b64encode(one).decode() for one in fallback.marks]]


def _fallback_read(value: object) -> Fallback | None:
    if value is None:
        return None
    if not isinstance(value, list) or len(value) != 3:
        raise TypeError(f"{value!r} is no fallback")
    name, after, marks = value
    checked_name("the fallback's name", _text(name).removeprefix(":"))
    return Fallback(name, after, tuple(base64.b64decode(_text(one), validate=True) for one in marks))


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{value!r} is neither true nor false")
    return value
