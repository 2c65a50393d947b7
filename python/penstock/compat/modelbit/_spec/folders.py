"""Discovery of deployments in folders, without running their code."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, replace
from pathlib import Path

from penstock import StartupError
from penstock.compat.modelbit._api_keys import key_digests
from penstock.compat.modelbit._settings import Settings
from penstock.compat.modelbit._spec.deployment import MAIN, Deployment
from penstock.compat.modelbit._spec.endpoints import read_endpoint
from penstock.compat.modelbit._spec.metadata import Metadata, read_metadata
from penstock.compat.modelbit._spec.table import DeploymentTable
from penstock.integrations.files import read_yaml

__all__ = [
    "DeploymentFolder",
    "fill_table",
    "find_folders",
    "is_deployment",
    "is_repository",
    "load_deployment",
    "parse_main_function",
    "repository_root",
]

_MAIN = re.compile(r"^\s*mainFunction\s*:", re.MULTILINE)


@dataclass(frozen=True)
class DeploymentFolder:
    """The folder of one version of a deployment."""

    name: str
    version: int
    branch: str
    folder: Path
    root: Path | None


def is_deployment(path: Path) -> bool:
    """Returns whether a folder has source.py, and metadata.yaml with a main function."""
    metadata = path / "metadata.yaml"
    try:
        return (path / "source.py").is_file() and bool(_MAIN.search(metadata.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError):
        return False


def is_repository(path: Path) -> bool:
    """Returns whether a folder has deployments below `deployments/`."""
    return bool(find_folders(path))


def find_folders(path: Path) -> list[DeploymentFolder]:
    """Returns the folder itself, or the deployments below its `deployments/` and `branches/BRANCH/deployments/`.

    A deployment's own folder is version 1; its subfolders `versions/N/` are versions N.
    """
    if is_deployment(path):
        return [DeploymentFolder(path.resolve().name, 1, MAIN, path, repository_root(path))]
    found = _deployments_in(path / "deployments", MAIN, path)
    branches = path / "branches"
    if branches.is_dir():
        for one in sorted(branches.iterdir()):
            found += _deployments_in(one / "deployments", one.name.replace("~", "/"), path)
    return found


def repository_root(path: Path) -> Path | None:
    """Returns the repository of a deployment's folder; None outside a repository."""
    parents = path.resolve().parents
    return parents[1] if parents and parents[0].name == "deployments" else None


def _deployments_in(home: Path, branch: str, root: Path) -> list[DeploymentFolder]:
    if not home.is_dir():
        return []
    found = []
    for folder in sorted(one for one in home.iterdir() if one.is_dir()):
        if is_deployment(folder):
            found.append(DeploymentFolder(folder.name, 1, branch, folder, root))
        versions = folder / "versions"
        if versions.is_dir():
            numbers = sorted(int(one.name) for one in versions.iterdir() if one.name.isdigit() and is_deployment(one))
            found += [DeploymentFolder(folder.name, number, branch, versions / str(number), root) for number in numbers]
    return found


def fill_table(table: DeploymentTable, path: Path, settings: Settings, token: str) -> None:
    """Adds a folder's deployments, aliases and endpoints to a table.

    Raises:
        StartupError: the folder has no deployment, or one of its files is invalid.
    """
    found = find_folders(path)
    if not found:
        raise StartupError(f"{path} has no deployment: a folder with source.py and metadata.yaml, or deployments/NAME/")
    secrets = settings.secrets or next((str(one) for one in _secrets(path) if one.is_file()), "")
    for one in found:
        deployment = load_deployment(one, settings, token)
        table.add(replace(deployment, secrets=str(Path(secrets).resolve()) if secrets else ""))
    aliases = path / "aliases.yaml"
    if aliases.is_file():
        for name, of_name in (read_yaml(aliases, extra="modelbit") or {}).items():
            for alias, version in (of_name or {}).items():
                table.alias(str(name), str(alias), version)
    for file in sorted((path / "endpoints").glob("*.yaml")):
        table.add_endpoint(read_endpoint(file))


def _secrets(path: Path) -> list[Path]:
    root = repository_root(path)
    return [path / "secrets.yaml", *([root / "secrets.yaml"] if root else [])]


def load_deployment(found: DeploymentFolder, settings: Settings, token: str) -> Deployment:
    """Returns the deployment of a folder.

    Raises:
        StartupError: metadata.yaml or source.py is invalid.
    """
    metadata = read_metadata(found.folder / "metadata.yaml")
    function = parse_main_function(found.folder, metadata)
    in_process, batched = settings.isolation == "server", metadata.columns is not None and settings.join > 1
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
        in_process=in_process,
        batched=batched,
        workers=settings.workers,
        split_rows=settings.split_rows,
        # The gateway has to see requests that are logged or batched.
        direct=not (in_process or batched or settings.log),
        key_digests=key_digests(settings.keys),
        require_key=settings.require_key,
        is_async=isinstance(function, ast.AsyncFunctionDef),
    )


def parse_main_function(folder: Path, metadata: Metadata) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """Returns the definition of the main function in source.py; None if it is not a `def` of the module.

    Raises:
        StartupError: source.py cannot be parsed, or the function's arguments differ from `mainFunctionArgs`.
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
    declared = [one.partition(":")[0] for one in metadata.main_function_args if not one.startswith("return:")]
    arguments = [one.arg for one in (*function.args.posonlyargs, *function.args.args)]
    if declared and not function.args.vararg and declared != arguments:
        raise StartupError(
            f"{folder}: mainFunctionArgs has {', '.join(declared)}, "
            f"but {function.name} takes {', '.join(arguments) or 'none'}"
        )
    return function
