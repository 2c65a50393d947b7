"""Settings of models: their options that decide how they run, with the values in effect and the origins."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, NamedTuple

from penstock._config.report import Row, to_json
from penstock._config.value_text import SET
from penstock._model.model import Model, model
from penstock._model.pipeline import Pipeline
from penstock._spec.definition import Definition
from penstock._spec.instances import Threads
from penstock._spec.warmup import Warmup

__all__ = ["ModelSettings", "described", "settings_of"]

SETTINGS = (
    "batching",
    "instances",
    "max_concurrency",
    "max_queue",
    "stall_timeout",
    "queueing",
    "sequences",
    "resources",
    "cache",
    "warmup",
    "buckets",
    "calls",
    "check_shapes",
    "fallback",
)
"""Options of a model that are settings; the others describe what it serves."""

_OF_PIPELINES = ("max_concurrency", "max_queue")
_OTHER_NAMES = {"policies": "levels"}
"""Fields of records by the names that users give."""


class ModelSettings(NamedTuple):
    """A model with its settings."""

    name: str
    version: str
    rows: list[Row]


def described(models: Iterable[ModelSettings]) -> list[dict[str, Any]]:
    """Models with their settings, as JSON."""
    return [{"name": one.name, "version": one.version, "settings": to_json(one.rows)} for one in models]


def settings_of(target: Any, integration: str | None) -> ModelSettings:
    """The settings of a model, pipeline, definition, or of a plain function or class.

    Args:
        target: What is served.
        integration: The integration that declared it; None for Python code with its arguments.
    """
    if isinstance(target, Pipeline):
        return _of_pipeline(target, integration)
    if isinstance(target, Definition):
        return _of_definition(target, integration)
    if not isinstance(target, (Model, type)) and callable(getattr(target, "definition", None)):
        return _of_definition(target.definition(), integration)
    served = target if isinstance(target, Model) else model(target)
    rows = []
    for name in SETTINGS:
        is_given = served._options.get(name) is not None
        rows.append(_row(name, _value(served, name), _origin("model", name, integration), is_given=is_given))
    return ModelSettings(served.name, served.version, rows)


def _value(served: Model[..., Any], name: str) -> Any:
    if name == "instances":
        return served.processes or (Threads(served.instances, inline=True) if served.inline else served.instances)
    if name == "batching":
        return served.iterative or served.batching
    if name == "check_shapes":
        return served._options.get("check_shapes", True)
    if name == "buckets":
        return dict(served._buckets)
    return getattr(served, f"_{name}" if name in ("warmup", "fallback", "stall_timeout") else name)


def _of_pipeline(pipeline: Pipeline, integration: str | None) -> ModelSettings:
    """A value that equals the default counts as default."""
    defaults = inspect.signature(Pipeline).parameters
    rows = []
    for name in _OF_PIPELINES:
        value = getattr(pipeline, name)
        origin = _origin("Pipeline", name, integration)
        rows.append(_row(name, value, origin, is_given=value != defaults[name].default))
    return ModelSettings(pipeline.name, pipeline.version, rows)


def _of_definition(definition: Definition, integration: str | None) -> ModelSettings:
    origin = f"integration {integration}" if integration else "definition"
    values = {name: getattr(definition, "concurrency" if name == "max_concurrency" else name) for name in SETTINGS}
    values["buckets"] = dict(definition.buckets)
    values["batching"] = definition.iterative or definition.batching
    rows = [_row(name, value, origin, is_given=True) for name, value in values.items() if name != "warmup"]
    return ModelSettings(definition.name, definition.version, rows)


def _origin(function: str, name: str, integration: str | None) -> str:
    return f"integration {integration}" if integration else f"argument {function}({name}=)"


def _row(name: str, value: Any, origin: str, *, is_given: bool) -> Row:
    text = "any" if name == "calls" and value is None else _text(value)
    return Row(name, text, _as_json(value), origin if is_given else "default", is_given)


def _text(value: Any) -> str:
    """A value as in Python code, without the fields of records that have their defaults."""
    if value is None or isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, Mapping):
        return str(value) if value else "none"
    found = _fields(value)
    if found is None:
        return str(value)
    shown = ", ".join(f"{name}={one!r}" for name, one, is_default in found if not is_default)
    return f"{type(value).__name__}({shown})"


def _as_json(value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return [*map(_as_json, value)]
    if isinstance(value, Mapping):
        return {str(key): _as_json(one) for key, one in value.items()}
    found = _fields(value)
    return repr(value) if found is None else {name: _as_json(one) for name, one, _ in found}


def _fields(record: Any) -> list[tuple[str, Any, bool]] | None:
    """Name and value of each field of a record, and whether texts leave it out; None for other values.

    They leave out defaults, except that of the first field.
    """
    if isinstance(record, Warmup):
        samples = record.samples
        count = samples if isinstance(samples, bool) else "callable" if callable(samples) else len([*samples])
        sizes = record.batch_sizes
        return [("samples", count, False), ("repeat", record.repeat, False), ("batch_sizes", sizes, not sizes)]
    if not is_dataclass(record) or isinstance(record, type) or type(record).__module__.endswith(".cost"):
        return None
    try:
        default = type(record)()
    except TypeError:
        # It needs an argument.
        default = None
    found = []
    for place, field in enumerate(fields(record)):
        value = getattr(record, field.name)
        is_default = place > 0 and (value == getattr(default, field.name, MISSING) or value in (None, ()))
        found.append((_OTHER_NAMES.get(field.name, field.name), _without_secrets(field.name, value), is_default))
    return found


def _without_secrets(name: str, value: Any) -> Any:
    """A field's value. Variables of processes and arguments of their factory may be secrets."""
    if name == "env":
        return {variable: SET for variable, _ in value}
    return value[0] if name == "factory" and value else value
