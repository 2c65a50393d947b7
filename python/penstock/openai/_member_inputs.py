"""Optional inputs of a model that have the names of members of a request."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from penstock._model.model import Model
from penstock._spec.tensor import Tensor
from penstock.openai._errors import Refused

__all__ = ["MemberInputs"]


class MemberInputs:
    """The optional inputs of a model but its prompt.

    Args:
        served: The model.
        prompt: Name of the prompt's input.
    """

    def __init__(self, served: Model[..., Any], prompt: str) -> None:
        self._tensors = {tensor.name: tensor for tensor in served.inputs if tensor.optional and tensor.name != prompt}
        self._batched = served.batching is not None
        self.names = frozenset(self._tensors)

    def split(self, members: Mapping[str, Any], parameters: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Values of inputs, and what remains as parameters of the request."""
        both = {**parameters, **members}
        inputs = {name: value for name, value in both.items() if name in self.names}
        rest = {name: value for name, value in both.items() if name not in self.names}
        return inputs, {name: value for name, value in rest.items() if isinstance(value, bool | int | float | str)}

    def arrays(self, values: Mapping[str, Any]) -> dict[str, np.ndarray[Any, Any]]:
        """The arrays of values by name.

        Raises:
            Refused: a value does not fit its input.
        """
        return {name: self._array(self._tensors[name], value) for name, value in values.items()}

    def _array(self, tensor: Tensor, value: Any) -> np.ndarray[Any, Any]:
        if tensor.document:
            value = json.dumps(value, ensure_ascii=False)
        elif isinstance(value, dict) or (isinstance(value, list) and len(tensor.shape) == 0):
            raise Refused(f"'{tensor.name}' must be one {tensor.datatype} value here", tensor.name)
        shape = [len(value) if isinstance(value, list) and axis == -1 else max(axis, 1) for axis in tensor.shape]
        try:
            flat = np.empty(len(value), object) if isinstance(value, list) else np.empty(1, object)
            flat[:] = value if isinstance(value, list) else [value]
            array = flat if tensor.dtype is None else flat.astype(tensor.dtype)
            return array.reshape([1, *shape] if self._batched else shape)
        except (TypeError, ValueError, OverflowError):
            text = f"'{tensor.name}' must be {tensor.datatype} of the shape {list(tensor.shape)} here"
            raise Refused(text, tensor.name) from None
