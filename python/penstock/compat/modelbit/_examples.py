"""Example requests, shown at the start, and the example of `penstock init`."""

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
from penstock.compat.modelbit._spec.table import DeploymentTable

__all__ = ["greeting", "remember_table", "scaffold"]

_MOST = 3
"""Examples shown at the start."""
_VALUES = {"int": 1, "float": 1.5, "str": "text", "bool": True, "dict": {"key": 1}, "list": [1], "None": None}
_TABLES: weakref.WeakKeyDictionary[Model[..., Any], DeploymentTable] = weakref.WeakKeyDictionary()


def remember_table(models: Sequence[Model[..., Any]], table: DeploymentTable) -> list[Model[..., Any]]:
    """Records the table of the first model, the gateway's, for `greeting`. Returns the models."""
    _TABLES[models[0]] = table
    return [*models]


def greeting(models: Sequence[Model[..., Any]], url: str) -> list[str]:
    """Returns a curl command for the latest version of each deployment, of the first `_MOST`."""
    tables = [table for one in models if (table := _TABLES.get(one)) is not None]
    deployments = [latest for table in tables for name in table.names for latest in [_latest(table, name)]]
    return [
        f"curl {url}/v1/{one.name}/{'' if one.branch == 'main' else one.branch.replace('/', '~') + '/'}latest"
        f" -d {shlex.quote(json.dumps({'data': [[1, *_arguments(one)]]}))}"
        for one in deployments[:_MOST]
    ]


def _latest(table: DeploymentTable, name: str) -> Deployment:
    branches = {branch: versions for branch, versions, _ in table.branches(name)}
    versions = branches.get("main") or next(iter(branches.values()))
    return versions[max(versions)]


def _arguments(deployment: Deployment) -> list[Any]:
    """Returns example arguments of the types in the metadata."""
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
    """Writes an example repository with one deployment. Returns its files."""
    home = folder / "deployments" / "doubler"
    home.mkdir(parents=True, exist_ok=True)
    written = []
    for name, text in _EXAMPLE.items():
        (home / name).write_text(text, encoding="utf-8")
        written.append(home / name)
    return written


_EXAMPLE = {
    "source.py": """import modelbit


# The served function: called once per row of a request.
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
