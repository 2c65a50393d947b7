"""How models get to workers: with the code of the script that they come from, or by importing that script there.

Code that no module has is sent along where it can be. Where a script's globals cannot be sent, its workers import it
anew as multiprocessing's do: as `__mp_main__`, so that what stands under `if __name__ == "__main__":` does not run.
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

__all__ = ["Carried", "refuse_start_while_importing", "unpacked"]

_AGAIN = "__mp_main__"
"""The name of a script that was imported anew."""

_importing: list[str] = []
"""What is imported anew now."""


@dataclass(frozen=True)
class Script:
    """The script that this process runs, for another process."""

    module: str | None
    """The module's name, of `python -m`."""
    path: str
    arguments: tuple[str, ...]

    @classmethod
    def running(cls) -> Script | None:
        """That of this process; None where it has none that could be found again."""
        main = sys.modules["__main__"]
        path = getattr(main, "__file__", None)
        if path is None or not os.path.isfile(path):
            return None
        spec = getattr(main, "__spec__", None)
        return cls(None if spec is None else spec.name, os.path.abspath(path), tuple(sys.argv))

    def import_again(self) -> None:
        """Imports it in this process, once."""
        if _AGAIN in sys.modules:
            return
        before, sys.argv = sys.argv, [*self.arguments]
        _importing.append(self.path)
        try:
            found = (
                runpy.run_path(self.path, run_name=_AGAIN)
                if self.module is None
                else runpy.run_module(self.module, run_name=_AGAIN, alter_sys=True)
            )
        finally:
            _importing.pop()
            sys.argv = before
        module = ModuleType(_AGAIN)
        module.__dict__.update(found)
        sys.modules["__main__"] = sys.modules[_AGAIN] = module


@dataclass(frozen=True)
class Carried:
    """A model on its way."""

    content: bytes
    script: Script | None
    """What has to be imported before."""
    log_config: Any
    """How KServe's loggers are to be set up there; False for not at all."""

    @classmethod
    def packed(cls, model: Any, name: str, log_config: Any = None) -> Carried:
        """Packs a model.

        Raises:
            SignatureError: it cannot be sent; the message names what of it.
        """
        try:
            import cloudpickle
        except ImportError:
            raise SignatureError(
                f"model {name!r}: workers need the package cloudpickle, which brings models to them: "
                "pip install 'penstock[processes]'"
            ) from None
        try:
            return cls(cloudpickle.dumps(model), None, log_config)
        except Exception as error:
            script = Script.running()
            if script is not None and (content := _by_name(model)) is not None:
                return cls(content, script, log_config)
            raise SignatureError(
                f"model {name!r} cannot be sent to its workers: {_culprit(cloudpickle.dumps, model) or _line(error)}. "
                "Leave it out in __getstate__ and make it where it is needed, or serve with workers=1, "
                "whose threads share it"
            ) from error


def unpacked(carried: Carried) -> Any:
    """The model, in the process that it was sent to, where logging is set up as in the server's."""
    if carried.log_config is not False and not logging.logger.handlers:
        logging.configure_logging(carried.log_config)
    if carried.script is not None:
        carried.script.import_again()
    # What this process was sent by the server that started it, and by nobody else.
    return pickle.loads(carried.content)  # noqa: S301


def refuse_start_while_importing() -> None:
    """Stops a script that would serve where it is only imported.

    Raises:
        RuntimeError: it would.
    """
    if _importing:
        raise RuntimeError(
            f"{_importing[-1]} starts a server when a worker imports it; put that under `if __name__ == '__main__':`"
        )


def _by_name(model: Any) -> bytes | None:
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
