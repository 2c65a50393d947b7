"""Payload of a child process: reads the reference or the pickled code that the server sent."""

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

__all__ = ["received"]


def received(payload: bytes) -> Definition:
    """What a process is told to load, in that process."""
    kind, content = payload[:5], payload[5:]
    if kind == BY_NAME:
        told = json.loads(content)
        target: Any = targets.load_object(told["path"], told["name"])
        made = target if hasattr(target, "bare_definition") else _model_of(target)
        definition: Definition = made.bare_definition()
        return definition
    if kind == IN_FOLDER:
        from penstock._repository.native import Native

        told = json.loads(content)
        return Native().define(Path(told["folder"]), told["name"], told["version"])
    if kind == MADE:
        told = json.loads(content)
        module, _, name = told["function"].partition(":")
        bare: Definition = getattr(importlib.import_module(module), name)(**told["arguments"]).bare_definition()
        return bare
    if kind != BY_VALUE:
        raise StartupError("the server sent nothing that can be loaded")
    return pickling.load(content)


def _model_of(target: Any) -> Model[..., Any]:
    from penstock._model.model import model

    made: Model[..., Any] = model(target)
    return made
