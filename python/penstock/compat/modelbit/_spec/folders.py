"""Finds deployments in folders. Nothing of them is run."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, replace
from pathlib import Path

from penstock import StartupError
from penstock.compat.modelbit._gateway.api_keys import digests
from penstock.compat.modelbit._settings import Settings
from penstock.compat.modelbit._spec.deployment import MAIN, Deployment
from penstock.compat.modelbit._spec.endpoints import read_endpoint
from penstock.compat.modelbit._spec.metadata import Metadata, read_metadata, read_yaml
from penstock.compat.modelbit._spec.table import Table

__all__ = ["Found", "deployment_of", "fill", "folders", "is_deployment", "is_repository", "main_function", "root_of"]

_MAIN = re.compile(r"^\s*mainFunction\s*:", re.MULTILINE)


@dataclass(frozen=True)
class Found:
    """A version of a deployment, where it lies."""

    name: str
    version: int
    branch: str
    folder: Path
    root: Path | None


def is_deployment(path: Path) -> bool:
    """Whether a folder is one deployment: source.py, and metadata.yaml that names a main function."""
    metadata = path / "metadata.yaml"
    try:
        return (path / "source.py").is_file() and bool(_MAIN.search(metadata.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError):
        return False


def is_repository(path: Path) -> bool:
    """Whether a folder has deployments below `deployments/`."""
    return bool([*folders(path)])


def folders(path: Path) -> list[Found]:
    """The deployments of a folder: itself, or those below its `deployments/` and `branches/BRANCH/deployments/`.

    A deployment's own folder is its version 1; with `versions/N/` in it, those are its versions.
    """
    if is_deployment(path):
        return [Found(path.resolve().name, 1, MAIN, path, root_of(path))]
    found = _below(path / "deployments", MAIN, path)
    branches = path / "branches"
    if branches.is_dir():
        for one in sorted(branches.iterdir()):
            found += _below(one / "deployments", one.name.replace("~", "/"), path)
    return found


def root_of(path: Path) -> Path | None:
    """The repository that a deployment's folder lies in, if it does."""
    parents = path.resolve().parents
    return parents[1] if parents and parents[0].name == "deployments" else None


def _below(home: Path, branch: str, root: Path) -> list[Found]:
    if not home.is_dir():
        return []
    found = []
    for folder in sorted(one for one in home.iterdir() if one.is_dir()):
        if is_deployment(folder):
            found.append(Found(folder.name, 1, branch, folder, root))
        versions = folder / "versions"
        if versions.is_dir():
            numbers = sorted(int(one.name) for one in versions.iterdir() if one.name.isdigit() and is_deployment(one))
            found += [Found(folder.name, number, branch, versions / str(number), root) for number in numbers]
    return found


def fill(table: Table, path: Path, settings: Settings, token: str) -> None:
    """Puts all that a folder has into a table: deployments, aliases, endpoints.

    Raises:
        StartupError: something of it cannot be served; the message says what.
    """
    found = folders(path)
    if not found:
        raise StartupError(f"{path} has no deployment: a folder with source.py and metadata.yaml, or deployments/NAME/")
    secrets = settings.secrets or next((str(one) for one in _secrets(path) if one.is_file()), "")
    for one in found:
        deployment = deployment_of(one, settings, token)
        table.add(replace(deployment, secrets=str(Path(secrets).resolve()) if secrets else ""))
    aliases = path / "aliases.yaml"
    if aliases.is_file():
        for name, of_name in (read_yaml(aliases) or {}).items():
            for alias, version in (of_name or {}).items():
                table.alias(str(name), str(alias), version)
    for file in sorted((path / "endpoints").glob("*.yaml")):
        table.add_endpoint(read_endpoint(file))


def _secrets(path: Path) -> list[Path]:
    root = root_of(path)
    return [path / "secrets.yaml", *([root / "secrets.yaml"] if root else [])]


def deployment_of(found: Found, settings: Settings, token: str) -> Deployment:
    """The deployment of a folder.

    Raises:
        StartupError: it cannot be served; the message says why.
    """
    metadata = read_metadata(found.folder / "metadata.yaml")
    function = main_function(found.folder, metadata)
    here, joins = settings.isolation == "server", metadata.columns is not None and settings.join > 1
    return Deployment(
        name=found.name,
        version=found.version,
        folder=str(found.folder.resolve()),
        main_function=metadata.main_function,
        branch=found.branch,
        root=str(found.root.resolve()) if found.root else "",
        columns=metadata.columns,
        extra=settings.extra,
        nan=settings.nan,
        tracebacks=settings.tracebacks,
        images=str(Path(settings.images).resolve()) if settings.images else "",
        token=token,
        here=here,
        joins=joins,
        workers=settings.workers,
        split_rows=settings.split_rows,
        # What is logged or joined is the integration's to see.
        direct=not (here or joins or settings.log),
        keys=digests(settings.keys),
        require_key=settings.require_key,
        waits=isinstance(function, ast.AsyncFunctionDef),
    )


def main_function(folder: Path, metadata: Metadata) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """The main function as source.py defines it; None if it is made in another way.

    Raises:
        StartupError: source.py is no Python, or does not take what `mainFunctionArgs` says.
    """
    source = folder / "source.py"
    try:
        tree = ast.parse(source.read_text(encoding="utf-8"), str(source))
    except (OSError, UnicodeDecodeError, SyntaxError, ValueError) as error:
        raise StartupError(f"{source} cannot be read: {error}") from None
    defined = [one for one in tree.body if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef))]
    named = [one for one in defined if one.name == metadata.main_function]
    if not named:
        return None
    function = named[-1]
    said = [one.partition(":")[0] for one in metadata.main_function_args if not one.startswith("return:")]
    arguments = [one.arg for one in (*function.args.posonlyargs, *function.args.args)]
    if said and not function.args.vararg and said != arguments:
        raise StartupError(
            f"{folder}: mainFunctionArgs has {', '.join(said)}, "
            f"but {function.name} takes {', '.join(arguments) or 'none'}"
        )
    return function
