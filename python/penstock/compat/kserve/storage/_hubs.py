"""Hugging Face and ModelScope, by their own packages."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from penstock.compat.kserve.storage._errors import explained
from penstock.compat.kserve.storage._patterns import Patterns
from penstock.integrations.downloads import is_shown

__all__ = ["from_hugging_face", "from_modelscope"]


def from_hugging_face(uri: str, folder: Path, patterns: Patterns) -> None:
    """Downloads `hf://owner/model[:revision]`; HF_TOKEN has the token.

    Raises:
        RuntimeError: the URI has another form, or the download failed.
        ImportError: the package huggingface_hub is not installed.
    """
    repository, revision = _named(uri, "Hugging Face", "hf://")
    try:
        from huggingface_hub import snapshot_download
    except ImportError:
        raise ImportError("hf:// needs the package huggingface_hub: pip install huggingface_hub") from None
    try:
        with _without_bars():
            snapshot_download(**_arguments(repository, revision, folder, patterns))
    except Exception as error:
        raise explained("HuggingFace", uri, error, repository) from error


def from_modelscope(uri: str, folder: Path, patterns: Patterns) -> None:
    """Downloads `modelscope://owner/model[:revision]`; MODELSCOPE_API_TOKEN has the token.

    Raises:
        RuntimeError: the URI has another form, or the download failed.
        ImportError: the package modelscope-hub is not installed.
    """
    repository, revision = _named(uri, "ModelScope", "modelscope://")
    try:
        from modelscope_hub.compat import snapshot_download
    except ImportError:
        raise ImportError("modelscope:// needs the package modelscope-hub: pip install modelscope-hub") from None
    arguments = _arguments(repository, revision, folder, patterns)
    if token := os.environ.get("MODELSCOPE_API_TOKEN"):
        arguments["token"] = token
    try:
        snapshot_download(**arguments)
    except Exception as error:
        raise explained("ModelScope", uri, error, repository) from error


@contextmanager
def _without_bars() -> Iterator[None]:
    """Leaves the terminal to Penstock's own line: the package shows a bar for each file."""
    try:
        from huggingface_hub.utils.tqdm import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars
    except ImportError:
        # Another version of the package.
        yield
        return
    if not is_shown() or are_progress_bars_disabled():
        yield
        return
    disable_progress_bars()
    try:
        yield
    finally:
        enable_progress_bars()


def _named(uri: str, hub: str, scheme: str) -> tuple[str, str | None]:
    parts = uri.removeprefix(scheme).split("/")
    if len(parts) != 2:
        raise RuntimeError(f"Invalid {hub} URI format. Expected '{scheme}owner/model[:revision]', got '{uri}'")
    owner, (model, _, revision) = parts[0], parts[1].partition(":")
    if not owner:
        raise RuntimeError(f"{hub} repository owner cannot be empty in URI: {uri}")
    if not model:
        raise RuntimeError(f"{hub} model name cannot be empty in URI: {uri}")
    return f"{owner}/{model}", revision or None


def _arguments(repository: str, revision: str | None, folder: Path, patterns: Patterns) -> dict[str, Any]:
    arguments: dict[str, Any] = {"repo_id": repository, "revision": revision, "local_dir": str(folder)}
    if patterns.allowed:
        arguments["allow_patterns"] = list(patterns.allowed)
    if patterns.ignored:
        arguments["ignore_patterns"] = list(patterns.ignored)
    return arguments
