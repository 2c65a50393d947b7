"""`TritonContext`: the configurations of a callable's models."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator, MutableMapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from penstock.compat.pytriton.decorators._wrapping import decorator, receiver, unwrapped
from penstock.compat.pytriton.exceptions import PyTritonValidationError
from penstock.compat.pytriton.model_config.triton_model_config import TritonModelConfig

__all__ = [
    "NOT_INPUTS",
    "SPECIAL_KEYS",
    "ModelConfigDict",
    "TritonContext",
    "convert_output",
    "get_model_config",
    "get_triton_context",
    "inject",
    "triton_context",
]

CONTEXT_PARAMETER = "triton_context"
"""Parameter that the decorator `triton_context` sets."""

_ATTRIBUTE = "__triton_context__"

SPECIAL_KEYS = (_ATTRIBUTE,)
"""Reserved names, which no input may have."""

NOT_INPUTS = (_ATTRIBUTE, CONTEXT_PARAMETER)
"""Keyword arguments of a callable that are not inputs."""


class ModelConfigDict(MutableMapping[Callable[..., Any], TritonModelConfig]):
    """Configurations by bound callable. An object with `__call__` and its method `__call__` are the same key."""

    def __init__(self) -> None:
        self._configs: dict[Any, tuple[Callable[..., Any], TritonModelConfig]] = {}

    def __getitem__(self, infer_callable: Callable[..., Any]) -> TritonModelConfig:
        return self._configs[_key(infer_callable)][1]

    def __setitem__(self, infer_callable: Callable[..., Any], item: TritonModelConfig) -> None:
        self._configs[_key(infer_callable)] = (infer_callable, item)

    def __delitem__(self, infer_callable: Callable[..., Any]) -> None:
        del self._configs[_key(infer_callable)]

    def __len__(self) -> int:
        return len(self._configs)

    def __iter__(self) -> Iterator[Callable[..., Any]]:
        return (infer_callable for infer_callable, _ in self._configs.values())


@dataclass
class TritonContext:
    """Configurations of the models that a callable is bound as."""

    model_configs: ModelConfigDict = field(default_factory=ModelConfigDict)
    """Configuration of each model, by callable."""


@dataclass(frozen=True)
class InstanceContext:
    """Callable, context and configuration of an instance's thread."""

    callable: Callable[..., Any]
    context: TritonContext
    config: TritonModelConfig


instance_context: ContextVar[InstanceContext | None] = ContextVar("instance_context", default=None)
"""Set once on each instance's thread. It also serves callables that are bound as several models, or wrapped by the
user's own decorators."""


def inject(context: TritonContext, infer_callable: Callable[..., Any], config: TritonModelConfig) -> TritonContext:
    """Adds a model's configuration to the context of a callable.

    Returns:
        The context of the callable.
    """
    bound_to = receiver(infer_callable)
    holder = unwrapped(infer_callable) if bound_to is None else bound_to
    existing = getattr(holder, _ATTRIBUTE, None)
    context = existing if isinstance(existing, TritonContext) else context
    context.model_configs[infer_callable] = config
    # Builtins and objects with slots accept no attributes. They use `instance_context` alone.
    with contextlib.suppress(AttributeError, TypeError):
        setattr(holder, _ATTRIBUTE, context)
    return context


def get_triton_context(wrapped: Any, instance: Any) -> TritonContext:
    """Returns the context of a callable, for custom decorators.

    Args:
        wrapped: The decorated function.
        instance: The object of a bound method; None for a function.

    Raises:
        PyTritonValidationError: the callable is not bound to a server.
    """
    owner = wrapped if instance is None else instance
    found = getattr(owner, _ATTRIBUTE, None)
    if found is not None:
        return found  # type: ignore[no-any-return]
    current = instance_context.get()
    if current is None:
        raise PyTritonValidationError("Wrapped function or object must bound with triton to get  __triton_context__")
    return current.context


def get_model_config(wrapped: Any, instance: Any) -> TritonModelConfig:
    """Returns the configuration of a callable's model. The arguments are the ones of `get_triton_context`.

    Raises:
        PyTritonValidationError: the callable is not bound to a server.
    """
    current = instance_context.get()
    if current is not None and _key(current.callable) == _key(wrapped):
        return current.config
    configs = get_triton_context(wrapped, instance).model_configs
    if current is not None and wrapped not in configs:
        return current.config
    return configs[wrapped]


def convert_output(
    outputs: Any, wrapped: Any = None, instance: Any = None, model_config: TritonModelConfig | None = None
) -> dict[str, Any]:
    """Returns a callable's result by output name: a dict unchanged, a list or tuple in the order of the configuration.

    Raises:
        PyTritonValidationError: the type or length is wrong, or the callable is not bound.
    """
    if isinstance(outputs, dict):
        return outputs
    if not isinstance(outputs, (list, tuple)):
        raise PyTritonValidationError(f"Unsupported output type {type(outputs)}.")
    config = get_model_config(wrapped, instance) if model_config is None else model_config
    declared = config.outputs or ()
    if len(outputs) != len(declared):
        raise PyTritonValidationError("Outputs length different than config outputs length")
    return {spec.name: output for spec, output in zip(declared, outputs, strict=True)}


@decorator
def triton_context(wrapped: Any, instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Passes the callable its context, as the parameter `triton_context`."""
    kwargs[CONTEXT_PARAMETER] = get_triton_context(wrapped, instance)
    return wrapped(*args, **kwargs)


def _key(infer_callable: Any) -> Any:
    target = unwrapped(infer_callable)
    if inspect.ismethod(target):
        # Each access creates a new method object. Equal methods have the same function and object.
        return id(target.__self__) if target.__name__ == "__call__" else target
    return id(target)
