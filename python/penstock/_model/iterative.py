"""Models with `batching=Iterative(...)`: a class with a method `step`."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from penstock._model.options import check_builds, checked_option
from penstock._spec.batching import Batching, Iterative
from penstock.errors import SignatureError

if TYPE_CHECKING:
    from penstock._handler.parameters import Signature
    from penstock._spec.tensor import Tensor

__all__ = ["batching_of", "check_iterative", "check_step", "excluded", "iterative_signature"]


def batching_of(given: object, where: str) -> tuple[Batching | None, Iterative | None]:
    """The option `batching`, as the batch axis of the tensors and the options of an iterative model.

    Raises:
        SignatureError: neither None nor one of both classes.
    """
    if isinstance(given, Iterative):
        return given.batching, given
    if given is not None and not isinstance(given, Batching):
        raise SignatureError(f"{where}: batching must be a Batching or an Iterative, not {given!r}")
    return checked_option(given, Batching, f"{where}: batching"), None


def check_step(target: object, where: str) -> str:
    """Checks that a target is a class with a method `step(self, rows)`. Returns the name of the method.

    Raises:
        SignatureError: it is not.
    """
    if not isinstance(target, type):
        raise SignatureError(f"{where}: Iterative is for a class with a method `step(self, rows)`")
    step = getattr(target, "step", None)
    if not callable(step):
        raise SignatureError(
            f"{where}: class {target.__name__} has no method `step(self, rows)`, which Iterative calls"
        )
    check_builds(target, where)
    if inspect.iscoroutinefunction(step) or inspect.isasyncgenfunction(step):
        raise SignatureError(f"{where}: {target.__name__}.step is async; Iterative takes a plain method")
    if inspect.isgeneratorfunction(step):
        raise SignatureError(
            f"{where}: {target.__name__}.step has a yield; it returns a list with an entry for each row"
        )
    _check_takes(target, "step", "rows", where)
    if hasattr(target, "leave"):
        _check_takes(target, "leave", "row", where)
    return "step"


def _check_takes(target: type, method: str, argument: str, where: str) -> None:
    is_bound = isinstance(inspect.getattr_static(target, method), (staticmethod, classmethod))
    try:
        inspect.signature(getattr(target, method)).bind(*[None] * (1 if is_bound else 2))
    except TypeError:
        raise SignatureError(
            f"{where}: {target.__name__}.{method} is called with one argument, `{argument}`, and does not take it"
        ) from None
    except ValueError:
        # A function in C may have no signature.
        return


def iterative_signature(inputs: Iterable[Tensor] | None, outputs: Iterable[Tensor] | None, where: str) -> Signature:
    """The signature of a model whose `step` takes rows.

    Raises:
        SignatureError: the tensors are not declared, or do not fit.
    """
    from penstock._handler.signature import declared_signature

    if inputs is None or outputs is None:
        missing = "inputs" if inputs is None else "outputs"
        raise SignatureError(f"{where}: `step` takes rows, so {missing}= must be declared")
    signature = declared_signature(inputs, outputs, where)
    if not signature.inputs:
        raise SignatureError(f"{where}: Iterative needs at least one input, whose first axis is the batch")
    for tensor in (*signature.tensors[0], *signature.tensors[1]):
        if tensor.ragged or tensor.pad is not None:
            option = "ragged" if tensor.ragged else "pad"
            raise SignatureError(
                f"{where}: {tensor.name!r} has {option}=, which is for joined rows; the rows of `step` may differ "
                "without it"
            )
    return signature


def check_iterative(iterative: Iterative | None, others: Iterable[tuple[str, bool]], where: str) -> None:
    """Checks that a model has no option that its kind of batching excludes.

    Args:
        iterative: Its iterative batching; None for any other.
        others: The options that are excluded, and whether it has them.
        where: Prefix of messages.

    Raises:
        SignatureError: it has one.
    """
    for name, has in others:
        if iterative is not None and has:
            raise SignatureError(f"{where}: {name} does not go with batching=Iterative(...)")


def excluded(model: Any, options: Any) -> list[tuple[str, bool]]:
    """The options of a model that exclude iterative batching, and whether it has them."""
    return [
        ("Processes(...)", model.processes is not None),
        ("max_concurrency=", options.get("max_concurrency") is not None),
        ("streams=False", options.get("streams") is False),
        ("sequences=", model.sequences is not None),
        ("resources=", model.resources is not None),
        ("a method `explain`", hasattr(model.__wrapped__, "explain")),
    ]
