"""Generates the class `ServerOptions` and the table of docs/limits.md from the fields of `ServerConfig`.

`python .ci/settings.py` writes the files. With `--check` it writes nothing and fails when one of them is stale. In the
table, names, defaults and `live` are written; the text of a row that exists is kept, so that it can have links and
statuses.
"""

from __future__ import annotations

import re
import sys
from dataclasses import Field, fields
from pathlib import Path
from typing import Any

from penstock._config.settings import LISTS
from penstock._config.value_text import shown
from penstock.config import ServerConfig

ROOT = Path(__file__).resolve().parent.parent
OPTIONS = ROOT / "python" / "penstock" / "_config" / "server_options.py"
TABLE = ROOT / "docs" / "limits.md"

HEAD = '''"""`ServerOptions`: the fields of `ServerConfig` as keyword arguments, for type checkers.

Generated from `ServerConfig` by `make gen`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Literal, TypedDict

__all__ = ["ServerOptions"]


class ServerOptions(TypedDict, total=False):
    """The fields of `ServerConfig` as keyword arguments. Lists are accepted in several forms, units in texts."""

'''

ACCEPTED = dict.fromkeys(LISTS, "str | Iterable[str]") | {
    "folders": "str | os.PathLike[str] | Iterable[str | os.PathLike[str]]",
    "amounts": "str | Mapping[str, int]",
    "address": "str | int | None",
    "address|same": "str | int | None",
    "seconds": "float | str",
    "size": "int | str",
    "size|auto": "int | str | None",
    "share": "float | str",
}
"""Types of arguments, by kind, that differ from the types of the fields."""


def stale() -> dict[Path, str]:
    """Returns the expected texts of the files that differ from them."""
    expected = {OPTIONS: options(), TABLE: table(TABLE.read_text(encoding="utf-8"))}
    return {path: text for path, text in expected.items() if path.read_text(encoding="utf-8") != text}


def options() -> str:
    """Returns the module of `ServerOptions`."""
    typed = [(one.name, ACCEPTED.get(one.metadata["kind"], one.type.replace("'", '"'))) for one in fields(ServerConfig)]
    return HEAD + "".join(f"    {name}: {accepted}\n" for name, accepted in typed)


def table(page: str) -> str:
    """Returns the page with one row per setting in its first table."""
    head, rule, rest = re.split(r"(^\|(?:-+\|)+\n)", page, maxsplit=1, flags=re.MULTILINE)
    rows, after = re.split(r"(?=^[^|])", rest, maxsplit=1, flags=re.MULTILINE)
    texts = dict(re.findall(r"^\| `(\w+)` \| `[^`]*` \| (?:live)? *(\|.*\|)$", rows, re.MULTILINE))
    return head + rule + "".join(row(one, texts) for one in fields(ServerConfig)) + after


def row(setting: Field[Any], texts: dict[str, str]) -> str:
    """Returns a setting's row: with its present text, else with its help."""
    default, text = shown(setting.metadata["kind"], setting.default), f"| {setting.metadata['help']} |  |"
    live = "live " if setting.metadata["live"] else ""
    return f"| `{setting.name}` | `{default}` | {live}{texts.get(setting.name, text)}\n"


def main() -> int:
    """Writes or checks the files; the exit status."""
    if sys.argv[1:] not in ([], ["--check"]):
        print(f"settings: unexpected arguments {sys.argv[1:]}, expected none or --check", file=sys.stderr)
        return 2
    for path, text in (found := stale()).items():
        if sys.argv[1:]:
            print(f"stale: {path.relative_to(ROOT)}", file=sys.stderr)
        else:
            path.write_text(text, encoding="utf-8")
            print(f"wrote {path.relative_to(ROOT)}")
    return 1 if found and sys.argv[1:] else 0


if __name__ == "__main__":
    sys.exit(main())
