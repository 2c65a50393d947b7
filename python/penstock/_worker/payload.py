"""Payload of a child process: a reference to a model, or pickled code."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock._loading import targets
from penstock._runtime import pickling
from penstock._runtime.payload_kind import BY_NAME, BY_VALUE, IN_FOLDER, MADE
from penstock.errors import StartupError

if TYPE_CHECKING:
    from penstock._model.model import Model
    from penstock._spec.definition import Definition

__all__ = ["load_payload"]


def load_payload(payload: bytes) -> Definition:
    """The definition that a payload stands for. Called in the child process.

    Raises:
        StartupError: an unknown kind of payload, or a model that cannot be loaded.
    """
    kind, content = payload[:5], payload[5:]
    if kind == BY_NAME:
        reference = json.loads(content)
        target: Any = targets.load_object(reference["path"], reference["name"])
        model = target if hasattr(target, "bare_definition") else _model_of(target)
        definition: Definition = model.bare_definition()
        return definition
    if kind == IN_FOLDER:
        from penstock._repository.native import Native

        version = json.loads(content)
        return Native().define(Path(version["folder"]), version["name"], version["version"])
    if kind == MADE:
        call = json.loads(content)
        module, _, name = call["function"].partition(":")
        result: Definition = getattr(importlib.import_module(module), name)(**call["arguments"]).bare_definition()
        return result
    if kind != BY_VALUE:
        raise StartupError(f"unknown kind of payload {kind!r}")
    return pickling.load(content)


def _model_of(target: Any) -> Model[..., Any]:
    from penstock._model.model import model

    wrapped: Model[..., Any] = model(target)
    return wrapped
