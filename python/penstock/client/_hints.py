"""Refusals and hints for wrong arguments of an inference: options that are meant as inputs, and misspelled names."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from penstock._spec.suggestions import nearest, suggestion
from penstock.errors import InvalidInput, NotFound, PenstockError

if TYPE_CHECKING:
    from penstock.client._options import Call, How

__all__ = [
    "as_input",
    "check_names",
    "check_timeout",
    "check_type",
    "explain_input",
    "explain_model",
    "options_of",
    "unknown_inputs",
]

OPTIONS = frozenset(("version", "request_id", "outputs", "parameters", "headers", "timeout", "datatypes"))
"""Options of an inference."""

_EXPECTED: dict[str, tuple[type | tuple[type, ...], str]] = {
    "outputs": (Iterable, "names of outputs, such as ['y']"),
    "parameters": (Mapping, "a dict of parameters"),
    "headers": (Mapping, "a dict of headers"),
    "datatypes": (Mapping, "a dict of datatypes by input"),
    "version": ((str, int), "a version"),
    "request_id": (str, "text"),
}
"""Types of the options of an inference, and what messages expect."""


def as_input(name: str) -> str:
    """The spelling of an input that has the name of an option."""
    return f"an input of that name is written inputs={{{name!r}: ...}}"


def check_type(name: str, value: Any) -> None:
    """Checks the type of an option, for a value that is not None.

    Raises:
        InvalidInput: it cannot be the option's value, so it may be meant as an input; the message has the spelling.
    """
    kind, expected = _EXPECTED[name]
    fits = isinstance(value, kind) and not isinstance(value, bool)
    if name == "outputs" and fits:
        # One-shot iterators are not consumed here.
        is_text = isinstance(value, (str, bytes))
        fits = not is_text and not (isinstance(value, (list, tuple)) and any(not isinstance(one, str) for one in value))
        fits = fits and not hasattr(value, "__array__")
    if not fits:
        raise InvalidInput(f"{name} is {_shown(value)}, expected {expected}; {as_input(name)}")


def check_names(options: Iterable[str], declared: Collection[str], inputs: Mapping[str, Any]) -> None:
    """Checks that no given option has the name of an input that is not given.

    Raises:
        InvalidInput: there is one.
    """
    for name in options:
        if name in declared and name not in inputs:
            raise InvalidInput(f"{name} is an option of the client, and an input of this model; {as_input(name)}")


def check_timeout(value: Any) -> None:
    """Refuses a value of the option `timeout` that is meant as an input.

    Raises:
        InvalidInput: the value is an array, a list, a dict or text.
    """
    if isinstance(value, (str, bytes, list, tuple, Mapping)) or hasattr(value, "__array__"):
        raise InvalidInput(
            f"timeout is {_shown(value)}, expected a number of seconds of 0 or more, or None; {as_input('timeout')}"
        )


def options_of(call: Call, how: How, timeout: float | None) -> list[str]:
    """The names of the options that differ from their defaults. `timeout` is the client's own."""
    given = {
        "version": call[1],
        "request_id": call[2],
        "outputs": call[4],
        "parameters": call[5],
        "headers": how[0],
        "timeout": how[1] != timeout,
        "datatypes": any(one[2] for one in call[3]),
    }
    return [name for name, value in given.items() if value]


def explain_model(error: NotFound, model: str, names: Collection[str]) -> None:
    """Adds the nearest model to an error, if the server has none of this name."""
    if model not in names:
        _append(error, suggestion(model, names))


def explain_input(error: InvalidInput, call: Call, options: Iterable[str], declared: Collection[str]) -> None:
    """Adds what the client knows of the inputs to an error: the nearest name, or an option that is an input."""
    inputs = {name: value for name, value, _ in call[3]}
    if hint := unknown_inputs(inputs, declared):
        _append(error, hint)
    for name in options:
        if name in declared and name not in inputs:
            _append(error, f"; {name} was taken as an option of the client, {as_input(name)}")


def _append(error: PenstockError, hint: str) -> None:
    error.args = (f"{error}{hint}",)


def _shown(value: Any) -> str:
    return type(value).__name__ if hasattr(value, "__array__") else repr(value)


def unknown_inputs(inputs: Iterable[str], declared: Collection[str]) -> str:
    """`, did you mean ...?` for the first given input that the model does not have; empty if nothing is similar."""
    given = list(inputs)
    for name in given:
        if name not in declared:
            near = nearest(name, [one for one in declared if one not in given])
            return "" if near is None else f", did you mean {near!r}?"
    return ""
