"""Requests to try, as they are shown at the start."""

from __future__ import annotations

import json
import shlex
import sys
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from penstock import Model
from penstock.compat.modelbit._spec.deployment import Deployment
from penstock.compat.modelbit._spec.metadata import read_metadata
from penstock.compat.modelbit._spec.table import Table

__all__ = ["greeting", "scaffold", "to_greet"]

_MOST = 3
_VALUES = {"int": 1, "float": 1.5, "str": "text", "bool": True, "dict": {"key": 1}, "list": [1], "None": None}
_TABLES: weakref.WeakKeyDictionary[Model[..., Any], Table] = weakref.WeakKeyDictionary()


def to_greet(models: Sequence[Model[..., Any]], table: Table) -> list[Model[..., Any]]:
    """The models, of which `greeting` knows then what they serve."""
    _TABLES[models[0]] = table
    return [*models]


def greeting(models: Sequence[Model[..., Any]], url: str) -> list[str]:
    """A request to each deployment's latest version, as shell lines; to the first few, where there are many."""
    tables = [table for one in models if (table := _TABLES.get(one)) is not None]
    deployments = [latest for table in tables for name in table.names for latest in [_latest(table, name)]]
    return [
        f"curl {url}/v1/{one.name}/{'' if one.branch == 'main' else one.branch.replace('/', '~') + '/'}latest"
        f" -d {shlex.quote(json.dumps({'data': [[1, *_arguments(one)]]}))}"
        for one in deployments[:_MOST]
    ]


def _latest(table: Table, name: str) -> Deployment:
    branches = {branch: versions for branch, versions, _ in table.of(name)}
    versions = branches.get("main") or next(iter(branches.values()))
    return versions[max(versions)]


def _arguments(deployment: Deployment) -> list[Any]:
    """Arguments of the types that its metadata names."""
    if deployment.columns is not None:
        return [{one.name: _of_dtype(one.dtype or "") for one in deployment.columns}]
    metadata = read_metadata(Path(deployment.folder) / "metadata.yaml")
    types = [one.partition(":")[2] for one in metadata.main_function_args if not one.startswith("return:")]
    return [_VALUES.get(one.partition("[")[0].lower() if "[" in one else one, 1) for one in types]


def _of_dtype(dtype: str) -> Any:
    if dtype.startswith("float"):
        return 1.5
    if dtype.startswith(("int", "uint", "Int", "UInt")):
        return 1
    return {"bool": True, "boolean": True}.get(dtype, "2026-01-02" if dtype.startswith("datetime") else "text")


def scaffold(folder: Path) -> list[Path]:
    """Writes a first example: a repository with one deployment."""
    home = folder / "deployments" / "doubler"
    home.mkdir(parents=True, exist_ok=True)
    written = []
    for name, text in _EXAMPLE.items():
        (home / name).write_text(text, encoding="utf-8")
        written.append(home / name)
    return written


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
