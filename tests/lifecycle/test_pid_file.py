"""The pid file: a server writes and removes only its own file."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from http_by_hand import get, post
from serving_process import Serving

APP = "import os\ndef move(x: int) -> int:\n    os.chdir('elsewhere')\n    return x\n"
QUIET = ("--http", "127.0.0.1:0", "--grpc", "off", "--pid-file", "pid")
EXPECTED = "expected a new path, an empty file, or a pid file that is not in use"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "elsewhere").mkdir()
    return tmp_path


def _link(path: Path) -> None:
    path.symlink_to("precious")


def _socket_like(path: Path) -> None:
    os.mkfifo(path)


def _text(path: Path) -> None:
    path.write_text("42 is the answer\n")


@pytest.mark.parametrize(
    ("put", "problem"),
    [
        (_link, "is a symbolic link"),
        (Path.mkdir, "is a directory"),
        (_socket_like, "is a device or socket"),
        (_text, "does not contain a process number"),
    ],
)
def test_other_file_at_pid_file_path_is_refused_and_unchanged(
    folder: Path, put: Callable[[Path], None], problem: str
) -> None:
    (folder / "precious").write_text("1\n")
    put(folder / "pid")
    before = os.lstat(folder / "pid")
    with Serving("app.py:move", *QUIET, folder=folder, up=False) as server:
        assert server.exit_status() == 1
        assert server.err == f"penstock: error: pid_file: {folder / 'pid'} {problem}, {EXPECTED}\n"
    after = os.lstat(folder / "pid")
    assert (after.st_ino, after.st_mode, after.st_size) == (before.st_ino, before.st_mode, before.st_size)
    assert (folder / "precious").read_text() == "1\n"


@pytest.mark.parametrize("stale_text", ["", "123456\n"])
def test_stale_pid_file_is_overwritten(folder: Path, stale_text: str) -> None:
    (folder / "pid").write_text(stale_text)
    with Serving("app.py:move", *QUIET, folder=folder) as server:
        assert (folder / "pid").read_text() == f"{server.process.pid}\n"
        server.signal(signal.SIGTERM)
        assert server.exit_status() == 0
    assert not (folder / "pid").exists()


def test_replaced_pid_file_is_not_removed(folder: Path) -> None:
    with Serving("app.py:move", *QUIET, folder=folder) as server:
        (folder / "other").write_text(f"{server.process.pid}\n")
        (folder / "other").replace(folder / "pid")
        server.signal(signal.SIGTERM)
        assert server.exit_status() == 0
    assert (folder / "pid").exists()


def test_pid_file_rewritten_by_another_process_is_not_removed(folder: Path) -> None:
    with Serving("app.py:move", *QUIET, folder=folder) as server:
        (folder / "pid").write_text("1\n")
        server.signal(signal.SIGTERM)
        assert server.exit_status() == 0
    assert (folder / "pid").read_text() == "1\n"


def test_relative_pid_file_path_survives_chdir_in_a_handler(folder: Path) -> None:
    with Serving("app.py:move", *QUIET, folder=folder) as server:
        body = b'{"inputs":[{"name":"x","shape":[],"datatype":"INT64","data":[1]}]}'
        assert post(server.http, "/v2/models/move/infer", body).status == 200
        assert get(server.http, "/v2/health/ready").status == 200
        (folder / "elsewhere" / "pid").write_text("not the server's\n")
        server.signal(signal.SIGTERM)
        assert server.exit_status() == 0
    assert not (folder / "pid").exists()
    assert (folder / "elsewhere" / "pid").read_text() == "not the server's\n"


def test_relative_pid_file_path_survives_chdir_in_an_import(folder: Path) -> None:
    (folder / "app.py").write_text("import os\nos.chdir('elsewhere')\n" + APP)
    with Serving("app.py:move", *QUIET, folder=folder) as server:
        assert (folder / "pid").read_text() == f"{server.process.pid}\n"
