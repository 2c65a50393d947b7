"""`Result`: what an inference gives back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

__all__ = ["Answer", "Result"]

Array = np.ndarray[Any, Any]
Answer = tuple[str, str, str, "dict[str, bool | int | float | str]", "dict[str, Array]"]
"""What the compiled part gives: model, version, id, parameters, outputs."""


class Result(Mapping[str, Array]):
    """The outputs of one inference by name, and what else the server said.

    An output is `result["y"]`, or `result.y` where its name is not one of this class's own; the only
    output of a model that has one is `result.value`. BYTES are object arrays of `bytes`, BF16 are
    float32 arrays. The arrays are the caller's own and may be written to.

    Example:
        >>> result = client.infer("double", x=np.ones((1, 16), np.float32))
        >>> result.y.shape, result.model, result.version
        ((1, 16), 'double', '1')
    """

    __slots__ = ("_outputs", "id", "model", "parameters", "version")

    model: str
    """The model's name, as the server has it."""
    version: str
    """The version that answered; empty if the server did not say."""
    id: str
    """The request's id, which the server repeats; empty for none."""
    parameters: dict[str, bool | int | float | str]
    """The answer's parameters."""

    def __init__(self, answer: Answer) -> None:
        self.model, self.version, self.id, self.parameters, self._outputs = answer

    @property
    def value(self) -> Array:
        """The only output.

        Raises:
            ValueError: there are none, or several.
        """
        if len(self._outputs) != 1:
            raise ValueError(f"the result has {len(self._outputs)} outputs ({', '.join(self._outputs)}): name one")
        return next(iter(self._outputs.values()))

    @property
    def text(self) -> str:
        """The only output as text: one BYTES element, or all of them joined.

        Raises:
            ValueError: there is not one output, it is not BYTES, or it is not UTF-8.
        """
        value = self.value
        if value.dtype != object:
            raise ValueError(f"the output is an array of {value.dtype}, not of text")
        return b"".join(value.ravel().tolist()).decode()

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
