"""Writing of a function as a deployment's folder."""

from __future__ import annotations

import inspect
import json
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.compat.modelbit._function.pickles import dump_by_value
from penstock.compat.modelbit.errors import UserFacingError

__all__ = ["DeployOptions", "function_name", "write_folder"]

_SOURCE = """import modelbit

# The pickled function and the objects it uses: see docs/modelbit.md.
{main} = modelbit.load_value("data/{main}.pkl")
"""


@dataclass(frozen=True)
class DeployOptions:
    """Arguments of `deploy` other than the function and its name."""

    python_version: str | None = None
    base_image: str | None = None
    python_packages: Sequence[str] = ()
    requirements_txt_path: str | None = None
    system_packages: Sequence[str] = ()
    example_dataframe: Any = None
    files: tuple[str | Sequence[str] | Mapping[str, str] | None, ...] = ()
    capabilities: Sequence[str] = ()
    tags: Sequence[str] = ()


def function_name(function: Any) -> str:
    """Returns the default name of a function.

    Raises:
        UserFacingError: the object is not callable, or its name is not an identifier.
    """
    if not callable(function):
        raise UserFacingError(f"deploy takes a function or another callable, not {type(function).__name__}")
    name = getattr(function, "__name__", None) or type(function).__name__
    if not name.isidentifier():
        raise UserFacingError(f"{name!r} is not a valid name: pass deploy(..., name=...)")
    return str(name)


def write_folder(function: Callable[..., Any], name: str, folder: Path, options: DeployOptions) -> None:
    """Writes a function, with the globals it uses, as a deployment's folder.

    Raises:
        UserFacingError: the function cannot be pickled, an option is invalid, or cloudpickle is not installed.
    """
    main = getattr(function, "__name__", name)
    main = main if main.isidentifier() and main != "modelbit" else name
    metadata = _metadata(function, main, options)
    pickled = dump_by_value(function)
    (folder / "data").mkdir(parents=True)
    (folder / "data" / f"{main}.pkl").write_bytes(pickled)
    for files in options.files:
        _copy(files, folder)
    (folder / "source.py").write_text(_SOURCE.format(main=main), encoding="utf-8")
    (folder / "metadata.yaml").write_text(_yaml(metadata), encoding="utf-8")
    (folder / "requirements.txt").write_text(_requirements(options), encoding="utf-8")


def _metadata(function: Callable[..., Any], main: str, options: DeployOptions) -> dict[str, Any]:
    version = options.python_version or f"{sys.version_info[0]}.{sys.version_info[1]}"
    metadata: dict[str, Any] = {
        "schemaVersion": 2,
        "runtimeInfo": {"mainFunction": main, "mainFunctionArgs": _arguments(function), "pythonVersion": version},
    }
    if options.example_dataframe is not None:
        metadata["dataframeModeColumns"] = _columns(options.example_dataframe)
        if len(metadata["runtimeInfo"]["mainFunctionArgs"]) - _declares_return(metadata) != 1:
            raise UserFacingError("with dataframe_mode the function takes exactly one argument, the frame")
    more = {
        "baseImage": options.base_image,
        "systemPackages": [*options.system_packages],
        "capabilities": [*options.capabilities],
        "tags": [*options.tags],
    }
    return {**metadata, **{key: value for key, value in more.items() if value}}


def _declares_return(metadata: dict[str, Any]) -> int:
    return sum(one.startswith("return:") for one in metadata["runtimeInfo"]["mainFunctionArgs"])


def _arguments(function: Callable[..., Any]) -> list[str]:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return []
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    declared = [
        f"{one.name}:{_type(one.annotation)}" for one in signature.parameters.values() if one.kind in positional
    ]
    if signature.return_annotation is not signature.empty:
        declared.append(f"return:{_type(signature.return_annotation)}")
    return declared


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


def _copy(files: str | Sequence[str] | Mapping[str, str] | None, folder: Path) -> None:
    """Copies files and folders to the same relative path in the deployment's folder, or to a mapping's values."""
    if not files:
        return
    names = [files] if isinstance(files, str) else files
    pairs = names.items() if isinstance(names, Mapping) else [(one, one) for one in names]
    for source_name, target_name in pairs:
        source, target = Path(source_name), folder / target_name
        if Path(target_name).is_absolute() and not isinstance(names, Mapping):
            target = folder / source.name
        if not target.resolve().is_relative_to(folder.resolve()):
            raise UserFacingError(f"the file {target_name!r} would lie outside of the deployment's folder")
        if not source.exists():
            raise UserFacingError(f"there is no file {source_name!r} to deploy")
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copyfile(source, target)


def _requirements(options: DeployOptions) -> str:
    if options.python_packages and options.requirements_txt_path:
        raise UserFacingError("give python_packages or requirements_txt_path, not both")
    if options.requirements_txt_path:
        return Path(options.requirements_txt_path).read_text(encoding="utf-8")
    for one in options.python_packages:
        if "==" not in one and not one.startswith(("https://", "git+https://")):
            raise UserFacingError(
                f"python_packages has {one!r}, expected an exact version like pandas==2.2.3, or a URL"
            )
    return "".join(f"{one}\n" for one in options.python_packages)


def _yaml(values: dict[str, Any], indent: str = "") -> str:
    """Returns YAML of nested dicts. Other values are written as JSON, which is valid YAML."""
    lines = []
    for key, value in values.items():
        if isinstance(value, dict):
            lines.append(f"{indent}{key}:\n{_yaml(value, indent + '  ')}")
        else:
            lines.append(f"{indent}{key}: {json.dumps(value)}\n")
    return "".join(lines)
