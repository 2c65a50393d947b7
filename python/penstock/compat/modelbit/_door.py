"""What `penstock serve`, `detect`, `check`, `build` and `init` ask of the integration."""

from __future__ import annotations

import re
import secrets
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penstock import Model, StartupError
from penstock.compat.modelbit._binding import gate_model, model_of
from penstock.compat.modelbit._folders import Found, fill, folders, is_deployment, is_repository, root_of
from penstock.compat.modelbit._gate import Gate
from penstock.compat.modelbit._greeting import to_greet
from penstock.compat.modelbit._metadata import Metadata, read_metadata
from penstock.compat.modelbit._settings import Settings
from penstock.compat.modelbit._table import Table
from penstock.images import ImageSpec
from penstock.integrations import Finding

__all__ = ["check", "describe", "detect", "load", "scaffold"]

_DEPLOYS = re.compile(r"^\s*(?:modelbit|mb)\.deploy\(", re.MULTILINE)
_IMPORTS = re.compile(r"^\s*(?:import modelbit|from modelbit import)\b", re.MULTILINE)
PORT = 8000
_NOT_IN_IMAGES = {"secrets.yaml", "__pycache__", ".git", ".penstock"}


def detect(path: Path) -> Finding | None:
    """Whether a path is a deployment's folder, a repository of them, or a script that deploys. Runs nothing of it."""
    if path.is_dir():
        if is_deployment(path):
            return Finding("modelbit", "it has source.py, and metadata.yaml with a mainFunction", 95)
        if is_repository(path):
            names = sorted({one.name for one in folders(path)})
            shown = ", ".join(names[:3]) + (" and others" if len(names) > 3 else "")
            return Finding("modelbit", f"it has deployments/ with {shown}", 95)
        return None
    if path.suffix != ".py":
        return None
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    if _IMPORTS.search(text) and _DEPLOYS.search(text):
        return Finding("modelbit", "it imports modelbit and calls its deploy", 70)
    return None


def load(path: Path, options: Mapping[str, Any]) -> list[Model[..., Any]]:
    """The models of a path: one with the routes, and one for each version of each deployment.

    Args:
        path: A deployment's folder, a repository, or a script that deploys: that is run.
        options: See `Settings`.

    Raises:
        StartupError: it cannot be served.
    """
    settings = Settings.of(options)
    if path.is_file():
        from penstock.compat.modelbit._scripts import deployed_by

        return deployed_by(path, settings)
    table = Table()
    fill(table, path, settings, secrets.token_hex(16))
    gate = Gate(f"modelbit.{_plain(path)}", table, settings)
    front = gate_model(f"modelbit.{_plain(path)}", gate)
    return to_greet([front, *(model_of(one, settings, gate) for one in table.all())], table)


def describe(path: Path) -> ImageSpec:
    """What an image of a path needs: of several deployments, all that any of them does.

    Raises:
        StartupError: deployments want what does not go together.
    """
    found = folders(path)
    if not found:
        raise StartupError(
            f"{path} has no deployments of which an image could be made; a script is to be deployed first"
        )
    metadata = {one.folder: read_metadata(one.folder / "metadata.yaml") for one in found}
    system = {name for one in metadata.values() for name in one.system_packages}
    # Where it would lie in a repository, so that what lies beside it is found.
    target = f"deployments/{path.resolve().name}" if is_deployment(path) else path.resolve().name
    return ImageSpec(
        base_image=_only("baseImage", {one.base_image for one in metadata.values()}),
        python_version=_only("pythonVersion", {one.python_version for one in metadata.values()}),
        system_packages=tuple(sorted(system)),
        requirements=("cloudpickle>=3", "PyYAML>=6", *_requirements(found, metadata)),
        files=_files(path, target),
        serve=(target,),
        http_port=PORT,
        grpc_port=None,
    )


def check(path: Path) -> list[str]:
    """What is wrong with a path, a sentence each. The code of deployments is imported, in processes of its own."""
    try:
        if path.is_file():
            return []
        table = Table()
        fill(table, path, Settings(), "")
    except StartupError as error:
        return [str(error)]
    problems = []
    for one in table.all():
        for file in sorted(Path(one.folder).rglob("*.pkl")):
            if _is_stub(file):
                problems.append(f"{file} stands for a file that is not here: clone the repository with its files")
        program = "from penstock.compat.modelbit import _checking; _checking.main()"
        done = subprocess.run(  # noqa: S603 - the path that is checked is code, and trusted
            [sys.executable, "-c", program],
            env=_environment(one.environment()),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            last = done.stderr.strip().splitlines()[-1:] or [f"its process ended with {done.returncode}"]
            problems.append(f"deployment {one.name}, version {one.version}: {last[0]}")
    for endpoint in table.endpoints:
        for backend in (*endpoint.backends, *endpoint.mirrors):
            try:
                if backend.name:
                    table.find(backend.name, backend.version, backend.branch)
            except Exception as error:
                problems.append(f"endpoint {endpoint.name}, {backend.label}: {error}")
    return problems


def scaffold(folder: Path) -> list[Path]:
    """Writes a first example: a repository with one deployment."""
    home = folder / "deployments" / "doubler"
    home.mkdir(parents=True, exist_ok=True)
    written = []
    for name, text in _EXAMPLE.items():
        (home / name).write_text(text, encoding="utf-8")
        written.append(home / name)
    return written


def _plain(path: Path) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]", "_", path.resolve().name) or "deployments"


def _only(key: str, values: set[str | None]) -> str | None:
    wanted = sorted(one for one in values if one is not None)
    if len(wanted) > 1:
        raise StartupError(f"deployments want {key} {' and '.join(wanted)}: one image has one; build them one by one")
    return wanted[0] if wanted else None


def _requirements(found: list[Found], metadata: Mapping[Path, Metadata]) -> list[str]:
    lines: dict[str, None] = {}
    for one in found:
        file = one.folder / "requirements.txt"
        if file.is_file():
            for line in file.read_text(encoding="utf-8").splitlines():
                if (text := line.strip()) and not text.startswith("#"):
                    lines[text] = None
        if metadata[one.folder].columns and not any(re.match(r"pandas\b", line) for line in lines):
            lines["pandas"] = None
    return [*lines]


def _files(path: Path, target: str) -> tuple[tuple[Path, str], ...]:
    """What an image has: all but secrets, which everybody who has the image could read."""
    files = [(one, f"{target}/{one.name}") for one in sorted(path.iterdir()) if one.name not in _NOT_IN_IMAGES]
    root = root_of(path) if is_deployment(path) else None
    if root is not None:
        beside = ((root / name, name) for name in ("common", "registry"))
        files += [(here, there) for here, there in beside if here.is_dir()]
    return tuple(files)


def _is_stub(file: Path) -> bool:
    """Whether a file only says where the real one is: text of YAML instead of a pickle."""
    with file.open("rb") as opened:
        return opened.read(20).startswith((b"_file", b"file:", b"contentHash"))


def _environment(more: Mapping[str, str]) -> dict[str, str]:
    import os

    return {**os.environ, **more, "PYTHONPATH": os.pathsep.join(one for one in sys.path if one)}


_EXAMPLE = {
    "source.py": """import modelbit


# The function that answers: each row of a request is a call.
def doubler(half: float):
    return half * 2
""",
    "metadata.yaml": f"""owner: you@example.com
runtimeInfo:
  mainFunction: doubler
  mainFunctionArgs:
    - half:float
    - return:float
  pythonVersion: '{sys.version_info[0]}.{sys.version_info[1]}'
schemaVersion: 2
""",
    "requirements.txt": "",
}
