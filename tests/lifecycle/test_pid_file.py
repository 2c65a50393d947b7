"""The pid file: only a file of a server's own is written, and only that is removed."""

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
    ("put", "found"),
    [
        (_link, "is a symbolic link"),
        (Path.mkdir, "is a directory"),
        (_socket_like, "is a device or socket"),
        (_text, "does not contain a process number"),
    ],
)
def test_what_is_no_pid_file_is_refused_and_kept(folder: Path, put: Callable[[Path], None], found: str) -> None:
    (folder / "precious").write_text("1\n")
    put(folder / "pid")
    before = os.lstat(folder / "pid")
    with Serving("app.py:move", *QUIET, folder=folder, up=False) as server:
        assert server.exit_status() == 1
        assert server.err == f"penstock: error: pid_file: {folder / 'pid'} {found}, {EXPECTED}\n"
    after = os.lstat(folder / "pid")
    assert (after.st_ino, after.st_mode, after.st_size) == (before.st_ino, before.st_mode, before.st_size)
    assert (folder / "precious").read_text() == "1\n"


@pytest.mark.parametrize("left", ["", "123456\n"])
def test_a_file_that_a_server_left_is_taken_over(folder: Path, left: str) -> None:
    (folder / "pid").write_text(left)
    with Serving("app.py:move", *QUIET, folder=folder) as server:
        assert (folder / "pid").read_text() == f"{server.process.pid}\n"
        server.signal(signal.SIGTERM)
        assert server.exit_status() == 0
    assert not (folder / "pid").exists()


def test_another_file_in_its_place_is_not_removed(folder: Path) -> None:
    with Serving("app.py:move", *QUIET, folder=folder) as server:
        (folder / "other").write_text(f"{server.process.pid}\n")
        (folder / "other").replace(folder / "pid")
        server.signal(signal.SIGTERM)
        assert server.exit_status() == 0
    assert (folder / "pid").exists()


def test_a_file_that_another_wrote_to_is_not_removed(folder: Path) -> None:
    with Serving("app.py:move", *QUIET, folder=folder) as server:
        (folder / "pid").write_text("1\n")
        server.signal(signal.SIGTERM)
        assert server.exit_status() == 0
    assert (folder / "pid").read_text() == "1\n"


def test_a_relative_path_is_the_start_s_whatever_directory_a_handler_goes_to(folder: Path) -> None:
    with Serving("app.py:move", *QUIET, folder=folder) as server:
        body = b'{"inputs":[{"name":"x","shape":[],"datatype":"INT64","data":[1]}]}'
        assert post(server.http, "/v2/models/move/infer", body).status == 200
        assert get(server.http, "/v2/health/ready").status == 200
        (folder / "elsewhere" / "pid").write_text("not the server's\n")
        server.signal(signal.SIGTERM)
        assert server.exit_status() == 0
    assert not (folder / "pid").exists()
    assert (folder / "elsewhere" / "pid").read_text() == "not the server's\n"


def test_a_relative_path_is_the_start_s_whatever_directory_an_import_goes_to(folder: Path) -> None:
    (folder / "app.py").write_text("import os\nos.chdir('elsewhere')\n" + APP)
    with Serving("app.py:move", *QUIET, folder=folder) as server:
        assert (folder / "pid").read_text() == f"{server.process.pid}\n"
