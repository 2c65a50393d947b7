"""pandas' DataFrames, for scripts that have pandas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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
    return type(value).__module__.partition(".")[0] == "pandas" and hasattr(value, "columns")


def frame(tensors: Mapping[str, Any]) -> Any:
    """Tensors as columns, by their names; BYTES are text. One of several columns has its numbers in the names."""
    pd = pandas()
    columns = []
    for name, tensor in tensors.items():
        array = tensor._outgoing()
        if tensor.datatype == "BYTES":
            array = array.copy()
            array.ravel()[:] = [one.decode() if isinstance(one, bytes) else one for one in array.ravel().tolist()]
        wide = array.ndim == 2 and array.shape[1] != 1
        names = [f"{name}_{index}" for index in range(array.shape[1])] if wide else [name]
        columns.append(pd.DataFrame(array, columns=names))
    return pd.concat(columns, axis=1)
