"""Servers of tests listen on free ports: two runs at once, or a server of the user, must not collide."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from house import is_test, relative, sources

STARTERS = {"Server", "empty", "Serving"}
"""Calls that start a server, or create one to be started."""

TESTS = [path for path in sources(".py", under="tests/") if is_test(path)]


def defaults_of(call: ast.Call) -> str | None:
    """The protocol whose default port a server with one address listens on; None if there is none."""
    name = getattr(call.func, "id", getattr(call.func, "attr", ""))
    if name not in STARTERS:
        return None
    given = {keyword.arg for keyword in call.keywords}
    given |= {one.value.removeprefix("--") for one in call.args if isinstance(one, ast.Constant) and is_flag(one.value)}
    # Of others, for example with a configuration or further arguments, it is not visible here.
    unknown = {None, "config", "up"} & given or any(isinstance(one, ast.Starred) for one in call.args)
    missing = {"http", "grpc"} - given
    return missing.pop() if len(missing) == 1 and not unknown else None


def is_flag(value: object) -> bool:
    return isinstance(value, str) and value in ("--http", "--grpc")


def fixed_ports(tree: ast.AST) -> list[tuple[int, str]]:
    """Line and reason of each server of a test that listens on a fixed port."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and (protocol := defaults_of(node)):
            found.append((node.lineno, f"{protocol} listens on its default port"))
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in ("bind", "create_server") and node.args:
            address = ast.unparse(node.args[0])
            if re.fullmatch(r"\(.*, [1-9]\d*\)", address):
                found.append((node.lineno, f"it listens on {address}"))
    return found


@pytest.mark.parametrize("path", TESTS, ids=relative)
def test_servers_listen_on_free_ports(path: Path) -> None:
    for line, reason in fixed_ports(ast.parse(path.read_text())):
        pytest.fail(f"{relative(path)}:{line}: {reason}")


def test_fixed_ports_are_found() -> None:
    code = (
        'Server(f, http="127.0.0.1:0")\nServer(f, http="127.0.0.1:0", grpc=None)\nServing("a.py", "--grpc", "x:0")\n'
        'socket.create_server(("127.0.0.1", 80))\nsocket.create_server(("127.0.0.1", 0))\n'
    )
    assert [line for line, _ in fixed_ports(ast.parse(code))] == [1, 3, 4]
