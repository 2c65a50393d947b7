"""Signature of a model: from `Tensor` lists, or from the handler's annotations. Read once, at load.

docs/signatures.md has the rules as a table.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

from penstock._handler import type_hints
from penstock._handler.annotations import parameter_tensor, return_tensors
from penstock._handler.parameters import BoundTensor, Signature
from penstock._handler.requests import request_of, takes_requests
from penstock._spec.tensor import Tensor
from penstock.errors import SignatureError

_BY_POSITION = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_MISSING = inspect.Parameter.empty


def read_signature(
    handler: Callable[..., Any],
    where: str,
    *,
    is_method: bool,
    inputs: Iterable[Tensor] | None,
    outputs: Iterable[Tensor] | None,
    batched: bool,
    streams: bool = False,
) -> Signature:
    """The signature of a handler.

    Args:
        handler: The function, or the plain function of a method.
        where: Prefix of messages, for example "model 'double'".
        is_method: Whether its first parameter is `self`.
        inputs: The declared inputs; None reads the annotations.
        outputs: The declared outputs; None reads the return annotation.
        batched: Whether there is a batch axis, which only arrays have.
        streams: Whether it returns an iterator; the return annotation then declares its items.

    Raises:
        SignatureError: the handler cannot be served; the message names the parameter and a remedy.
    """
    hints = type_hints.resolve(handler)
    # The declared tensors of a raw-request model are metadata: no parameter takes them.
    is_open = takes_requests(hints)
    declared = None if inputs is None or is_open else _checked(inputs, "inputs", where)
    all_parameters = _parameters(handler, where, is_method=is_method, declared=declared is not None)
    context = _find_context(all_parameters, hints, declared or [], where)
    parameters = {name: parameter for name, parameter in all_parameters.items() if name != context}
    request = request_of(parameters, hints, where, batched=batched)
    if request is not None:
        positional, keywords = _arrange(all_parameters, [request], context)
        shown = (_shown(inputs, "input", where), _shown(outputs, "output", where))
        return Signature((), (), positional, keywords, context is not None, open=True, shown=shown)
    names: list[str | None]
    if declared is not None:
        bound_tensors, names = _bind_declared(declared, parameters, where)
    else:
        bound_tensors = [
            parameter_tensor(parameter, hints, where, batched=batched) for parameter in parameters.values()
        ]
        names = list(parameters)
    returned = (
        [BoundTensor(tensor) for tensor in _checked(outputs, "outputs", where)]
        if outputs is not None
        else return_tensors(hints, where, batched=batched, streams=streams)
    )
    _check_tensors(bound_tensors, returned, where)
    for bound in returned:
        if bound.tensor.optional and outputs is None:
            raise SignatureError(f"{where}: output {bound.tensor.name!r} is optional: declare it with outputs=[...]")
    if streams and (by_row := next((bound for bound in bound_tensors if bound.adapter and bound.adapter.by_row), None)):
        raise SignatureError(
            f"{where}: input {by_row.tensor.name!r} is a list of rows, which a batched handler that streams cannot "
            "take; use Annotated[np.ndarray, Tensor(...)], or leave batching= out"
        )
    if batched and not bound_tensors:
        raise SignatureError(f"{where}: batching= needs at least one input, whose first axis is the batch")
    positional, keywords = _arrange(all_parameters, names, context)
    return Signature(tuple(bound_tensors), tuple(returned), positional, keywords, context is not None)


def declared_signature(inputs: Iterable[Tensor], outputs: Iterable[Tensor], where: str) -> Signature:
    """The signature of a handler that takes its inputs in another way than by its parameters.

    Raises:
        SignatureError: the declared tensors are not valid.
    """
    bound_inputs = [BoundTensor(tensor) for tensor in _checked(inputs, "inputs", where)]
    bound_outputs = [BoundTensor(tensor) for tensor in _checked(outputs, "outputs", where)]
    _check_tensors(bound_inputs, bound_outputs, where)
    return Signature(tuple(bound_inputs), tuple(bound_outputs), (), (), wants_context=True)


def _check_tensors(inputs: list[BoundTensor], outputs: list[BoundTensor], where: str) -> None:
    _check_names(inputs, "input", where)
    _check_names(outputs, "output", where)
    for bound in inputs:
        if bound.tensor.labels:
            raise SignatureError(f"{where}: input {bound.tensor.name!r} has labels; only outputs can")


def _parameters(
    handler: Callable[..., Any], where: str, *, is_method: bool, declared: bool
) -> dict[str, inspect.Parameter]:
    """The parameters without `self`."""
    try:
        parameters = list(inspect.signature(handler).parameters.values())
    except (ValueError, TypeError):
        if declared:
            # A function in C may have no signature; it gets the inputs by position.
            return {"inputs": inspect.Parameter("inputs", inspect.Parameter.VAR_POSITIONAL)}
        raise SignatureError(f"{where}: its parameters are not known; declare inputs= and outputs=") from None
    return {parameter.name: parameter for parameter in (parameters[1:] if is_method else parameters)}


def _find_context(
    parameters: dict[str, inspect.Parameter], hints: dict[str, Any], declared: list[Tensor], where: str
) -> str | None:
    contexts = [name for name in parameters if type_hints.is_context(hints.get(name))]
    # A lambda has no annotations, so the conventional name is enough.
    is_untyped = "ctx" in parameters and "ctx" not in hints
    if not contexts and is_untyped and all(tensor.name != "ctx" for tensor in declared):
        contexts = ["ctx"]
    if len(contexts) > 1:
        raise SignatureError(f"{where}: parameters {contexts[0]!r} and {contexts[1]!r} are both the Context; keep one")
    return contexts[0] if contexts else None


def _bind_declared(
    tensors: list[Tensor], parameters: dict[str, inspect.Parameter], where: str
) -> tuple[list[BoundTensor], list[str | None]]:
    """The bound tensors of declared inputs, and the parameter that takes each; None is "by position"."""
    named = {
        name: parameter
        for name, parameter in parameters.items()
        if parameter.kind in (*_BY_POSITION, parameter.KEYWORD_ONLY)
    }
    positional = [name for name, parameter in named.items() if parameter.kind in _BY_POSITION]
    kinds = {parameter.kind for parameter in parameters.values()}
    names: list[str | None]
    wanted = {tensor.name for tensor in tensors}
    takes_any_name = inspect.Parameter.VAR_KEYWORD in kinds and wanted.issuperset(positional)
    if takes_any_name or wanted <= set(named):
        names = [tensor.name for tensor in tensors]
    elif inspect.Parameter.VAR_POSITIONAL in kinds and not positional:
        names = [None] * len(tensors)
    else:
        names = [*_by_position(tensors, positional, where)]
    for name, parameter in named.items():
        if parameter.default is _MISSING and name not in names:
            raise SignatureError(
                f"{where}: parameter {name!r} is none of the declared inputs ({_listed(tensors)}); "
                "declare it, or give it a default"
            )
    taken_by = [named.get(name) if name else None for name in names]
    bound_tensors = [
        BoundTensor(tensor, default=_default(tensor, one)) for tensor, one in zip(tensors, taken_by, strict=True)
    ]
    return bound_tensors, names


def _default(tensor: Tensor, parameter: inspect.Parameter | None) -> Any:
    known = tensor.optional and parameter is not None and parameter.default is not _MISSING
    return parameter.default if known and parameter is not None else None


def _by_position(tensors: list[Tensor], positional: list[str], where: str) -> list[str]:
    if len(tensors) > len(positional):
        raise SignatureError(
            f"{where}: {len(tensors)} inputs are declared ({_listed(tensors)}), "
            f"the handler takes {len(positional)} ({', '.join(positional) or 'none'})"
        )
    for index, tensor in enumerate(tensors):
        # Binding some by name and others by position would silently swap inputs.
        if tensor.name in positional and positional[index] != tensor.name:
            raise SignatureError(
                f"{where}: input {tensor.name!r} is declared at position {index + 1}, where the handler has parameter "
                f"{positional[index]!r}; name all parameters like the inputs, or keep the order"
            )
    return positional[: len(tensors)]


def _arrange(
    parameters: dict[str, inspect.Parameter], names: list[str | None], context: str | None
) -> tuple[tuple[int, ...], tuple[tuple[str, int], ...]]:
    """The arguments of a call: inputs and context by position as far as possible, the rest by name."""
    wanted = {name: index for index, name in enumerate(names) if name is not None}
    if context is not None:
        wanted[context] = len(names)
    positional: list[int] = []
    for name, parameter in parameters.items():
        if parameter.kind is parameter.VAR_POSITIONAL:
            positional.extend(index for index, given in enumerate(names) if given is None)
        elif parameter.kind in _BY_POSITION and name in wanted:
            positional.append(wanted.pop(name))
        else:
            # Arguments after a parameter with its default are passed by name.
            break
    return tuple(positional), tuple(wanted.items())


def _checked(tensors: Iterable[Tensor], kind: str, where: str) -> list[Tensor]:
    if isinstance(tensors, Tensor) or not isinstance(tensors, Iterable):
        raise SignatureError(f"{where}: {kind} must be a list of Tensors, not {type(tensors).__name__}")
    found = list(tensors)
    for index, tensor in enumerate(found):
        if not isinstance(tensor, Tensor):
            raise SignatureError(f"{where}: {kind}[{index}] is {type(tensor).__name__}, not a Tensor")
        if not tensor.name:
            raise SignatureError(f"{where}: {kind}[{index}] needs a name")
    return found


def _shown(tensors: Iterable[Tensor] | None, kind: str, where: str) -> tuple[BoundTensor, ...]:
    bound_tensors = [BoundTensor(tensor) for tensor in _checked(tensors or (), f"{kind}s", where)]
    _check_names(bound_tensors, kind, where)
    return tuple(bound_tensors)


def _check_names(bound_tensors: list[BoundTensor], kind: str, where: str) -> None:
    seen: set[str] = set()
    for bound in bound_tensors:
        if bound.tensor.name in seen:
            raise SignatureError(f"{where}: {kind} {bound.tensor.name!r} is declared twice")
        seen.add(bound.tensor.name)


def _listed(tensors: list[Tensor]) -> str:
    return ", ".join(repr(tensor.name) for tensor in tensors) or "none"
