"""The dialect of KServe, 0.13 or 0.21, for results that both cannot share.

KServe 0.13 and later versions disagree on some results: `InferResponse.to_rest` returns a dict or a tuple, a model
call returns a response or a tuple. The default is "0.21"; a script chooses the other one with

    >>> from penstock.compat.kserve import dialect
    >>> dialect.use("0.13")

or by the environment, with PENSTOCK_KSERVE_DIALECT=0.13. Argument types that show the dialect override it.
"""

from __future__ import annotations

import os

__all__ = ["VARIABLE", "current", "is_old", "use"]

VARIABLE = "PENSTOCK_KSERVE_DIALECT"
"""The environment variable of the dialect. `use` sets it too, for child processes."""

_NAMES = ("0.13", "0.21")
_chosen: str | None = None


def use(name: str) -> None:
    """Sets the dialect, "0.13" or "0.21", of this process and of processes that it starts later.

    Raises:
        ValueError: the dialect is unknown.
    """
    global _chosen  # noqa: PLW0603 - one setting of the whole process
    _chosen = _checked(name)
    os.environ[VARIABLE] = _chosen


def current() -> str:
    """Returns the dialect: set by `use` or the environment, else "0.21"."""
    return _chosen if _chosen is not None else _from_environment()


def is_old() -> bool:
    """Returns whether the dialect is 0.13."""
    return (_chosen or _from_environment()) == "0.13"


def _from_environment() -> str:
    global _chosen  # noqa: PLW0603 - read once
    _chosen = _checked(os.environ.get(VARIABLE) or "0.21")
    return _chosen


def _checked(name: str) -> str:
    if name not in _NAMES:
        raise ValueError(f"dialect: got {name!r}, expected one of {', '.join(_NAMES)}")
    return name
