"""Decorators of the `inferless` package, for apps that are served. They run nothing remotely."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar, overload

__all__ = ["Cls", "config", "local_entry_point", "method", "request", "response"]

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


class Cls:
    """Marks the methods of a class that loads and computes.

    Args:
        gpu: Kind of GPU on the platform; ignored here.

    Example:
        >>> app = Cls(gpu="T4")
        >>> class Model:
        ...     @app.load
        ...     def load(self): ...
        ...     @app.infer
        ...     def infer(self, inputs): ...
    """

    def __init__(self, gpu: str | None = None) -> None:
        self.gpu = os.getenv("INFERLESS_GPU") or gpu

    @staticmethod
    def load(func: F) -> F:
        """Marks the method that loads."""
        func._is_loader = True  # type: ignore[attr-defined]
        return func

    @staticmethod
    def infer(func: F) -> F:
        """Marks the method that computes."""
        func._is_infer = True  # type: ignore[attr-defined]
        return func


def method(gpu: str | None = None) -> Callable[[F], F]:
    """Marks a function that the platform runs remotely on a GPU. Here it runs in the calling process."""
    return lambda func: func


def local_entry_point(func: F) -> F:
    """Marks the entry point of a script."""
    func._is_local_entry_point = True  # type: ignore[attr-defined]
    return func


def request(cls: type[T]) -> type[T]:
    """Marks the pydantic class whose fields are the inputs."""
    marked: type[T] = _add_schema(cls)
    return marked


def response(cls: type[T]) -> type[T]:
    """Marks the pydantic class whose fields are the outputs."""
    marked: type[T] = _add_schema(cls)
    return marked


@overload
def config(cls: type[T]) -> type[T]: ...
@overload
def config(cls: None = None) -> Callable[[type[T]], type[T]]: ...
def config(cls: Any = None) -> Any:
    """Marks the pydantic class that configures calls of the app: `@config` or `@config()`.

    The defaults of its fields become environment variables in capitals: `is_streaming_output` is
    IS_STREAMING_OUTPUT.
    """
    return _export if cls is None else _export(cls)


def _export(cls: Any) -> Any:
    for name, one in cls.model_fields.items():
        value = None if one.is_required() else one.get_default(call_default_factory=True)
        if value is not None:
            os.environ[name.upper()] = str(value)
    return cls


def _add_schema(cls: Any) -> Any:
    from penstock.compat.inferless._spec.pydantic_schema import tensors_of
    from penstock.compat.inferless._spec.schema import SchemaError

    try:
        tensors = tensors_of(cls)
    except SchemaError:
        # The error is reported when the app is loaded; the import must succeed.
        return cls
    words = {"BYTES": "string", "INT32": "integer", "FP64": "float", "BOOL": "boolean"}
    cls._json_schema = {
        one.name: {
            "datatype": words[one.datatype],
            "shape": list(one.shape),
            "example": one.example,
            "required": one.required,
        }
        for one in tensors
    }
    return cls
