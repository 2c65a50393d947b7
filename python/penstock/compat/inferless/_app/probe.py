"""Looks at an app: in a process of its own, so that nothing of it comes into the server's, or in the server's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock import LoadError, StartupError
from penstock.compat.inferless._spec.schema import Schema, SchemaError

if TYPE_CHECKING:
    from penstock.compat.inferless._app.modules import Modules

__all__ = ["Probe", "look", "probe"]

_PROGRAM = "import sys; sys.path[:] = sys.argv[3:]; from penstock.compat.inferless._app.probe import main; main()"
_MARK = "inferless-probe: "


@dataclass(frozen=True)
class Probe:
    """What an app says of itself."""

    schema: Schema
    is_async: bool
    takes: tuple[str, ...]
    """The parameters of `infer`."""
    examples: str = ""
    """What was wrong when its examples were run; empty if nothing was, or they were not."""


def probe(folder: Path, env: Mapping[str, str] | None = None, *, run: bool = False) -> Probe:
    """Imports an app in another process, and says what it declares.

    Args:
        folder: The app's folder.
        env: What is different in its environment.
        run: Whether it is also loaded, and its examples are run.

    Raises:
        StartupError: it declares its inputs wrongly.
        LoadError: it cannot be imported.
    """
    paths = [one for one in sys.path if isinstance(one, str)]
    command = [sys.executable, "-B", "-c", _PROGRAM, str(folder.resolve()), "run" if run else "look", *paths]
    done = subprocess.run(  # noqa: S603 - our own program
        command,
        env={**os.environ, **(env or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith(_MARK)]
    told = json.loads(lines[-1].removeprefix(_MARK)) if lines else {}
    if "problem" in told:
        raise StartupError(f"{folder}: {told['problem']}")
    if "schema" not in told:
        sys.stderr.write(told.get("trace") or done.stderr)
        why = told.get("failure") or f"its process ended with status {done.returncode}"
        raise LoadError(f"cannot import the app in {folder}: {why}")
    return Probe(Schema.from_json(told["schema"]), told["is_async"], tuple(told["takes"]), told["examples"])


def look(folder: Path, modules: Modules) -> Probe:
    """Imports an app in this process, and says what it declares.

    Raises:
        StartupError: it declares its inputs wrongly.
        LoadError: it cannot be imported.
    """
    from penstock.compat.inferless._app.app import App

    try:
        app = App(folder, modules)
    except SchemaError as error:
        raise StartupError(f"{folder}: {error}") from None
    except (Exception, SystemExit) as error:
        traceback.print_exc()
        text = " ".join(str(error).split())
        raise LoadError(f"cannot import the app in {folder}: {type(error).__name__}: {text}") from None
    return Probe(app.schema, app.is_async, app.takes)


def main() -> None:
    """Looks at the app, in the process that `probe` started."""
    folder, wanted = sys.argv[1:3]
    print(_MARK + json.dumps(_told(folder, run=wanted == "run"), default=lambda _: None), flush=True)
    # Threads that the app has left do not matter.
    sys.stderr.flush()
    os._exit(0)


def _told(folder: str, *, run: bool) -> dict[str, Any]:
    from penstock.compat.inferless._app.app import App
    from penstock.compat.inferless._app.modules import OfProcess

    try:
        app = App(Path(folder), OfProcess(Path(folder)))
    except SchemaError as error:
        return {"problem": str(error)}
    except (Exception, SystemExit) as error:
        text = " ".join(str(error).split())
        return {"failure": f"{type(error).__name__}: {text}", "trace": traceback.format_exc()}
    return {
        "schema": app.schema.to_json(),
        "is_async": app.is_async,
        "takes": app.takes,
        "examples": _run(app) if run else "",
    }


def _run(app: Any) -> str:
    """What is wrong when the app is loaded and its examples are run; empty if nothing is."""
    from penstock.compat.inferless._app.self_test import run_examples

    try:
        return run_examples(app)
    except (Exception, SystemExit) as error:
        traceback.print_exc()
        where = _place_of(error, str(app.layout.folder))
        return f"{type(error).__name__}: {' '.join(str(error).split())}{where}"


def _place_of(error: BaseException, folder: str) -> str:
    """The line of the app's where an error was raised."""
    frames = [one for one in traceback.extract_tb(error.__traceback__) if one.filename.startswith(folder)]
    return f" ({os.path.basename(frames[-1].filename)}, line {frames[-1].lineno})" if frames else ""
