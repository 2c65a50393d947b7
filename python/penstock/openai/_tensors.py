"""Which of a model's tensors is the text, and which the vector; texts as arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from penstock._model.model import Model, model
from penstock._spec.tensor import Tensor
from penstock.errors import SignatureError

__all__ = ["TextInput", "as_model", "outputs_of", "pick"]


def as_model(target: Any, what: str) -> Model[..., Any]:
    """The model that is meant by a model, or a function or class whose annotations say enough."""
    if isinstance(target, Model):
        found = target
    elif callable(target):
        found = model(target)
    else:
        raise SignatureError(f"{what} takes a model or a function, not {target!r}")
    if found.sequences is not None:
        raise SignatureError(f"{what}: model {found.name!r} keeps sequences, which these routes cannot carry")
    return found


def pick(tensors: Iterable[Tensor], asked: str | None, fits: Callable[[Tensor], bool], what: str) -> Tensor:
    """The tensor of that name, or the only one that fits.

    Raises:
        SignatureError: there is none, or several, or that one does not fit.
    """
    tensors = list(tensors)
    found = [one for one in tensors if fits(one) and asked in (None, one.name)]
    if len(found) == 1:
        return found[0]
    listed = ", ".join(map(repr, tensors)) or "none"
    if asked is not None:
        raise SignatureError(f"{what}: {asked!r} is none of them that will do: {listed}")
    problem = "several will do, so name one" if found else "none will do"
    raise SignatureError(f"{what}: {problem}: {listed}")


class TextInput:
    """The input of a model that takes the text, one to a row."""

    def __init__(self, served: Model[..., Any], asked: str | None, what: str, *, documents: bool = False) -> None:
        self.tensor = pick(served.inputs, asked, lambda one: _takes_one_text(one, documents), f"{what}: its input")
        self.batched = served.batching is not None
        for other in served.inputs:
            if not other.optional and other.name != self.tensor.name:
                raise SignatureError(f"{what}: input {other.name!r} is needed too; make it optional=True")

    @property
    def takes_several(self) -> bool:
        """Whether one call takes several texts, without an axis for requests."""
        return not self.batched and self.tensor.shape == (-1,)

    def arrays(self, texts: list[str]) -> dict[str, Any]:
        """The texts of one call."""
        found: np.ndarray[Any, Any] = np.empty(len(texts), object)
        found[:] = texts
        if self.batched:
            found = found.reshape(len(texts), *([1] * len(self.tensor.shape)))
        elif not self.takes_several:
            found = found.reshape([1] * len(self.tensor.shape))
        return {self.tensor.name: found}


def _takes_one_text(tensor: Tensor, documents: bool) -> bool:
    one_element = len(tensor.shape) <= 2 and all(axis in (1, -1) for axis in tensor.shape)
    return tensor.dtype is None and tensor.datatype == "BYTES" and one_element and tensor.document is documents


def outputs_of(served: Model[..., Any], given: Any) -> Mapping[str, Any]:
    """What a call gave, by name also where there is one output only."""
    return given if isinstance(given, dict) else {served.outputs[0].name: given}
