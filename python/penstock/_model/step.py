"""`Step`: one model of a pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from penstock.errors import SignatureError

__all__ = ["Step"]


class _Named(Protocol):
    """A `Model` or a `Pipeline`."""

    name: str


class Step:
    """One model of a pipeline, with its input and output tensors.

    Args:
        model: The model, or its name.
        inputs: The pipeline's tensor for each input of the model; default: tensors of the same names. Optional inputs
            may be left out.
        outputs: The pipeline's tensor for each output of the model; default: tensors of the same names. Outputs that
            are left out are dropped.
        version: Version of the model; default: the one that the server chooses for a client.
    """

    def __init__(
        self,
        model: _Named | str,
        inputs: Mapping[str, str] | None = None,
        outputs: Mapping[str, str] | None = None,
        *,
        version: str | int | None = None,
    ) -> None:
        name = model if isinstance(model, str) else getattr(model, "name", None)
        if not isinstance(name, str):
            raise SignatureError(f"a step's model is a @model, a Pipeline or a name, not {model!r}")
        self.model = name
        self.inputs = None if inputs is None else dict(inputs)
        self.outputs = None if outputs is None else dict(outputs)
        self.version = None if version is None else str(version)

    def __repr__(self) -> str:
        return f"Step({self.model!r}, inputs={self.inputs}, outputs={self.outputs})"
