"""`TritonContext`: what a callable may know of the models it is bound as."""

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

FIELD = "triton_context"
"""The parameter that `triton_context` fills."""

_ATTRIBUTE = "__triton_context__"

SPECIAL_KEYS = (_ATTRIBUTE,)
"""Names that no input may have."""

NOT_INPUTS = (_ATTRIBUTE, FIELD)
"""Keyword arguments of a callable that are no inputs."""


class ModelConfigDict(MutableMapping[Callable[..., Any], TritonModelConfig]):
    """Configurations by the callable that is bound. An object with `__call__` and that method are the same key."""

    def __init__(self) -> None:
        self._kept: dict[Any, tuple[Callable[..., Any], TritonModelConfig]] = {}

    def __getitem__(self, infer_callable: Callable[..., Any]) -> TritonModelConfig:
        return self._kept[_key(infer_callable)][1]

    def __setitem__(self, infer_callable: Callable[..., Any], item: TritonModelConfig) -> None:
        self._kept[_key(infer_callable)] = (infer_callable, item)

    def __delitem__(self, infer_callable: Callable[..., Any]) -> None:
        del self._kept[_key(infer_callable)]

    def __len__(self) -> int:
        return len(self._kept)

    def __iter__(self) -> Iterator[Callable[..., Any]]:
        return (infer_callable for infer_callable, _ in self._kept.values())


@dataclass
class TritonContext:
    """What a callable may know of the models it is bound as."""

    model_configs: ModelConfigDict = field(default_factory=ModelConfigDict)
    """The configuration of each of them, by callable."""


@dataclass(frozen=True)
class Running:
    """What runs on an instance's thread."""

    callable: Callable[..., Any]
    context: TritonContext
    config: TritonModelConfig


running: ContextVar[Running | None] = ContextVar("running", default=None)
"""Set once on each instance's thread: a callable may be bound as several models, and lie in wrappers of its own."""


def inject(context: TritonContext, infer_callable: Callable[..., Any], config: TritonModelConfig) -> TritonContext:
    """Lets a callable find a model's configuration, beside those that it finds already.

    Returns:
        The context that the callable has.
    """
    bound_to = receiver(infer_callable)
    holder = unwrapped(infer_callable) if bound_to is None else bound_to
    known = getattr(holder, _ATTRIBUTE, None)
    context = known if isinstance(known, TritonContext) else context
    context.model_configs[infer_callable] = config
    # A builtin, or an object with slots, has `running` alone.
    with contextlib.suppress(AttributeError, TypeError):
        setattr(holder, _ATTRIBUTE, context)
    return context


def get_triton_context(wrapped: Any, instance: Any) -> TritonContext:
    """The context of a callable, for decorators of one's own.

    Args:
        wrapped: What is decorated.
        instance: The object that it is bound to; None for a function.

    Raises:
        PyTritonValidationError: it is not bound to a server.
    """
    caller = wrapped if instance is None else instance
    found = getattr(caller, _ATTRIBUTE, None)
    if found is not None:
        return found  # type: ignore[no-any-return]
    current = running.get()
    if current is None:
        raise PyTritonValidationError("Wrapped function or object must bound with triton to get  __triton_context__")
    return current.context


def get_model_config(wrapped: Any, instance: Any) -> TritonModelConfig:
    """The configuration of the model that a callable is bound as. The arguments are those of `get_triton_context`.

    Raises:
        PyTritonValidationError: it is not bound to a server.
    """
    current = running.get()
    if current is not None and _key(current.callable) == _key(wrapped):
        return current.config
    configs = get_triton_context(wrapped, instance).model_configs
    if current is not None and wrapped not in configs:
        return current.config
    return configs[wrapped]


def convert_output(
    outputs: Any, wrapped: Any = None, instance: Any = None, model_config: TritonModelConfig | None = None
) -> dict[str, Any]:
    """What a callable returned, by output: a dict as it is; a list or tuple in the order of the configuration.

    Raises:
        PyTritonValidationError: it is something else, or of another length; or the callable is not bound.
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
    """Gives the callable its context, as the parameter `triton_context`."""
    kwargs[FIELD] = get_triton_context(wrapped, instance)
    return wrapped(*args, **kwargs)


def _key(infer_callable: Any) -> Any:
    bare = unwrapped(infer_callable)
    if inspect.ismethod(bare):
        # A method is made anew each time that it is asked for; equal ones are of one function and one object.
        return id(bare.__self__) if bare.__name__ == "__call__" else bare
    return id(bare)
