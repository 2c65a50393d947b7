"""Helpers of the house checks: the repository's files, and Rust sources without comments and tests."""

from __future__ import annotations

import functools
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

CRATES = ("core", "wire", "client", "tls", "server", "process", "py")
"""In the order of dependencies, lowest first; client, server and process do not depend on each other."""


@functools.cache
def files() -> tuple[Path, ...]:
    """Every tracked or untracked file that git does not ignore."""
    command = ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, capture_output=True, text=True, check=False)
    assert listed.returncode == 0, f"the house checks need a git clone: {listed.stderr}"
    return tuple(path for name in sorted(set(listed.stdout.split("\0"))) if name and (path := ROOT / name).is_file())


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def sources(*suffixes: str, under: str = "") -> list[Path]:
    """Files with one of these suffixes, except generated ones."""
    return [
        path
        for path in files()
        if path.suffix in suffixes and relative(path).startswith(under) and "generated" not in path.parts
    ]


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def is_test(path: Path) -> bool:
    parts = path.relative_to(ROOT).parts
    return parts[0] == "tests" or "tests" in parts or path.stem in ("tests", "round_trip", "testing", "test_spec")


def without_tests(source: str) -> str:
    """A Rust source up to its in-file `mod tests { ... }`, which is its last item."""
    return re.split(r"^#\[cfg\(test\)\]\nmod tests \{", source, maxsplit=1, flags=re.MULTILINE)[0]


def without_comments(source: str) -> str:
    """A Rust source whose comments are blank and whose lines keep their numbers."""
    return re.sub(r"//[^\n]*", "", source)


def rows(markdown: str) -> list[list[str]]:
    """Cells of every table row, without headers and rules."""
    lines = [line for line in markdown.splitlines() if line.startswith("|")]
    bodies = [
        line for line, after in zip(lines, [*lines[1:], ""], strict=True) if not is_rule(line) and not is_rule(after)
    ]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in bodies]


def is_rule(line: str) -> bool:
    return bool(line) and set(line) <= set("|-: ")
