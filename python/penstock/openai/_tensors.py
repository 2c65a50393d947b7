"""Choice of a model's text and vector tensors, and texts as arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from penstock._model.model import Model, model
from penstock._spec.tensor import Tensor
from penstock.errors import HandlerError, SignatureError

__all__ = ["TextInput", "as_model", "is_text", "numbers", "outputs_of", "pick", "texts_array"]


def as_model(target: Any, what: str) -> Model[..., Any]:
    """A model, or the model of a function or class with sufficient annotations."""
    if isinstance(target, Model):
        matching = target
    elif callable(target):
        matching = model(target)
    else:
        raise SignatureError(f"{what} takes a model or a function, not {target!r}")
    if matching.sequences is not None:
        raise SignatureError(f"{what}: model {matching.name!r} keeps sequences, which these routes cannot carry")
    return matching


def pick(tensors: Iterable[Tensor], name: str | None, fits: Callable[[Tensor], bool], what: str) -> Tensor:
    """The tensor of a name, or the only one that fits.

    Raises:
        SignatureError: there is none, or several, or that one does not fit.
    """
    tensors = list(tensors)
    matching = [tensor for tensor in tensors if fits(tensor) and name in (None, tensor.name)]
    if len(matching) == 1:
        return matching[0]
    listed = ", ".join(map(repr, tensors)) or "none"
    if name is not None:
        raise SignatureError(f"{what}: {name!r} does not fit, expected one of: {listed}")
    problem = "several will do, so name one" if matching else "none will do"
    raise SignatureError(f"{what}: {problem}: {listed}")


class TextInput:
    """The input of a model for texts, one in each row.

    Args:
        served: The model.
        name: The input's name; None for the only one that fits.
        what: Prefix of messages.
        documents: Set for JSON documents instead of texts.
        usual: A name that precedes others.
    """

    def __init__(
        self, served: Model[..., Any], name: str | None, what: str, *, documents: bool = False, usual: str = ""
    ) -> None:
        inputs = [*served.inputs]
        if name is None and any(tensor.name == usual for tensor in inputs):
            name = usual
        elif name is None:
            # Optional inputs are for other members of a request.
            inputs = [tensor for tensor in inputs if not tensor.optional] or inputs
        self.tensor = pick(inputs, name, lambda tensor: _takes_one_text(tensor, documents), f"{what}: its input")
        self.batched = served.batching is not None
        for other in served.inputs:
            if not other.optional and other.name != self.tensor.name:
                raise SignatureError(f"{what}: input {other.name!r} is needed too; make it optional=True")

    @property
    def takes_several(self) -> bool:
        """True if one call takes several texts, without a batch axis."""
        return not self.batched and self.tensor.shape == (-1,)

    def arrays(self, texts: list[str]) -> dict[str, Any]:
        """The inputs of one call, for its texts."""
        return {self.tensor.name: texts_array(texts, self.tensor, batched=self.batched)}


def _takes_one_text(tensor: Tensor, documents: bool) -> bool:
    one_element = len(tensor.shape) <= 2 and all(axis in (1, -1) for axis in tensor.shape)
    return tensor.dtype is None and tensor.datatype == "BYTES" and one_element and tensor.document is documents


def outputs_of(served: Model[..., Any], given: Any) -> Mapping[str, Any]:
    """The outputs of a call by name, also for a single output."""
    return given if isinstance(given, dict) else {served.outputs[0].name: given}


def is_text(tensor: Tensor) -> bool:
    """True for text and bytes that are not a JSON document."""
    return tensor.dtype is None and tensor.datatype == "BYTES" and not tensor.document


def texts_array(texts: list[str], tensor: Tensor, *, batched: bool) -> Any:
    """The array of texts: rows of a batch, the elements of a variable axis, or the only element."""
    array: np.ndarray[Any, Any] = np.empty(len(texts), object)
    array[:] = texts
    if batched:
        return array.reshape(len(texts), *([1] * len(tensor.shape)))
    return array if tensor.shape == (-1,) else array.reshape([1] * len(tensor.shape))


def numbers(vector: np.ndarray[Any, Any]) -> list[float]:
    """The elements of a vector, for JSON.

    Raises:
        HandlerError: JSON cannot carry one of them.
    """
    if not np.isfinite(vector).all():
        raise HandlerError("the model gave a vector with NaN or infinity, which JSON cannot carry")
    if vector.dtype.kind == "f" and vector.dtype.itemsize <= 4:
        # The shortest text of each float32, which is shorter than that of the equal double.
        vector = vector.astype(np.float32).astype("U")
    found: list[float] = vector.astype(np.float64).tolist()
    return found
