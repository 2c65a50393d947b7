"""Probe of an app: imports it, in another process or in this one, and reads its declarations."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock import LoadError, StartupError
from penstock.compat.inferless._app.app import App
from penstock.compat.inferless._app.modules import AppModules, ProcessModules
from penstock.compat.inferless._app.self_test import run_examples
from penstock.compat.inferless._spec.schema import Schema, SchemaError

__all__ = ["Probe", "probe", "probe_in_process"]

_PROGRAM = "import sys; sys.path[:] = sys.argv[3:]; from penstock.compat.inferless._app.probe import main; main()"
_MARK = "inferless-probe: "
"""Prefix of the report's line, among the app's own output."""


@dataclass(frozen=True)
class Probe:
    """The declarations of an app."""

    schema: Schema
    is_async: bool
    parameters: tuple[str, ...]
    """Parameters of `infer`."""
    failure: str = ""
    """Problem of the run with its examples; empty if there was none, or no run."""


def probe(folder: Path, env: Mapping[str, str] | None = None, *, run: bool = False) -> Probe:
    """Imports an app in another process, so that its modules and side effects stay out of this one.

    Args:
        folder: The app's folder.
        env: Variables to add to its environment.
        run: Whether to load the app and run it with its examples too.

    Raises:
        StartupError: the declaration of its inputs is invalid.
        LoadError: the app cannot be imported.
    """
    paths = [one for one in sys.path if isinstance(one, str)]
    command = [sys.executable, "-B", "-c", _PROGRAM, str(folder.resolve()), "run" if run else "import", *paths]
    done = subprocess.run(  # noqa: S603 - our own program
        command,
        env={**os.environ, **(env or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith(_MARK)]
    report = json.loads(lines[-1].removeprefix(_MARK)) if lines else {}
    if "problem" in report:
        raise StartupError(f"{folder}: {report['problem']}")
    if "schema" not in report:
        sys.stderr.write(report.get("trace") or done.stderr)
        reason = report.get("error") or f"its process ended with status {done.returncode}"
        raise LoadError(f"cannot import the app in {folder}: {reason}")
    schema = Schema.from_json(report["schema"])
    return Probe(schema, report["is_async"], tuple(report["parameters"]), report["failure"])


def probe_in_process(folder: Path, modules: AppModules) -> Probe:
    """Imports an app in this process.

    Raises:
        StartupError: the declaration of its inputs is invalid.
        LoadError: the app cannot be imported.
    """
    try:
        app = App(folder, modules)
    except SchemaError as error:
        raise StartupError(f"{folder}: {error}") from None
    except (Exception, SystemExit) as error:
        traceback.print_exc()
        text = " ".join(str(error).split())
        raise LoadError(f"cannot import the app in {folder}: {type(error).__name__}: {text}") from None
    return Probe(app.schema, app.is_async, app.parameters)


def main() -> None:
    """Prints the report of an app. Entry point of the process that `probe` starts."""
    folder, mode = sys.argv[1:3]
    print(_MARK + json.dumps(_report(folder, run=mode == "run"), default=lambda _: None), flush=True)
    # Exits without waiting for threads that the app started.
    sys.stderr.flush()
    os._exit(0)


def _report(folder: str, *, run: bool) -> dict[str, Any]:
    try:
        app = App(Path(folder), ProcessModules(Path(folder)))
    except SchemaError as error:
        return {"problem": str(error)}
    except (Exception, SystemExit) as error:
        text = " ".join(str(error).split())
        return {"error": f"{type(error).__name__}: {text}", "trace": traceback.format_exc()}
    return {
        "schema": app.schema.to_json(),
        "is_async": app.is_async,
        "parameters": app.parameters,
        "failure": _run(app) if run else "",
    }


def _run(app: App) -> str:
    """Loads the app and runs it with its examples. Returns the problem; empty if there is none."""
    try:
        return run_examples(app)
    except (Exception, SystemExit) as error:
        traceback.print_exc()
        location = _location(error, str(app.layout.folder))
        return f"{type(error).__name__}: {' '.join(str(error).split())}{location}"


def _location(error: BaseException, folder: str) -> str:
    """Returns the app's line that raised an error."""
    frames = [one for one in traceback.extract_tb(error.__traceback__) if one.filename.startswith(folder)]
    return f" ({os.path.basename(frames[-1].filename)}, line {frames[-1].lineno})" if frames else ""
