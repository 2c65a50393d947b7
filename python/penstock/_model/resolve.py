"""What a server is given, as definitions: models, pipelines, and plain functions and classes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from penstock._model import call_graph
from penstock._model.pipeline import Pipeline
from penstock._spec.definition import Definition
from penstock.errors import StartupError

__all__ = ["definitions_of", "let_go", "made"]


def definitions_of(models: Iterable[Any], *, required: bool = True) -> list[Definition]:
    """The definitions of models, pipelines, definitions, and plain functions or classes; no two alike.

    Each stands behind those that it says it calls.

    Raises:
        StartupError: there is none, or two have the same name and version.
        SignatureError: what they say of each other does not fit.
    """
    found: dict[tuple[str, str], Definition] = {}
    models = list(models)
    pipelines = [one for one in models if isinstance(one, Pipeline)]
    for one in models:
        if not isinstance(one, Pipeline):
            _add(found, _definition_of(one))
    # One may be a step of another.
    for one in call_graph.ordered(pipelines, lambda one: one.name, lambda one: [step.model for step in one.steps]):
        _add(found, one.definition(found.values()))
    if required and not found:
        raise StartupError("there is no model to serve; give at least one")
    return call_graph.check([*found.values()], all_known=required)


def _add(found: dict[tuple[str, str], Definition], definition: Definition) -> None:
    if (key := (definition.name, definition.version)) in found:
        raise StartupError(
            f"model {definition.name!r} version {definition.version!r} is given twice; "
            "give one of them another name= or version="
        )
    found[key] = definition
    if (explainer := definition.explainer) is not None:
        found[explainer.name, explainer.version] = explainer


def made(one: Any) -> Any:
    """What a server is given, with a name and a version: a model of a plain function or class, all else as it is."""
    if isinstance(one, Pipeline | Definition):
        return one
    return _definition_of(one)


def let_go() -> Any:
    """The factory of what a started server says that it was started with.

    Raises:
        StartupError: always.
    """
    # What was loaded is the compiled part's to keep: it may be replaced, and must then not be held here.
    raise StartupError("a started server's definitions say what it was started with, and build nothing")


def _definition_of(one: Any) -> Definition:
    if isinstance(one, Definition):
        return one
    # A class may have a method of that name; only an object that is ready can define.
    if not isinstance(one, type) and callable(getattr(one, "definition", None)):
        made = one.definition()
        if isinstance(made, Definition):
            return made
    from penstock._model.model import model

    made = model(one).definition()
    return made
