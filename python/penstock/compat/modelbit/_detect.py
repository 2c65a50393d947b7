"""Detection of deployments and of scripts that deploy."""

from __future__ import annotations

import re
from pathlib import Path

from penstock.compat.modelbit._spec.folders import find_folders, is_deployment, is_repository
from penstock.integrations import Finding

__all__ = ["detect"]

_DEPLOYS = re.compile(r"^\s*(?:modelbit|mb)\.deploy\(", re.MULTILINE)
_IMPORTS = re.compile(r"^\s*(?:import modelbit|from modelbit import)\b", re.MULTILINE)


def detect(path: Path) -> Finding | None:
    """Recognizes a deployment's folder, a repository, or a script that deploys, without running its code."""
    if path.is_dir():
        if is_deployment(path):
            return Finding("modelbit", "it has source.py, and metadata.yaml with a mainFunction", 95)
        if is_repository(path):
            names = sorted({one.name for one in find_folders(path)})
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
