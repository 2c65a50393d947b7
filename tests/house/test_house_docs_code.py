"""Code in the documents: Python compiles with existing imports, and command lines have existing options."""

from __future__ import annotations

import argparse
import ast
import importlib
import importlib.util
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from house import ROOT, relative
from penstock._cli.main import _parser

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md")), *sorted((ROOT / "examples").glob("*/README.md"))]
FENCE = re.compile(r"^( *)```(\w+)\n(.*?)^\1```", re.DOTALL | re.MULTILINE)


def blocks(path: Path, language: str) -> list[str]:
    return [
        re.sub(rf"^{indent}", "", code, flags=re.MULTILINE)
        for indent, found, code in FENCE.findall(path.read_text())
        if found == language
    ]


def parsed(code: str) -> ast.AST:
    """Syntax tree of a block; a decorator without a function gets one."""
    flags = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    try:
        return compile(code, "<block>", "exec", flags)
    except SyntaxError:
        return compile(f"{code}def handler(): ...", "<block>", "exec", flags)


def options() -> dict[str, set[str]]:
    """Options of each subcommand."""
    [verbs] = [action for action in _parser()._actions if isinstance(action, argparse._SubParsersAction)]
    return {name: set(options_of(verb)) for name, verb in verbs.choices.items()}


def options_of(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Options of a parser and of its subcommands."""
    for action in parser._actions:
        yield from action.option_strings
        if isinstance(action, argparse._SubParsersAction):
            for verb in action.choices.values():
                yield from options_of(verb)


@pytest.mark.parametrize("path", PAGES, ids=relative)
def test_python_blocks_compile_and_imports_exist(path: Path) -> None:
    for code in blocks(path, "python"):
        for node in ast.walk(parsed(code)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "penstock":
                module = importlib.import_module(node.module or "")
                for one in node.names:
                    is_module = (
                        importlib.util.find_spec(f"{node.module}.{one.name}") if hasattr(module, "__path__") else None
                    )
                    assert is_module or hasattr(module, one.name), f"{node.module} has no {one.name}"


@pytest.mark.parametrize("path", PAGES, ids=relative)
def test_command_lines_have_existing_options(path: Path) -> None:
    known = options()
    for code in (*blocks(path, "sh"), *blocks(path, "console")):
        for line in code.replace("\\\n", " ").splitlines():
            found = re.match(r"(?:\$ )?penstock (\w+) (.*)", line.split(" #")[0])
            if not found or found[1] == "shim":
                continue
            verb, rest = found.groups()
            assert verb in known, f"{relative(path)}: penstock {verb}"
            words = shlex.split(rest.split(" -- ")[0], comments=True)
            unknown = {word.split("=")[0] for word in words if re.match(r"--?[a-z]", word)} - known[verb]
            assert not unknown, f"{relative(path)}: penstock {verb} has no {sorted(unknown)}"
