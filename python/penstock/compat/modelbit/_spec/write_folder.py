"""Writes a function as a deployment's folder."""

from __future__ import annotations

import inspect
import json
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.compat.modelbit._function.pickles import by_value
from penstock.compat.modelbit.errors import UserFacingError

__all__ = ["Wanted", "name_of", "write"]

_SOURCE = """import modelbit

# The function as it was deployed, with the objects that it uses: see docs/modelbit.md.
{main} = modelbit.load_value("data/{main}.pkl")
"""


@dataclass(frozen=True)
class Wanted:
    """How a function is deployed: what `deploy` was given beside it."""

    python_version: str | None = None
    base_image: str | None = None
    python_packages: Sequence[str] = ()
    requirements_txt_path: str | None = None
    system_packages: Sequence[str] = ()
    example_dataframe: Any = None
    files: tuple[str | Sequence[str] | Mapping[str, str] | None, ...] = ()
    capabilities: Sequence[str] = ()
    tags: Sequence[str] = ()


def name_of(function: Any) -> str:
    """What a function is called, where nobody says so.

    Raises:
        UserFacingError: it has no name of its own, or cannot be called.
    """
    if not callable(function):
        raise UserFacingError(f"deploy takes a function, or anything that can be called, not {type(function).__name__}")
    name = getattr(function, "__name__", None) or type(function).__name__
    if not name.isidentifier():
        raise UserFacingError(f"what is called {name!r} needs a name to be deployed: deploy(..., name=...)")
    return str(name)


def write(function: Callable[..., Any], name: str, folder: Path, wanted: Wanted) -> None:
    """Writes a function, with the globals that it uses, as a deployment's folder.

    Raises:
        UserFacingError: it, or what it uses, cannot be written; cloudpickle is not installed.
    """
    main = getattr(function, "__name__", name)
    main = main if main.isidentifier() and main != "modelbit" else name
    metadata = _metadata(function, main, wanted)
    pickled = by_value(function)
    (folder / "data").mkdir(parents=True)
    (folder / "data" / f"{main}.pkl").write_bytes(pickled)
    for given in wanted.files:
        _copy(given, folder)
    (folder / "source.py").write_text(_SOURCE.format(main=main), encoding="utf-8")
    # JSON is YAML, too.
    (folder / "metadata.yaml").write_text(_yaml(metadata), encoding="utf-8")
    (folder / "requirements.txt").write_text(_requirements(wanted), encoding="utf-8")


def _metadata(function: Callable[..., Any], main: str, wanted: Wanted) -> dict[str, Any]:
    version = wanted.python_version or f"{sys.version_info[0]}.{sys.version_info[1]}"
    metadata: dict[str, Any] = {
        "schemaVersion": 2,
        "runtimeInfo": {"mainFunction": main, "mainFunctionArgs": _arguments(function), "pythonVersion": version},
    }
    if wanted.example_dataframe is not None:
        metadata["dataframeModeColumns"] = _columns(wanted.example_dataframe)
        if len(metadata["runtimeInfo"]["mainFunctionArgs"]) - _says_return(metadata) != 1:
            raise UserFacingError("with dataframe_mode the function takes exactly one argument, the frame")
    more = {
        "baseImage": wanted.base_image,
        "systemPackages": [*wanted.system_packages],
        "capabilities": [*wanted.capabilities],
        "tags": [*wanted.tags],
    }
    return {**metadata, **{key: value for key, value in more.items() if value}}


def _says_return(metadata: dict[str, Any]) -> int:
    return sum(one.startswith("return:") for one in metadata["runtimeInfo"]["mainFunctionArgs"])


def _arguments(function: Callable[..., Any]) -> list[str]:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return []
    by_place = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    said = [f"{one.name}:{_type(one.annotation)}" for one in signature.parameters.values() if one.kind in by_place]
    if signature.return_annotation is not signature.empty:
        said.append(f"return:{_type(signature.return_annotation)}")
    return said


def _type(annotation: Any) -> str:
    if annotation is inspect.Parameter.empty:
        return "Any"
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))
    return text.replace(" ", "")


def _columns(frame: Any) -> list[dict[str, Any]]:
    first = frame.iloc[0] if len(frame) else None
    return [
        {
            "name": str(name),
            "dtype": str(frame[name].dtype),
            "example": None if first is None else str(first[name])[:50],
        }
        for name in frame.columns
    ]


def _copy(given: str | Sequence[str] | Mapping[str, str] | None, folder: Path) -> None:
    """Copies files and folders: to the same place in the deployment's folder as here, or as a mapping says."""
    if not given:
        return
    names = [given] if isinstance(given, str) else given
    places = names.items() if isinstance(names, Mapping) else [(one, one) for one in names]
    for here, there in places:
        source, target = Path(here), folder / there
        if Path(there).is_absolute() and not isinstance(names, Mapping):
            target = folder / source.name
        if not target.resolve().is_relative_to(folder.resolve()):
            raise UserFacingError(f"the file {there!r} would lie outside of the deployment's folder")
        if not source.exists():
            raise UserFacingError(f"there is no file {here!r} to deploy")
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copyfile(source, target)


def _requirements(wanted: Wanted) -> str:
    if wanted.python_packages and wanted.requirements_txt_path:
        raise UserFacingError("give python_packages or requirements_txt_path, not both")
    if wanted.requirements_txt_path:
        return Path(wanted.requirements_txt_path).read_text(encoding="utf-8")
    for one in wanted.python_packages:
        if "==" not in one and not one.startswith(("https://", "git+https://")):
            raise UserFacingError(
                f"python_packages has {one!r}, expected an exact version like pandas==2.2.3, or a URL"
            )
    return "".join(f"{one}\n" for one in wanted.python_packages)


def _yaml(values: dict[str, Any], indent: str = "") -> str:
    """YAML of texts, lists and dicts; the values are JSON, which is YAML."""
    lines = []
    for key, value in values.items():
        if isinstance(value, dict):
            lines.append(f"{indent}{key}:\n{_yaml(value, indent + '  ')}")
        else:
            lines.append(f"{indent}{key}: {json.dumps(value)}\n")
    return "".join(lines)
