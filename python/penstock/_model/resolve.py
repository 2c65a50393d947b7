"""Definitions of models, pipelines, and plain functions and classes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from penstock._model import call_graph
from penstock._model.pipeline import Pipeline
from penstock._spec.definition import Definition
from penstock.errors import StartupError

__all__ = ["as_model", "definitions_of", "for_inspection"]


def definitions_of(models: Iterable[Any], *, required: bool = True) -> list[Definition]:
    """The definitions of models, pipelines, definitions, and plain functions or classes.

    A definition comes after those that it calls.

    Args:
        models: The models.
        required: Whether at least one is required, and all that they call must be among them.

    Raises:
        StartupError: there is none, or two have the same name and version.
        SignatureError: a pipeline or a declared call does not fit the other models.
    """
    definitions: dict[tuple[str, str], Definition] = {}
    models = list(models)
    pipelines = [model for model in models if isinstance(model, Pipeline)]
    for model in models:
        if not isinstance(model, Pipeline):
            _add(definitions, _definition_of(model))
    # A pipeline may be a step of another one.
    for pipeline in call_graph.ordered(
        pipelines, lambda pipeline: pipeline.name, lambda pipeline: [step.model for step in pipeline.steps]
    ):
        _add(definitions, pipeline.definition(definitions.values()))
    if required and not definitions:
        raise StartupError("there is no model to serve; give at least one")
    return call_graph.check([*definitions.values()], all_known=required)


def _add(definitions: dict[tuple[str, str], Definition], definition: Definition) -> None:
    if (key := (definition.name, definition.version)) in definitions:
        raise StartupError(
            f"model {definition.name!r} version {definition.version!r} is given twice; "
            "give one of them another name= or version="
        )
    definitions[key] = definition
    if (explainer := definition.explainer) is not None:
        definitions[explainer.name, explainer.version] = explainer


def as_model(target: Any) -> Any:
    """A pipeline or definition unchanged, and the definition of anything else: each has a name and a version."""
    if isinstance(target, Pipeline | Definition):
        return target
    return _definition_of(target)


def for_inspection(definitions: Iterable[Definition]) -> list[Definition]:
    """The definitions of a started server, without factories: a model that is replaced must not be retained here."""
    return [replace(definition, factory=_unloadable_factory, explainer=None) for definition in definitions]


def _unloadable_factory() -> Any:
    raise StartupError("the definitions of a started server are for inspection, and cannot be loaded")


def _definition_of(target: Any) -> Definition:
    if isinstance(target, Definition):
        return target
    # A class may have a method of that name for its instances.
    if not isinstance(target, type) and callable(getattr(target, "definition", None)):
        definition = target.definition()
        if isinstance(definition, Definition):
            return definition
    from penstock._model.model import model

    return model(target).definition()
