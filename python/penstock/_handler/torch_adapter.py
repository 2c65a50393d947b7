"""Adapter of `torch.Tensor`: a tensor in the memory of the request's array, and back.

The annotation names the class, so torch is imported already.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from penstock._handler.adapters import Adapter
from penstock._spec import datatypes
from penstock._spec.tensor import Tensor
from penstock.errors import SignatureError

__all__ = ["is_torch", "torch_adapter"]


def is_torch(hint: Any) -> bool:
    """True for `torch.Tensor` and its subclasses."""
    return isinstance(hint, type) and any(
        (base.__module__, base.__name__) == ("torch", "Tensor") for base in hint.__mro__
    )


def torch_adapter(tensor: Tensor, where: str) -> Adapter:
    """The adapter for a declared tensor.

    A parameter shares the memory of its array; one that cannot be written is copied, as torch has no such tensors. A
    result may be on any device and may require a gradient; bfloat16 becomes float32, which has all its values.

    Raises:
        SignatureError: a tensor of BYTES, which torch does not have.
    """
    if tensor.datatype == datatypes.BYTES:
        raise SignatureError(f"{where} is a torch.Tensor, which cannot hold BYTES; declare np.ndarray for it")
    torch = importlib.import_module("torch")

    def to_python(array: np.ndarray[Any, Any], name: str) -> Any:
        del name
        return torch.from_numpy(array if array.flags.writeable else array.copy())

    def to_array(value: Any, name: str) -> Any:
        del name
        if not isinstance(value, torch.Tensor):
            # As without the annotation: an array, or what becomes one.
            return value
        value = value.detach()
        return (value.float() if value.dtype == torch.bfloat16 else value).cpu().numpy()

    return Adapter(tensor, to_python, to_array)
