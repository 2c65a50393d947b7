"""The one place that reads and writes pickles: files of a deployment's own folder.

They are the user's code, as trusted as source.py beside them. Nothing that came over the network is ever read here.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import sys
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from operator import attrgetter
from pathlib import Path
from typing import Any

from penstock.compat.modelbit.errors import UserFacingError
from penstock.integrations.modules import OwnModules

__all__ = ["by_value", "finding", "read", "write"]


def read(path: Path) -> Any:
    """What a file of the deployment holds."""
    with path.open("rb") as file:
        return _Unpickler(file).load()


@contextlib.contextmanager
def finding(modules: OwnModules) -> Iterator[None]:
    """Has pickles that are read meanwhile mean an app's own modules by what they name."""
    token = _MODULES.set(modules)
    try:
        yield
    finally:
        _MODULES.reset(token)


def write(value: Any, path: Path) -> None:
    """Writes an object to a file, whose folder is made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        pickle.dump(value, file)


def by_value(function: Callable[..., Any]) -> bytes:
    """A function with the globals that it uses, and the helpers of its own module.

    Raises:
        UserFacingError: it uses what cannot be written, or cloudpickle is not installed.
    """
    try:
        import cloudpickle
    except ImportError:
        raise UserFacingError("deploy writes functions by cloudpickle: pip install 'penstock[processes]'") from None
    module = sys.modules.get(getattr(function, "__module__", "") or "")
    own = module is not None and module.__name__ != "__main__" and _is_users(module)
    if own:
        # Where it is served, there may be no such module.
        cloudpickle.register_pickle_by_value(module)
    try:
        pickled: bytes = cloudpickle.dumps(function)
    except Exception as error:
        raise UserFacingError(
            f"the function uses what cannot be deployed ({type(error).__name__}: {error}); "
            "make that where the deployment starts, or in the function"
        ) from error
    finally:
        if own:
            cloudpickle.unregister_pickle_by_value(module)
    return pickled


def _is_users(module: Any) -> bool:
    """Whether a module is not one that is installed."""
    file = getattr(module, "__file__", None)
    return file is not None and "site-packages" not in file and not file.startswith(os.path.dirname(os.__file__))


class _Unpickler(pickle.Unpickler):
    """Reads pickles of an app whose modules have names of their own."""

    def find_class(self, module_name: str, global_name: str) -> Any:
        modules = _MODULES.get()
        if modules is not None:
            try:
                module = modules.find(module_name)
            except ImportError:
                # Of Python 2, say: the library knows its names.
                pass
            else:
                if module.__name__ != module_name:
                    return attrgetter(global_name)(module)
        return super().find_class(module_name, global_name)


_MODULES: ContextVar[OwnModules | None] = ContextVar("penstock_modelbit_modules", default=None)
