"""Which files of a folder do not go into an image: what `.dockerignore` says, and what never should."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

__all__ = ["Ignored"]

ALWAYS = (
    "**/__pycache__",
    "**/*.pyc",
    "**/.git",
    "**/.hg",
    "**/.svn",
    "**/.venv",
    "**/venv",
    "**/node_modules",
    "**/.mypy_cache",
    "**/.pytest_cache",
    "**/.ruff_cache",
    "**/.ipynb_checkpoints",
    "**/.DS_Store",
    "**/.env",
    "**/.penstock",
    ".dockerignore",
)
"""History, caches, environments and secrets. A `!` line of `.dockerignore` brings one back."""


class Ignored:
    """The rules of one folder, in Docker's language: the last rule that matches decides.

    Args:
        folder: Where `.dockerignore` is looked for.
    """

    def __init__(self, folder: Path) -> None:
        file = folder / ".dockerignore"
        own = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
        self._rules = list(_rules([*ALWAYS, *own]))
        self.keeps_below = any(keeps for _, keeps in self._rules)
        """Whether a folder that is left out may have files that are not."""

    def __call__(self, path: str) -> bool:
        """Whether a file or folder is left out; its path is relative to the folder, with `/`."""
        out = False
        for pattern, keeps in self._rules:
            # A rule for a folder is one for all in it.
            if pattern.match(path):
                out = not keeps
        return out


def _rules(lines: Iterable[str]) -> Iterable[tuple[re.Pattern[str], bool]]:
    for line in lines:
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        keeps = text.startswith("!")
        text = text[keeps:].strip().strip("/")
        text = text.removeprefix("./")
        if text and text != ".":
            yield re.compile(_pattern(text) + r"(?:/.*)?\Z", re.DOTALL), keeps


def _pattern(text: str) -> str:
    said = ""
    position = 0
    while position < len(text):
        if text.startswith("**/", position):
            said, position = said + r"(?:.*/)?", position + 3
        elif text.startswith("**", position):
            said, position = said + r".*", position + 2
        elif text[position] == "*":
            said, position = said + r"[^/]*", position + 1
        elif text[position] == "?":
            said, position = said + r"[^/]", position + 1
        elif text[position] == "[" and "]" in text[position + 2 :]:
            end = text.index("]", position + 2)
            inner = text[position + 1 : end].replace("\\", r"\\")
            said, position = said + f"[{inner}]", end + 1
        elif text[position] == "\\" and position + 1 < len(text):
            said, position = said + re.escape(text[position + 1]), position + 2
        else:
            said, position = said + re.escape(text[position]), position + 1
    return said
