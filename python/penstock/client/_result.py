"""`Result`: outputs and metadata of an inference."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

__all__ = ["Answer", "Result"]

Array = np.ndarray[Any, Any]
Answer = tuple[str, str, str, "dict[str, bool | int | float | str]", "dict[str, Array]", "list[str]"]
"""Response from the compiled extension: model, version, id, parameters, outputs, names of outputs of documents."""


class Result(Mapping[str, Array]):
    """The outputs of one inference by name, with the response's metadata.

    An output is `result["y"]`, or `result.y` if this class has no attribute of that name. A single output is
    `result.value`. BYTES are object arrays of `bytes`, BF16 are float32 arrays. The caller owns the arrays and may
    write to them.

    Example:
        >>> result = client.infer("double", x=np.ones((1, 16), np.float32))
        >>> result.y.shape, result.model, result.version
        ((1, 16), 'double', '1')
    """

    __slots__ = ("_documents", "_outputs", "id", "model", "parameters", "version")

    model: str
    """Name of the model, from the server."""
    version: str
    """Version that computed the response; empty if the server does not report it."""
    id: str
    """Id of the request; empty for none."""
    parameters: dict[str, bool | int | float | str]
    """Parameters of the response."""

    def __init__(self, answer: Answer) -> None:
        self.model, self.version, self.id, self.parameters, self._outputs, self._documents = answer

    @property
    def value(self) -> Array:
        """The only output.

        Raises:
            ValueError: there is no output, or several.
        """
        if len(self._outputs) != 1:
            raise ValueError(f"the result has {len(self._outputs)} outputs ({', '.join(self._outputs)}): name one")
        return next(iter(self._outputs.values()))

    @property
    def text(self) -> str:
        """The only output as text: all BYTES elements, joined.

        Raises:
            ValueError: there is no single output, or it is not BYTES of UTF-8.
        """
        value = self.value
        if value.dtype != object:
            raise ValueError(f"the output is an array of {value.dtype}, not of text")
        return b"".join(value.ravel().tolist()).decode()

    def json(self) -> Any:
        """The value that the handler returned: `to_python()`, or of a single output its value.

        Raises:
            ValueError: an element that should be a JSON document is none.
        """
        values = self.to_python()
        return next(iter(values.values())) if len(values) == 1 else values

    def to_python(self) -> dict[str, Any]:
        """The outputs by name in Python's own types.

        JSON documents are parsed. Numbers are lists of the array's shape, or one number for an output without axes;
        BYTES are `str` in the same way, and `bytes` where they are not UTF-8.

        Raises:
            ValueError: an element that should be a JSON document is none.
        """
        return {name: _value(array, parses=name in self._documents) for name, array in self._outputs.items()}

    def __getitem__(self, name: str) -> Array:
        try:
            return self._outputs[name]
        except KeyError:
            raise KeyError(f"there is no output {name!r}, there are {', '.join(self._outputs) or 'none'}") from None

    def __getattr__(self, name: str) -> Array:
        if name == "_outputs":
            raise AttributeError(name)
        try:
            return self._outputs[name]
        except KeyError:
            shown = ", ".join(self._outputs) or "none"
            raise AttributeError(f"there is no output {name!r}, there are {shown}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._outputs)

    def __len__(self) -> int:
        return len(self._outputs)

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value.dtype}{list(value.shape)}" for name, value in self._outputs.items())
        return f"<Result of {self.model!r}: {shown or 'no outputs'}>"


def _value(array: Array, *, parses: bool) -> Any:
    """An output in Python's own types; `parses` is whether its elements are JSON documents."""
    return array.tolist() if array.dtype != object else _text(array.tolist(), parses=parses)


def _text(value: Any, *, parses: bool) -> Any:
    if isinstance(value, list):
        return [_text(item, parses=parses) for item in value]
    if parses:
        return json.loads(value)
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value
