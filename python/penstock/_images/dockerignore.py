"""Files that are left out of an image: rules of `.dockerignore`, and defaults.

The 21 lines of `_pattern` are by hand: pathspec follows `.gitignore`, where `**.key` does not match `keys/a.key`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

__all__ = ["IgnoreRules"]

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
"""Version control, caches, environments and secrets. A `!` line of `.dockerignore` includes them."""


class IgnoreRules:
    """The ignore rules of a folder, in Docker's syntax: the last matching rule decides.

    Args:
        folder: The folder of `.dockerignore`.
    """

    def __init__(self, folder: Path) -> None:
        file = folder / ".dockerignore"
        own = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
        self._rules = list(_rules([*ALWAYS, *own]))
        self.includes_below = any(includes for _, includes in self._rules)
        """True if an ignored folder may contain files that are included."""

    def __call__(self, path: str) -> bool:
        """True if a file or folder is ignored. The path is relative to the folder, with `/`."""
        ignored = False
        for pattern, includes in self._rules:
            # Patterns of folders match everything in them.
            if pattern.match(path):
                ignored = not includes
        return ignored


def _rules(lines: Iterable[str]) -> Iterable[tuple[re.Pattern[str], bool]]:
    for line in lines:
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        includes = text.startswith("!")
        text = text[includes:].strip().strip("/")
        text = text.removeprefix("./")
        if text and text != ".":
            yield re.compile(_pattern(text) + r"(?:/.*)?\Z", re.DOTALL), includes


def _pattern(text: str) -> str:
    regex = ""
    position = 0
    while position < len(text):
        if text.startswith("**/", position):
            regex, position = regex + r"(?:.*/)?", position + 3
        elif text.startswith("**", position):
            regex, position = regex + r".*", position + 2
        elif text[position] == "*":
            regex, position = regex + r"[^/]*", position + 1
        elif text[position] == "?":
            regex, position = regex + r"[^/]", position + 1
        elif text[position] == "[" and "]" in text[position + 2 :]:
            end = text.index("]", position + 2)
            inner = text[position + 1 : end].replace("\\", r"\\")
            regex, position = regex + f"[{inner}]", end + 1
        elif text[position] == "\\" and position + 1 < len(text):
            regex, position = regex + re.escape(text[position + 1]), position + 2
        else:
            regex, position = regex + re.escape(text[position]), position + 1
    return regex
