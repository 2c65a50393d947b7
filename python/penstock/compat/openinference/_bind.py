"""Binding: the Penstock model of a function."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penstock import Context, Model, Processes, Request, Response, Tensor, Threads, logs
from penstock.compat.openinference import _virtualenv
from penstock.compat.openinference._definition.function_spec import FunctionSpec, TensorSpec
from penstock.compat.openinference._definition.requirements import requirement_lines
from penstock.compat.openinference._settings import Options
from penstock.compat.openinference._sources.fetch import fetch_code, is_remote_source
from penstock.errors import StartupError
from penstock.integrations.files import temporary_folder

__all__ = ["bind", "create_model"]

_FACTORY = "penstock.compat.openinference:create_model"
_log = logging.getLogger("penstock.openinference")


def bind(function: FunctionSpec, options: Options) -> Model[..., Any]:
    """Returns the model of a function, by default in separate processes with a virtual environment for its packages.

    Remote code is downloaded here, once: all processes and their restarts run the same code.

    Raises:
        StartupError: code or packages cannot be fetched, or the options rule out the server's process.
    """
    if options.isolation == "server":
        _check_for_server(function, options)
        if not logging.getLogger().hasHandlers():
            logs.setup()
    # Lets the log lines of handlers carry request ids.
    logs.RequestFilter()
    root = None
    if is_remote_source(function.source):
        root = fetch_code(function, temporary_folder("penstock-source-")).root
    else:
        with tempfile.TemporaryDirectory() as folder:
            # Reports errors of the definition before any process starts.
            fetch_code(function, Path(folder))
    if options.isolation == "server":
        return _model(function, options, root, None)
    arguments = {
        "function": function.as_json(),
        "options": _options_json(options),
        "root": None if root is None else str(root),
    }
    processes = Processes(
        options.replicas, env=dict(options.envs), python=_python(function, options), factory=(_FACTORY, arguments)
    )
    return _model(function, options, root, processes)


def create_model(function: Mapping[str, Any], options: Mapping[str, Any], root: str | None) -> Model[..., Any]:
    """Creates the model in a worker process. Only worker processes call it."""
    # Log lines of handlers go to the server's output.
    logs.setup()
    root_path = None if root is None else Path(root)
    return _model(FunctionSpec.from_json(function), Options.of(options), root_path, None)


def _model(function: FunctionSpec, options: Options, root: Path | None, processes: Processes | None) -> Model[..., Any]:
    # Imported late, because the server process itself does not run handlers.
    class Function:
        def __init__(self) -> None:
            from penstock.compat.openinference._handler.served_function import ServedFunction

            self._function = ServedFunction(function, options, root)

        def __call__(self, request: Request, ctx: Context) -> Response:
            return self._function(request, ctx)

        def close(self) -> None:
            self._function.close()

    return Model(
        Function,
        name=function.model_name,
        version=options.version,
        description=f"Function {function.name} of project {options.project or function.project}.",
        inputs=[_tensor(tensor) for tensor in function.inputs],
        outputs=[_tensor(tensor) for tensor in function.outputs],
        routes=_routes(function.model_name, options) if options.data == "sent" else None,
        instances=processes or Threads(options.replicas),
    )


def _routes(model: str, options: Options) -> list[str]:
    """Returns the routes of raw JSON requests."""
    model, version = (name.replace("{", "{{").replace("}", "}}") for name in (model, options.version))
    return [f"POST /v2/models/{model}{suffix}/infer" for suffix in ("", f"/versions/{version}")]


def _tensor(declared: TensorSpec) -> Tensor:
    return Tensor(declared.name, declared.datatype, declared.shape)


def _check_for_server(function: FunctionSpec, options: Options) -> None:
    """Rejects options and requirements that need a separate process.

    Raises:
        StartupError: the function has one.
    """
    reason = ""
    if options.envs:
        reason = f"the option envs sets {', '.join(options.envs)}"
    elif options.environment == "auto" and (lines := requirement_lines(function.requirements, function.folder)):
        reason = f"it requires the packages {', '.join(lines)}"
    elif options.python == "exact" and not _virtualenv.is_server_version(function.python_version):
        reason = f"it requires Python {function.python_version} exactly"
    if not reason:
        _warn_of_version(function)
    else:
        hint = ", or environment=none if the server has them" if "packages" in reason else ""
        raise StartupError(
            f"function {function.name!r} cannot run in the server's process: {reason}. Set isolation=process{hint}"
        )


def _options_json(options: Options) -> dict[str, Any]:
    return {name: getattr(options, name) for name in options.__dataclass_fields__}


def _python(function: FunctionSpec, options: Options) -> str | None:
    """Returns the interpreter of the function's virtual environment; None for the server's."""
    if options.environment == "none":
        return None
    requirements, exact = requirement_lines(function.requirements, function.folder), options.python == "exact"
    # A different Python version alone does not need an environment, unless it is exact.
    if not requirements and not exact:
        _warn_of_version(function)
        return None
    python = _virtualenv.find_interpreter(function.python_version, exact=exact)
    if not requirements and _virtualenv.is_server_interpreter(python):
        return None
    return _virtualenv.prepare_interpreter(requirements, python)


def _warn_of_version(function: FunctionSpec) -> None:
    if not _virtualenv.is_server_version(function.python_version):
        _log.warning("the function requires Python %s: it runs with the server's", function.python_version)
