"""How the processes of a model are started: the command, the environment, and what they are told to load."""

from __future__ import annotations

import importlib
import itertools
import json
import logging
import os
import subprocess
import sys
from dataclasses import dataclass, replace
from types import ModuleType
from typing import TYPE_CHECKING, Any

from penstock.errors import SignatureError, StartupError
from penstock.instances import processors

if TYPE_CHECKING:
    from penstock._definition import Definition
    from penstock._model import Model
    from penstock.instances import Processes

__all__ = ["Spawning", "bound_threads", "in_folder", "received", "spawning"]

_PROGRAM = "import sys; sys.path[:] = sys.argv[2:]; from penstock._child import main; main()"

# Another interpreter has its own packages: of the server's, it gets Penstock alone.
_ELSEWHERE = (
    "import sys, importlib.util as util; "
    "spec = util.spec_from_file_location('penstock', sys.argv[2] + '/__init__.py', "
    "submodule_search_locations=[sys.argv[2]]); "
    "sys.modules['penstock'] = package = util.module_from_spec(spec); spec.loader.exec_module(package); "
    "from penstock._child import main; main()"
)

_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")
"""Where numeric libraries look for how many threads they may use; torch reads the first two."""

_SET: dict[str, str] = {}
"""What `bound_threads` has set: for one process of many it is too much."""

_BY_NAME, _IN_FOLDER, _BY_VALUE, _MADE = b"name ", b"fold ", b"code ", b"made "


@dataclass(frozen=True, slots=True)
class Spawning:
    """What is needed to start the processes of a model. Rust reads these attributes by name."""

    program: str
    arguments: list[str]
    environments: list[list[tuple[str, str]]]
    """What is different in the environment of each instance."""
    payload: bytes
    """What a process loads: see `received`."""
    hang_after: float | None
    abandoned_after: float | None
    max_rss: int | None
    max_age: float | None
    max_batches: int | None


def in_folder(folder: str, name: str, version: str) -> bytes:
    """What the processes of a model load that lies in a folder of its own, as one version of a repository."""
    return _IN_FOLDER + json.dumps({"folder": folder, "name": name, "version": version}).encode()


def spawning(processes: Processes, definition: Definition, model: Model[..., Any], payload: bytes | None) -> Spawning:
    """How the processes of a model are started. Without a payload, it is found out what they are to load.

    Raises:
        SignatureError: its code cannot be brought into another process; the message says why.
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
        return ["-c", _ELSEWHERE, title, os.path.dirname(os.path.abspath(__file__))]
    flags = [*subprocess._args_from_interpreter_flags()]  # type: ignore[attr-defined]
    return [*flags, "-c", _PROGRAM, title, *filter(_is_text, sys.path)]


def bound_threads() -> None:
    """Has numeric libraries that are loaded from now on see the container's quota, unless the environment says more.

    Without a quota they count for themselves, some by cores rather than by processors.
    """
    if (count := processors()) < len(os.sched_getaffinity(0)):
        for name in _THREADS:
            if name not in os.environ:
                os.environ[name] = _SET[name] = str(count)


def received(payload: bytes) -> Definition:
    """What a process is told to load, in that process."""
    kind, content = payload[:5], payload[5:]
    if kind == _BY_NAME:
        from penstock import _load

        told = json.loads(content)
        target: Any = _load.load_object(told["path"], told["name"])
        made = target if hasattr(target, "bare_definition") else _model_of(target)
        definition: Definition = made.bare_definition()
        return definition
    if kind == _IN_FOLDER:
        from pathlib import Path

        from penstock._repository.native import Native

        told = json.loads(content)
        return Native().define(Path(told["folder"]), told["name"], told["version"])
    if kind == _MADE:
        told = json.loads(content)
        module, _, name = told["function"].partition(":")
        bare: Definition = getattr(importlib.import_module(module), name)(**told["arguments"]).bare_definition()
        return bare
    if kind != _BY_VALUE:
        raise StartupError("the server sent nothing that can be loaded")
    from penstock import _by_value

    return _by_value.load(content)


def _model_of(target: Any) -> Model[..., Any]:
    from penstock._model import model

    made: Model[..., Any] = model(target)
    return made


def _payload(processes: Processes, definition: Definition, model: Model[..., Any]) -> bytes:
    if processes.made_by is not None:
        function, arguments = processes.made_by
        return _MADE + json.dumps({"function": function, "arguments": json.loads(arguments)}).encode()
    if (place := _place(model)) is not None:
        path, name = place
        return _BY_NAME + json.dumps({"path": path, "name": name}).encode()
    from penstock import _by_value

    return _BY_VALUE + _by_value.dump(replace(definition, processes=None, explainer=None))


def _place(model: Model[..., Any]) -> tuple[str, str] | None:
    """Where another process finds the model: a module or file, and a name in it. None where it cannot."""
    target: Any = model.__wrapped__
    module = sys.modules.get(getattr(target, "__module__", None) or "")
    name = getattr(target, "__qualname__", "")
    # What has no options of its own is made anew of what was decorated.
    wanted = (model, target) if not model._options else (model,)
    for home in (module, *_homes(model)):
        if home is None or (path := _path_of(home)) is None:
            continue
        names = [name, *(known for known, value in vars(home).items() if value is model)]
        for one in names:
            if any(_found(home, one) is value for value in wanted):
                return path, one
    return None


def _homes(model: Model[..., Any]) -> list[ModuleType]:
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
    if module.__name__ == "__main__" or spec is None or not _is_found_anew(module.__name__):
        return None
    return module.__name__


def _is_found_anew(name: str) -> bool:
    """Whether the import system would find a module that it has already loaded."""
    from importlib.machinery import PathFinder

    path = None
    for parent in itertools.accumulate(name.split("."), lambda before, part: f"{before}.{part}"):
        spec = PathFinder.find_spec(parent, path)
        if spec is None:
            return False
        path = spec.submodule_search_locations
    return True


def _found(home: ModuleType, name: str) -> Any:
    found: Any = home
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def _is_text(one: object) -> bool:
    return isinstance(one, str)


def _environments(processes: Processes, model: str) -> list[list[tuple[str, str]]]:
    shared = [*_thread_settings(processes, model), *processes.env]
    if not processes.gpus:
        return [shared]
    gpus = processes.gpus
    return [[*shared, ("CUDA_VISIBLE_DEVICES", gpus[index % len(gpus)])] for index in range(processes.count)]


def _thread_settings(processes: Processes, model: str) -> list[tuple[str, str]]:
    cores = processors()
    share = max(1, cores // processes.count)
    own = dict(processes.env)
    if processes.threads is not None:
        _warn_of_too_many(model, processes, processes.threads, cores, f"threads={share}")
        return [(name, str(processes.threads)) for name in _THREADS]
    said = {**{name: value for name, value in os.environ.items() if _SET.get(name) != value}, **own}
    given = [int(said[name]) for name in _THREADS if said.get(name, "").isdigit()]
    most = max(given, default=share)
    _warn_of_too_many(model, processes, most, cores, f"threads={share}")
    return [(name, str(share)) for name in _THREADS if name not in said]


def _warn_of_too_many(model: str, processes: Processes, threads: int, cores: int, setting: str) -> None:
    if threads * processes.count <= cores:
        return
    count = processes.count
    setting = f"Processes({count}, {setting})" if count <= cores else f"Processes({cores}, threads=1)"
    logging.getLogger(f"penstock.{model}").warning(
        "model %r: %d processes with %d threads each are more than the %d cores here; set instances=%s",
        model,
        count,
        threads,
        cores,
        setting,
    )
