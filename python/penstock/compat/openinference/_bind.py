"""The Penstock model that serves a function."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penstock import Context, Model, Processes, Request, Response, Tensor, Threads, logs
from penstock.compat.openinference import _virtualenv
from penstock.compat.openinference._definition.function_spec import FunctionSpec, TensorSpec
from penstock.compat.openinference._definition.requirements import lines_of
from penstock.compat.openinference._settings import Options
from penstock.compat.openinference._sources.fetch import fetched, is_remote
from penstock.errors import StartupError

__all__ = ["bind", "made"]

_MAKER = "penstock.compat.openinference:made"
_log = logging.getLogger("penstock.openinference")
_kept: list[tempfile.TemporaryDirectory[str]] = []
"""Code from elsewhere, for as long as this process lives."""


def bind(function: FunctionSpec, options: Options) -> Model[..., Any]:
    """The model that serves a function in processes of its own, in an environment of its own if it asks for packages.

    Code from elsewhere is got once, here: all processes, and those that are started again, run the same.

    Raises:
        StartupError: its code or its packages cannot be got, or it cannot be in the server's process as it is to be.
    """
    if options.isolation == "server":
        _check_for_server(function, options)
        if not logging.getLogger().hasHandlers():
            logs.setup()
    # From now on requests say who they are, for the lines that their handlers log.
    logs.RequestFilter()
    root = None
    if is_remote(function.source):
        _kept.append(tempfile.TemporaryDirectory(prefix="penstock-source-"))
        root = fetched(function, Path(_kept[-1].name)).root
    else:
        with tempfile.TemporaryDirectory() as empty:
            # What is wrong with it is told before anything is started.
            fetched(function, Path(empty))
    if options.isolation == "server":
        return _model(function, options, root, None)
    told = {"function": function.as_json(), "options": _told(options), "root": None if root is None else str(root)}
    processes = Processes(
        options.replicas, env=dict(options.envs), python=_python(function, options), made_by=(_MAKER, told)
    )
    return _model(function, options, root, processes)


def made(function: Mapping[str, Any], options: Mapping[str, Any], root: str | None) -> Model[..., Any]:
    """The same model in a process that computes it. Called by that process alone."""
    # What handlers log comes out of the server.
    logs.setup()
    place = None if root is None else Path(root)
    return _model(FunctionSpec.of_json(function), Options.of(options), place, None)


def _model(function: FunctionSpec, options: Options, root: Path | None, processes: Processes | None) -> Model[..., Any]:
    # In a process of the function's, what is imported for a server is not needed.
    class Function:
        def __init__(self) -> None:
            from penstock.compat.openinference._handler.served_function import Served

            self._served = Served(function, options, root)

        def __call__(self, request: Request, ctx: Context) -> Response:
            return self._served(request, ctx)

        def close(self) -> None:
            self._served.close()

    return Model(
        Function,
        name=function.model_name,
        version=options.version,
        description=f"Function {function.name} of project {options.project or function.project}.",
        inputs=[_tensor(one) for one in function.inputs],
        outputs=[_tensor(one) for one in function.outputs],
        routes=_routes(function.model_name, options) if options.data == "sent" else None,
        instances=processes or Threads(options.replicas),
    )


def _routes(model: str, options: Options) -> list[str]:
    """Where requests in JSON come in as they were sent."""
    model, version = (one.replace("{", "{{").replace("}", "}}") for one in (model, options.version))
    return [f"POST /v2/models/{model}{more}/infer" for more in ("", f"/versions/{version}")]


def _tensor(declared: TensorSpec) -> Tensor:
    return Tensor(declared.name, declared.datatype, declared.shape)


def _check_for_server(function: FunctionSpec, options: Options) -> None:
    """Refuses what only a process of its own can have.

    Raises:
        StartupError: the function asks for that.
    """
    why = ""
    if options.envs:
        why = f"the option envs sets {', '.join(options.envs)}"
    elif options.environment == "auto" and (lines := lines_of(function.requirements, function.folder)):
        why = f"it asks for the packages {', '.join(lines)}"
    elif options.python == "exact" and not _virtualenv.is_servers(function.python_version):
        why = f"it is for Python {function.python_version} exactly"
    if not why:
        _warn_of_version(function)
    else:
        hint = ", or environment=none if the server has them" if "packages" in why else ""
        raise StartupError(
            f"function {function.name!r} cannot be in the server's process: {why}. Set isolation=process{hint}"
        )


def _told(options: Options) -> dict[str, Any]:
    return {name: getattr(options, name) for name in options.__dataclass_fields__}


def _python(function: FunctionSpec, options: Options) -> str | None:
    """The interpreter of the function's own environment; None for the server's."""
    if options.environment == "none":
        return None
    requirements, exact = lines_of(function.requirements, function.folder), options.python == "exact"
    # For another version alone no environment is made, unless it is asked for.
    if not requirements and not exact:
        _warn_of_version(function)
        return None
    python = _virtualenv.python_of(function.python_version, exact=exact)
    if not requirements and _virtualenv.is_own(python):
        return None
    return _virtualenv.interpreter_for(requirements, python)


def _warn_of_version(function: FunctionSpec) -> None:
    if not _virtualenv.is_servers(function.python_version):
        _log.warning("the function is for Python %s: it runs with the server's", function.python_version)
