"""Which of KServe's two dialects holds where a script cannot be served in both at once.

KServe 0.13 and what came after it disagree on some results: `InferResponse.to_rest` gives a dict or a tuple, a model
that is called gives its response or a tuple. "0.21" is the default; a script chooses the other one with

    >>> from penstock.compat.kserve import dialect
    >>> dialect.use("0.13")

or from outside, with PENSTOCK_KSERVE_DIALECT=0.13. What can be told apart by the arguments' types, is.
"""

from __future__ import annotations

import os

__all__ = ["VARIABLE", "current", "is_old", "use"]

VARIABLE = "PENSTOCK_KSERVE_DIALECT"
"""The environment variable that chooses the dialect. `use` sets it as well, for the processes of this one."""

_NAMES = ("0.13", "0.21")
_chosen: str | None = None


def use(name: str) -> None:
    """Chooses the dialect, "0.13" or "0.21", for this process and those that it starts from now on.

    Raises:
        ValueError: there is no such dialect.
    """
    global _chosen  # noqa: PLW0603 - one setting of the whole process
    _chosen = _checked(name)
    os.environ[VARIABLE] = _chosen


def current() -> str:
    """The dialect that holds: what `use` or the environment says, else "0.21"."""
    return _chosen if _chosen is not None else _from_environment()


def is_old() -> bool:
    """Whether the dialect is that of 0.13."""
    return (_chosen or _from_environment()) == "0.13"


def _from_environment() -> str:
    global _chosen  # noqa: PLW0603 - read once
    _chosen = _checked(os.environ.get(VARIABLE) or "0.21")
    return _chosen


def _checked(name: str) -> str:
    if name not in _NAMES:
        raise ValueError(f"there is no KServe dialect {name!r}: it is one of {', '.join(_NAMES)}")
    return name
