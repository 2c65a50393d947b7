"""pandas DataFrames, for scripts that use pandas."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from penstock.compat.kserve.protocol._rest_body import leaves, listed

__all__ = ["frame", "is_frame", "pandas"]


def pandas() -> Any:
    """Returns the package.

    Raises:
        ImportError: pandas is not installed.
    """
    try:
        import pandas
    except ImportError:
        raise ImportError("this needs the package pandas, which is not installed") from None
    return pandas


def is_frame(value: Any) -> bool:
    """Returns whether a value is a DataFrame, without importing pandas."""
    return (
        not isinstance(value, (np.ndarray, list))
        and type(value).__module__.partition(".")[0] == "pandas"
        and hasattr(value, "columns")
    )


def frame(tensors: Iterable[Any]) -> Any:
    """Returns tensors as columns by name; BYTES are text. The columns of a 2-D tensor are numbered."""
    pd = pandas()
    return pd.concat([_columns(pd, tensor) for tensor in tensors], axis=1)


def _columns(pd: Any, tensor: Any) -> Any:
    # From lists, as in KServe: pandas infers the columns' types.
    values, shape = leaves(listed(tensor)), tensor.shape
    if tensor.datatype == "BYTES":
        values = [value.decode() if isinstance(value, bytes) else value for value in values]
    if len(shape) == 2 and shape[1] != 1:
        names = [f"{tensor.name}_{index}" for index in range(shape[1])]
        return pd.DataFrame(np.array(values).reshape(shape), columns=names)
    return pd.DataFrame(values, columns=[tensor.name])
