"""Reading and writing of pickles; no other module does either.

The files are in the deployment's own folder and as trusted as its source.py. Data from the network is never unpickled.
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
from penstock.integrations.modules import IsolatedModules

__all__ = ["dump_by_value", "read", "use_modules", "write"]


def read(path: Path) -> Any:
    """Loads the object of a file."""
    with path.open("rb") as file:
        return _Unpickler(file).load()


@contextlib.contextmanager
def use_modules(modules: IsolatedModules) -> Iterator[None]:
    """Resolves module names in pickles by an app's isolated modules, within the block."""
    token = _MODULES.set(modules)
    try:
        yield
    finally:
        _MODULES.reset(token)


def write(value: Any, path: Path) -> None:
    """Pickles an object to a file; creates the file's folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        pickle.dump(value, file)


def dump_by_value(function: Callable[..., Any]) -> bytes:
    """Pickles a function with the globals it uses and the helpers of its module.

    Raises:
        UserFacingError: the function uses an object that cannot be pickled, or cloudpickle is not installed.
    """
    try:
        import cloudpickle
    except ImportError:
        raise UserFacingError("deploy writes functions by cloudpickle: pip install 'penstock[modelbit]'") from None
    module = sys.modules.get(getattr(function, "__module__", "") or "")
    by_value = module is not None and module.__name__ != "__main__" and _is_user_module(module)
    if by_value:
        # The serving process may not have this module.
        cloudpickle.register_pickle_by_value(module)
    try:
        pickled: bytes = cloudpickle.dumps(function)
    except Exception as error:
        raise UserFacingError(
            f"the function uses what cannot be deployed ({type(error).__name__}: {error}); "
            "create it in the function or when the deployment starts"
        ) from error
    finally:
        if by_value:
            cloudpickle.unregister_pickle_by_value(module)
    return pickled


def _is_user_module(module: Any) -> bool:
    """Returns whether a module is neither installed nor part of the standard library."""
    file = getattr(module, "__file__", None)
    return file is not None and "site-packages" not in file and not file.startswith(os.path.dirname(os.__file__))


class _Unpickler(pickle.Unpickler):
    """Unpickler that resolves classes by the isolated modules of `use_modules`."""

    def find_class(self, module_name: str, global_name: str) -> Any:
        modules = _MODULES.get()
        if modules is not None:
            try:
                module = modules.find(module_name)
            except ImportError:
                # Possibly a module name of Python 2, which the base class maps.
                pass
            else:
                if module.__name__ != module_name:
                    return attrgetter(global_name)(module)
        return super().find_class(module_name, global_name)


_MODULES: ContextVar[IsolatedModules | None] = ContextVar("penstock_modelbit_modules", default=None)
