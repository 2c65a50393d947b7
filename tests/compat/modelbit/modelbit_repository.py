"""Repositories of deployments for tests."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Files:
    """Files of a deployment."""

    source: str
    main: str
    metadata: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, str | bytes] = field(default_factory=dict)


def write_repository(root: Path, deployments: Mapping[str, Files]) -> Path:
    """Writes deployments below `deployments/`, or below `branches/` if named `BRANCH:NAME`."""
    for name, one in deployments.items():
        branch, _, plain = name.rpartition(":")
        plain, _, version = plain.partition("@")
        home = root / "branches" / branch.replace("/", "~") if branch else root
        folder = home / "deployments" / plain
        write_deployment(folder / "versions" / version if version else folder, one)
    return root


def write_deployment(folder: Path, one: Files) -> Path:
    """Writes one deployment's folder."""
    folder.mkdir(parents=True)
    runtime = {"mainFunction": one.main, "pythonVersion": "3.11", **one.metadata.get("runtimeInfo", {})}
    metadata = {"schemaVersion": 2, "owner": "you@example.com", **one.metadata, "runtimeInfo": runtime}
    (folder / "metadata.yaml").write_text(
        f"schemaVersion: 2\nruntimeInfo:\n  mainFunction: {one.main}\n"
        + "".join(f"  {key}: {json.dumps(value)}\n" for key, value in runtime.items() if key != "mainFunction")
        + "".join(
            f"{key}: {json.dumps(value)}\n"
            for key, value in metadata.items()
            if key not in ("runtimeInfo", "schemaVersion")
        )
    )
    (folder / "source.py").write_text(one.source)
    for name, content in one.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder
