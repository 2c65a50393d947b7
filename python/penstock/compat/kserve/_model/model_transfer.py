"""Transfer of models to workers: by cloudpickle, or by importing the script again in the worker.

Code that belongs to no module is pickled by value. If a script's globals cannot be pickled, its workers import the
script again, as multiprocessing does: as `__mp_main__`, so that `if __name__ == "__main__":` blocks do not run.
"""

from __future__ import annotations

import os
import pickle
import runpy
import sys
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from penstock import SignatureError
from penstock.compat.kserve import logging

__all__ = ["PackedModel", "refuse_start_during_import", "unpack_model"]

_REIMPORTED = "__mp_main__"
"""The module name of a script that was imported again."""

_importing: list[str] = []
"""The scripts being imported again now."""


@dataclass(frozen=True)
class Script:
    """The script that this process runs, for another process."""

    module: str | None
    """The module's name, of `python -m`."""
    path: str
    arguments: tuple[str, ...]

    @classmethod
    def running(cls) -> Script | None:
        """Returns this process's script; None if it has no file that a worker could import."""
        main = sys.modules["__main__"]
        path = getattr(main, "__file__", None)
        if path is None or not os.path.isfile(path):
            return None
        spec = getattr(main, "__spec__", None)
        return cls(None if spec is None else spec.name, os.path.abspath(path), tuple(sys.argv))

    def import_again(self) -> None:
        """Imports the script in this process, once."""
        if _REIMPORTED in sys.modules:
            return
        before, sys.argv = sys.argv, [*self.arguments]
        _importing.append(self.path)
        try:
            namespace = (
                runpy.run_path(self.path, run_name=_REIMPORTED)
                if self.module is None
                else runpy.run_module(self.module, run_name=_REIMPORTED, alter_sys=True)
            )
        finally:
            _importing.pop()
            sys.argv = before
        module = ModuleType(_REIMPORTED)
        module.__dict__.update(namespace)
        sys.modules["__main__"] = sys.modules[_REIMPORTED] = module


@dataclass(frozen=True)
class PackedModel:
    """A pickled model."""

    content: bytes
    script: Script | None
    """The script to import before unpickling."""
    log_config: Any
    """The configuration of KServe's loggers in the worker; False for none."""

    @classmethod
    def packed(cls, model: Any, name: str, log_config: Any = None) -> PackedModel:
        """Packs a model.

        Raises:
            SignatureError: the model cannot be pickled; the message names the attribute.
        """
        try:
            import cloudpickle
        except ImportError:
            raise SignatureError(
                f"model {name!r}: workers need the package cloudpickle: pip install 'penstock[kserve]'"
            ) from None
        try:
            return cls(cloudpickle.dumps(model), None, log_config)
        except Exception as error:
            script = Script.running()
            if script is not None and (content := _pickled_by_name(model)) is not None:
                return cls(content, script, log_config)
            raise SignatureError(
                f"model {name!r} cannot be sent to its workers: {_culprit(cloudpickle.dumps, model) or _line(error)}. "
                "Leave it out in __getstate__ and create it where it is needed, or serve with workers=1, "
                "whose threads share it"
            ) from error


def unpack_model(packed: PackedModel) -> Any:
    """Returns the model in the worker, after setting up logging as in the server's process."""
    if packed.log_config is not False and not logging.logger.handlers:
        logging.configure_logging(packed.log_config)
    if packed.script is not None:
        packed.script.import_again()
    # The content comes from the server that started this process, and from nowhere else.
    return pickle.loads(packed.content)  # noqa: S301


def refuse_start_during_import() -> None:
    """Refuses to serve while a worker imports the script.

    Raises:
        RuntimeError: a worker is importing the script.
    """
    if _importing:
        raise RuntimeError(
            f"{_importing[-1]} starts a server when a worker imports it; put that under `if __name__ == '__main__':`"
        )


def _pickled_by_name(model: Any) -> bytes | None:
    try:
        return pickle.dumps(model)
    except Exception:
        return None


def _culprit(dumps: Any, model: Any) -> str:
    for name, value in vars(model).items():
        try:
            dumps(value)
        except Exception as error:
            kind = f"{type(value).__module__}.{type(value).__qualname__}"
            return f"its attribute {name!r}, a {kind}, cannot be pickled ({_line(error)})"
    return ""


def _line(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
