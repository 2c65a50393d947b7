"""Start of a model's processes: command, environment and payload."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from dataclasses import replace
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol

from penstock._runtime import payload_kind, pickling
from penstock._runtime.threads import thread_settings
from penstock._spec.placement import Spawning
from penstock.errors import SignatureError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock._spec.definition import Definition
    from penstock._spec.instances import Processes

__all__ = ["spawning"]

_PROGRAM = "import sys; sys.path[:] = sys.argv[2:]; from penstock._worker.main import main; main()"

# Another interpreter has its own packages; only Penstock comes from the server.
_ELSEWHERE = (
    "import sys, importlib.util as util; "
    "spec = util.spec_from_file_location('penstock', sys.argv[2] + '/__init__.py', "
    "submodule_search_locations=[sys.argv[2]]); "
    "sys.modules['penstock'] = package = util.module_from_spec(spec); spec.loader.exec_module(package); "
    "from penstock._worker.main import main; main()"
)


class Wrapper(Protocol):
    """A model, as the function or class that it wraps and the options that it was given."""

    @property
    def __wrapped__(self) -> Callable[..., Any]: ...
    @property
    def _options(self) -> Mapping[str, Any]: ...


def spawning(processes: Processes, definition: Definition, model: Wrapper, payload: bytes | None) -> Spawning:
    """The processes to start for a model. Without a payload, it is determined from the model.

    Raises:
        SignatureError: another process can neither import the model nor receive its code.
    """
    if not sys.executable:
        raise SignatureError(f"model {definition.name!r}: this interpreter does not know its own program")
    return Spawning(
        program=processes.python or sys.executable,
        arguments=_arguments(f"penstock: model {definition.name!r}", elsewhere=processes.python is not None),
        environments=_environments(processes, definition.name),
        payload=_payload(processes, definition, model) if payload is None else payload,
        hang_after=processes.hang_after,
        abandoned_after=processes.abandoned_after,
        max_rss=processes.max_rss,
        max_age=processes.max_age,
        max_batches=processes.max_batches,
    )


def _arguments(title: str, *, elsewhere: bool) -> list[str]:
    if elsewhere:
        return ["-c", _ELSEWHERE, title, os.path.dirname(os.path.dirname(os.path.abspath(__file__)))]
    flags = [*subprocess._args_from_interpreter_flags()]  # type: ignore[attr-defined]
    return [*flags, "-c", _PROGRAM, title, *filter(_is_text, sys.path)]


def _payload(processes: Processes, definition: Definition, model: Wrapper) -> bytes:
    if processes.factory is not None:
        function, arguments = processes.factory
        return payload_kind.MADE + json.dumps({"function": function, "arguments": json.loads(arguments)}).encode()
    if (reference := _reference(model)) is not None:
        path, name = reference
        return payload_kind.BY_NAME + json.dumps({"path": path, "name": name}).encode()
    return payload_kind.BY_VALUE + pickling.dump(replace(definition, processes=None, explainer=None))


def _reference(model: Wrapper) -> tuple[str, str] | None:
    """A module or file that another process can import, and the model's name in it. None if there is none."""
    target: Any = model.__wrapped__
    module = sys.modules.get(getattr(target, "__module__", None) or "")
    name = getattr(target, "__qualname__", "")
    # A model without options can be rebuilt from its target.
    wanted = (model, target) if not model._options else (model,)
    for home in (module, *_homes(model)):
        if home is None or (path := _path_of(home)) is None:
            continue
        names = [name, *(known for known, value in vars(home).items() if value is model)]
        for candidate in names:
            if any(_lookup(home, candidate) is value for value in wanted):
                return path, candidate
    return None


def _homes(model: Wrapper) -> list[ModuleType]:
    """The modules of user code that hold the model."""
    return [
        one
        for one in list(sys.modules.values())
        if isinstance(one, ModuleType) and any(value is model for value in list(vars(one).values()))
    ]


def _path_of(module: ModuleType) -> str | None:
    if (file := getattr(module, "__penstock_file__", None)) is not None:
        return str(file)
    spec = getattr(module, "__spec__", None)
    if module.__name__ == "__main__" or spec is None or not _is_importable(module.__name__):
        return None
    return module.__name__


def _is_importable(name: str) -> bool:
    """True if the import system can find a loaded module again."""
    from importlib.machinery import PathFinder

    path = None
    for parent in itertools.accumulate(name.split("."), lambda before, part: f"{before}.{part}"):
        spec = PathFinder.find_spec(parent, path)
        if spec is None:
            return False
        path = spec.submodule_search_locations
    return True


def _lookup(home: ModuleType, name: str) -> Any:
    value: Any = home
    for part in name.split("."):
        value = getattr(value, part, None)
    return value


def _is_text(one: object) -> bool:
    return isinstance(one, str)


def _environments(processes: Processes, model: str) -> list[list[tuple[str, str]]]:
    shared = [*thread_settings(processes, model), *processes.env]
    if not processes.gpus:
        return [shared]
    gpus = processes.gpus
    return [[*shared, ("CUDA_VISIBLE_DEVICES", gpus[index % len(gpus)])] for index in range(processes.count)]
