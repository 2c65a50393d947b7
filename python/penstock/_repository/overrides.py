"""Overrides of a model's configuration, in Triton's JSON form.

Batching, queueing, the number of instances and the version policy can be overridden. A client may also send back a
whole configuration that it got: every other key must then have the value that the model has.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from penstock._spec import datatypes
from penstock._spec.batching import Batching
from penstock._spec.definition import Definition
from penstock._spec.tensor import Tensor
from penstock._spec.versions import VersionPolicy
from penstock.errors import InvalidInput

__all__ = ["Overrides"]

_KEYS = "max_batch_size, dynamic_batching, instance_group and version_policy"
_KINDS = ("KIND_AUTO", "KIND_CPU", "KIND_MODEL")
_OWN_PARAMETERS = ("max_queue", "oversize", "hold")
"""Informational parameters of a configuration: accepted, and ignored."""

_QUEUE_POLICY = (("timeout_action", "REJECT"), ("allow_timeout_override", True))
"""Values of a queue policy that hold for every model."""

_UNSET: tuple[Any, ...] = (None, False, 0, "", [], {})


@dataclass(frozen=True, slots=True)
class Overrides:
    """The overrides in a document."""

    values: Mapping[str, Any]
    policy: VersionPolicy | None = None

    @classmethod
    def parse(cls, text: str | None) -> Overrides:
        """Reads a document. None and an empty text override nothing.

        Raises:
            InvalidInput: not a JSON object, or an invalid version policy.
        """
        if text is None or not text.strip():
            return cls({})
        try:
            values = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise InvalidInput(f"the model's configuration is not JSON: {error}") from None
        if not isinstance(values, dict):
            raise InvalidInput("the model's configuration is not a JSON object")
        policy = values.pop("version_policy", None)
        try:
            return cls(values, None if policy is None else VersionPolicy.from_config(policy))
        except ValueError as error:
            raise InvalidInput(f"config 'version_policy': {error}") from None

    def over(self, other: Overrides) -> Overrides:
        """These overrides, and those of the keys that only `other` has."""
        return Overrides({**other.values, **self.values}, self.policy or other.policy)

    def apply(self, definition: Definition) -> Definition:
        """The definition with the overrides applied.

        Raises:
            InvalidInput: a key that cannot be overridden, or an invalid value; the message names the key and
                the expected values.
        """
        for key, change in _CHANGES.items():
            if key in self.values:
                definition = change(definition, self.values[key])
        for key, value in self.values.items():
            if key not in _CHANGES and value not in _UNSET and not _is_unchanged(definition, key, value):
                raise InvalidInput(
                    f"config '{key}' cannot be overridden for model '{definition.name}', expected {_KEYS}"
                )
        return definition


def _max_batch_size(definition: Definition, value: Any) -> Definition:
    size = _integer("max_batch_size", value, 0)
    if definition.batching is None:
        if size > 0:
            raise InvalidInput(
                f"config 'max_batch_size' is {size}, but the inputs of model '{definition.name}' have no batch axis: "
                "expected 0"
            )
        return definition
    if size == 0:
        raise InvalidInput(
            f"config 'max_batch_size' is 0, but the inputs of model '{definition.name}' have a batch axis: "
            "expected 1 or more"
        )
    sizes = [preferred for preferred in definition.batching.preferred_sizes if preferred <= size]
    return _batching(definition, max_size=size, preferred_sizes=sizes)


def _dynamic_batching(definition: Definition, value: Any) -> Definition:
    given = _object("dynamic_batching", value)
    if definition.batching is None:
        raise InvalidInput(
            f"config 'dynamic_batching' cannot be set: the inputs of model '{definition.name}' have no batch axis"
        )
    if definition.iterative is not None:
        raise InvalidInput(
            f"config 'dynamic_batching' cannot be set: model '{definition.name}' computes its rows step by step"
        )
    changes: dict[str, Any] = {"dynamic": True}
    for key, inner in given.items():
        where = f"dynamic_batching.{key}"
        if key == "preferred_batch_size":
            if not isinstance(inner, list):
                raise InvalidInput(f"config '{where}' is {_shown(inner)}, expected a list of sizes")
            changes["preferred_sizes"] = [_integer(where, size, 1) for size in inner]
        elif key == "max_queue_delay_microseconds":
            changes["max_delay"] = _integer(where, inner, 0) / 1e6
        elif key == "default_queue_policy":
            definition = _queue_policy(definition, where, inner)
        elif inner not in _UNSET:
            raise InvalidInput(
                f"config '{where}' cannot be overridden, expected preferred_batch_size, "
                "max_queue_delay_microseconds and default_queue_policy"
            )
    return _batching(definition, **changes)


def _queue_policy(definition: Definition, where: str, value: Any) -> Definition:
    for key, inner in _object(where, value).items():
        if key == "max_queue_size":
            # Zero means the model's own limit in the protocol.
            size = _integer(f"{where}.{key}", inner, 0)
            definition = replace(definition, max_queue=size or definition.max_queue)
        elif inner not in _UNSET and (key, inner) not in _QUEUE_POLICY:
            raise InvalidInput(f"config '{where}.{key}' cannot be overridden, expected max_queue_size")
    return definition


def _instance_group(definition: Definition, value: Any) -> Definition:
    if not isinstance(value, list) or not value:
        raise InvalidInput(f"config 'instance_group' is {_shown(value)}, expected a list of one group or more")
    count = 0
    for index, group in enumerate(value):
        where = f"instance_group[{index}]"
        for key, inner in _object(where, group).items():
            if key == "count":
                count += _integer(f"{where}.count", inner, 1)
            elif key == "kind" and inner not in _KINDS:
                raise InvalidInput(f"config '{where}.kind' is {_shown(inner)}, expected one of {', '.join(_KINDS)}")
            elif key not in ("kind", "name") and inner not in _UNSET:
                raise InvalidInput(f"config '{where}.{key}' cannot be overridden, expected count")
        count += "count" not in group
    if count > 4096:
        raise InvalidInput(f"config 'instance_group' has {count} instances, expected at most 4096")
    return replace(definition, instances=count)


def _batching(definition: Definition, **changes: Any) -> Definition:
    old = definition.batching
    assert old is not None
    values = {name: getattr(old, name) for name in Batching.__slots__} | changes
    try:
        return replace(definition, batching=Batching(values.pop("max_size"), **values))
    except ValueError as error:
        raise InvalidInput(f"config of model '{definition.name}': {error}") from None


_CHANGES: dict[str, Callable[[Definition, Any], Definition]] = {
    # The size comes first: preferred sizes are checked against it.
    "max_batch_size": _max_batch_size,
    "dynamic_batching": _dynamic_batching,
    "instance_group": _instance_group,
}


def _is_unchanged(definition: Definition, key: str, value: Any) -> bool:
    if key in ("name", "platform"):
        return bool(value == getattr(definition, key))
    if key == "backend":
        return value in ("python", "penstock")
    if key in ("input", "output"):
        tensors = definition.inputs if key == "input" else definition.outputs
        return _are_unchanged(value, tensors)
    if key == "parameters":
        return isinstance(value, dict) and value.keys() <= set(_OWN_PARAMETERS)
    if key == "response_cache":
        return bool(value == {"enable": definition.cache is not None})
    return (key, value) == ("model_transaction_policy", {"decoupled": False})


def _are_unchanged(value: Any, tensors: tuple[Tensor, ...]) -> bool:
    if not isinstance(value, list) or len(value) != len(tensors):
        return False
    for given, tensor in zip(value, tensors, strict=True):
        datatype = "STRING" if tensor.datatype == datatypes.BYTES else tensor.datatype
        expected = (tensor.name, f"TYPE_{datatype}", [str(axis) for axis in tensor.shape])
        if not isinstance(given, dict):
            return False
        dims = given.get("dims", [])
        shape = [str(axis) for axis in dims] if isinstance(dims, list) else None
        if (given.get("name"), given.get("data_type"), shape) != expected:
            return False
    return True


def _object(where: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidInput(f"config '{where}' is {_shown(value)}, expected an object")
    return value


def _integer(where: str, value: Any, least: int) -> int:
    # The JSON mapping of protobuf writes integers of 64 bits as strings.
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 19:
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value < 2**31:
        raise InvalidInput(f"config '{where}' is {_shown(value)}, expected an integer of {least} or more")
    return value


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 64 else f"{text[:64]}..."
