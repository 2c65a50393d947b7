"""What can be said of a function before it runs."""

from __future__ import annotations

import ast
import tempfile
from pathlib import Path

from penstock.compat.openinference._definition.files import function_at
from penstock.compat.openinference._definition.function_spec import FunctionSpec
from penstock.compat.openinference._definition.requirements import lines_of
from penstock.compat.openinference._definition.validation import Wrong
from penstock.compat.openinference._handler.call import RESERVED
from penstock.compat.openinference._settings import Options
from penstock.compat.openinference._sources.fetch import Code, fetched, is_remote
from penstock.errors import StartupError

__all__ = ["check"]


def check(path: Path) -> list[str]:
    """What is wrong with the function of a file or folder. Code from elsewhere is not got."""
    try:
        function = function_at(path)
    except Wrong as wrong:
        return wrong.problems
    except StartupError as error:
        return [str(error)]
    found = []
    try:
        Options.of(function.settings)
    except StartupError as error:
        found.append(f"penstock: {error}")
    try:
        lines_of(function.requirements, function.folder)
    except StartupError as error:
        found.append(f"spec.requirements: {error}")
    if is_remote(function.source):
        return found
    with tempfile.TemporaryDirectory() as empty:
        try:
            found += _of_code(function, fetched(function, Path(empty)))
        except StartupError as error:
            found.append(f"spec.source: {error}")
    return found


def _of_code(function: FunctionSpec, code: Code) -> list[str]:
    path = code.root / Path(*code.module.split("."))
    file = path.with_suffix(".py") if path.with_suffix(".py").is_file() else path / "__init__.py"
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError) as error:
        return [f"{file.name}: {error}"]
    defined = {one.name: one for one in tree.body if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef))}
    others = {
        name.id if isinstance(name, ast.Name) else name
        for one in tree.body
        for name in (
            [alias.asname or alias.name for alias in one.names]
            if isinstance(one, (ast.Import, ast.ImportFrom))
            else getattr(one, "targets", [])
        )
        if isinstance(name, (str, ast.Name))
    }
    found = []
    for key, name in (("handler", code.function), ("init_function", function.source.init_function)):
        if name is not None and name not in defined and name not in others:
            found.append(f"spec.source.{key}: {file.name} has no function {name!r}")
    if (handler := defined.get(code.function)) is not None and (extras := _required(handler) - set(RESERVED)):
        found.append(
            f"spec.source.handler: {code.function!r} takes {', '.join(sorted(extras))}, which nothing fills; "
            f"it can take {', '.join(RESERVED)}"
        )
    init = defined.get(function.source.init_function or "")
    if init is not None and "context" not in {one.arg for one in (*init.args.args, *init.args.kwonlyargs)}:
        found.append(f"spec.source.init_function: {init.name!r} must take context")
    return found


def _required(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """The parameters without defaults."""
    arguments = function.args
    positional = [one.arg for one in (*arguments.posonlyargs, *arguments.args)]
    without = positional[: len(positional) - len(arguments.defaults)]
    only = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    return {*without, *(one.arg for one, default in only if default is None)}
