"""Pages of the documentation as programs: their files, servers, commands and outputs, in the order of the page.

| block | |
|---|---|
| `python`, `html`, `json` or `sql` whose first line is a comment with a file's name | the file is written |
| `python` whose first line is `# before: PRODUCT` | the other product's side, which is not run |
| another `python` | a script, which is run |
| `sh` with `penstock serve ...`, or with `python FILE` of a file that calls `serve` | a server; the one before ends |
| `sh` with `pip install ...` | not run |
| another `sh` | run by bash |
| `text`, `json` directly below a command, a script or a server | its output |

The addresses 127.0.0.1:8000 and :8001 stand for those of the running server. In an output `...` is any text, and
numbers of JSON need to agree in three digits only.
"""

from __future__ import annotations

import doctest
import json
import math
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from typing_extensions import Self

from serving_process import Serving

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
FILE = re.compile(r"(?:# |<!-- )([\w./-]+\.\w+)(?: -->)?\n")
SERVER = re.compile(r"penstock serve (.+)|python ([\w./-]+\.py)")
EXPECTED = ("text", "json")
PATIENCE = 120


class Block(NamedTuple):
    """A block of code of a page."""

    language: str
    text: str
    line: int
    """Line of the page on which it begins."""
    follows: bool
    """True if only blank lines are between the block before and this one."""


def blocks(page: str) -> Iterator[Block]:
    """The blocks of a page, in order."""
    end = -1
    for match in FENCE.finditer(page):
        yield Block(match[1], match[2], page.count("\n", 0, match.start()) + 1, not page[end : match.start()].strip())
        end = match.end()


class Reader:
    """Does in a folder what pages say; a context manager that ends the last server."""

    def __init__(self, folder: Path, environment: dict[str, str] | None = None) -> None:
        self.folder = folder
        self.outputs: list[str] = []
        """Output of each command and script."""
        self._environment = environment or {}
        self._server: Serving | None = None
        self._open = ExitStack()

    def read(self, page: str) -> None:
        """Does what the page says. Fails where a command does, or where its output is not that of the page."""
        output: str | None = None
        for block in blocks(page):
            if block.language in EXPECTED and block.follows and output is not None:
                assert same_output(block.text, output), f"line {block.line}: expected\n{block.text}\ngot\n{output}"
                continue
            output = self._do(block)

    def _do(self, block: Block) -> str | None:
        if (named := FILE.match(block.text)) and block.language != "sh":
            path = self.folder / named[1]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text)
        elif block.language == "python" and not block.text.startswith("# before"):
            return self._run([sys.executable, "-"], block)
        elif block.language == "sh" and not block.text.startswith("pip install"):
            if (server := SERVER.fullmatch(block.text.split("#")[0].strip())) and self._serves(server[2]):
                return self._serve(server)
            return self._run(["bash", "-euo", "pipefail"], block)
        return None

    def _serves(self, script: str | None) -> bool:
        return script is None or re.search(r"^ *serve\(", (self.folder / script).read_text(), re.MULTILINE) is not None

    def _serve(self, command: re.Match[str]) -> str:
        self._open.close()
        environment = {**self._environment, "PENSTOCK_HTTP": "127.0.0.1:0", "PENSTOCK_GRPC": "127.0.0.1:0"}
        arguments = shlex.split(command[1] or "")
        server = Serving(*arguments, script=command[2], folder=self.folder, environment=environment, patience=PATIENCE)
        self._server = self._open.enter_context(server)
        return server.out

    def _run(self, command: list[str], block: Block) -> str:
        text = block.text
        if self._server is not None:
            http = self._server.http.removeprefix("http://")
            text = text.replace("127.0.0.1:8000", http).replace("127.0.0.1:8001", self._server.grpc)
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        done = subprocess.run(
            command,
            input=text,
            cwd=self.folder,
            env={**os.environ, **self._environment, "PATH": path},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == 0, f"line {block.line}: {done.stdout}{done.stderr}\n{self._log()}"
        self.outputs.append(done.stdout)
        return done.stdout

    def _log(self) -> str:
        return "" if self._server is None else self._server.err

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()


def same_output(expected: str, actual: str) -> bool:
    """True if an output is that of the page."""
    try:
        return _same(json.loads(expected), json.loads(actual))
    except ValueError:
        flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
        return doctest.OutputChecker().check_output(expected.strip() + "\n", actual.strip() + "\n", flags)


def _same(expected: Any, actual: Any) -> bool:
    if expected == "...":
        return True
    if isinstance(expected, dict) and isinstance(actual, dict):
        return list(expected) == list(actual) and all(_same(value, actual[name]) for name, value in expected.items())
    if isinstance(expected, list) and isinstance(actual, list):
        return len(expected) == len(actual) and all(map(_same, expected, actual))
    if isinstance(expected, float) and isinstance(actual, (int, float)):
        return math.isclose(expected, actual, rel_tol=1e-3, abs_tol=1e-6)
    return type(expected) is type(actual) and bool(expected == actual)
