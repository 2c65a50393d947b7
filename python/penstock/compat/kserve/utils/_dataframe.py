"""pandas' DataFrames, for scripts that have pandas."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from penstock.compat.kserve.protocol._rest_body import leaves, listed

__all__ = ["frame", "is_frame", "pandas"]


def pandas() -> Any:
    """The package.

    Raises:
        ImportError: it is not installed.
    """
    try:
        import pandas
    except ImportError:
        raise ImportError("this needs the package pandas, which is not installed") from None
    return pandas


def is_frame(value: Any) -> bool:
    """Whether it is a DataFrame. Asked without importing pandas, for who has one has imported it."""
    return (
        not isinstance(value, (np.ndarray, list))
        and type(value).__module__.partition(".")[0] == "pandas"
        and hasattr(value, "columns")
    )


def frame(tensors: Iterable[Any]) -> Any:
    """Tensors as columns, by their names; BYTES are text. A tensor of several columns numbers them in their names."""
    pd = pandas()
    return pd.concat([_columns(pd, tensor) for tensor in tensors], axis=1)


def _columns(pd: Any, tensor: Any) -> Any:
    # Of lists, as in KServe: pandas finds the columns' types by itself.
    values, shape = leaves(listed(tensor)), tensor.shape
    if tensor.datatype == "BYTES":
        values = [value.decode() if isinstance(value, bytes) else value for value in values]
    if len(shape) == 2 and shape[1] != 1:
        names = [f"{tensor.name}_{index}" for index in range(shape[1])]
        return pd.DataFrame(np.array(values).reshape(shape), columns=names)
    return pd.DataFrame(values, columns=[tensor.name])
