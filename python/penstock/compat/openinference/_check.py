"""Static checks of a function."""

from __future__ import annotations

import ast
import tempfile
from pathlib import Path

from penstock.compat.openinference._definition.files import read_function
from penstock.compat.openinference._definition.function_spec import FunctionSpec
from penstock.compat.openinference._definition.requirements import requirement_lines
from penstock.compat.openinference._definition.validation import DefinitionError
from penstock.compat.openinference._handler.call import RESERVED
from penstock.compat.openinference._settings import Options
from penstock.compat.openinference._sources.fetch import FetchedCode, fetch_code, is_remote_source
from penstock.errors import StartupError

__all__ = ["check"]


def check(path: Path) -> list[str]:
    """Returns the problems of a function, without running its code or downloading remote code."""
    try:
        function = read_function(path)
    except DefinitionError as error:
        return error.problems
    except StartupError as error:
        return [str(error)]
    problems = []
    try:
        Options.of(function.settings)
    except StartupError as error:
        problems.append(f"penstock: {error}")
    try:
        requirement_lines(function.requirements, function.folder)
    except StartupError as error:
        problems.append(f"spec.requirements: {error}")
    if is_remote_source(function.source):
        return problems
    with tempfile.TemporaryDirectory() as folder:
        try:
            problems += _check_code(function, fetch_code(function, Path(folder)))
        except StartupError as error:
            problems.append(f"spec.source: {error}")
    return problems


def _check_code(function: FunctionSpec, code: FetchedCode) -> list[str]:
    path = code.root / Path(*code.module.split("."))
    file = path.with_suffix(".py") if path.with_suffix(".py").is_file() else path / "__init__.py"
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError) as error:
        return [f"{file.name}: {error}"]
    defined = {one.name: one for one in tree.body if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef))}
    assigned = {
        name.id if isinstance(name, ast.Name) else name
        for one in tree.body
        for name in (
            [alias.asname or alias.name for alias in one.names]
            if isinstance(one, (ast.Import, ast.ImportFrom))
            else getattr(one, "targets", [])
        )
        if isinstance(name, (str, ast.Name))
    }
    problems = []
    for key, name in (("handler", code.function), ("init_function", function.source.init_function)):
        if name is not None and name not in defined and name not in assigned:
            problems.append(f"spec.source.{key}: {file.name} has no function {name!r}")
    if (handler := defined.get(code.function)) is not None and (
        extras := _required_parameters(handler) - set(RESERVED)
    ):
        problems.append(
            f"spec.source.handler: {code.function!r} takes {', '.join(sorted(extras))}, without a value; "
            f"it can take {', '.join(RESERVED)}"
        )
    init = defined.get(function.source.init_function or "")
    if init is not None and "context" not in {one.arg for one in (*init.args.args, *init.args.kwonlyargs)}:
        problems.append(f"spec.source.init_function: {init.name!r} must take context")
    return problems


def _required_parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """Returns the names of parameters without defaults."""
    arguments = function.args
    positional = [one.arg for one in (*arguments.posonlyargs, *arguments.args)]
    required = positional[: len(positional) - len(arguments.defaults)]
    keyword_only = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    return {*required, *(one.arg for one, default in keyword_only if default is None)}
