"""systemd: notifications of the start, a reload and the drain, and the exported units."""

from __future__ import annotations

import re
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from penstock._cli.main import main
from penstock._serve.systemd import Notifier
from serving_process import Serving

APP = "from penstock import model\n\n\n@model\ndef same(x: float) -> float:\n    return x\n"


@contextmanager
def manager(name: str) -> Iterator[socket.socket]:
    """The socket of a service manager."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(f"\0{name[1:]}" if name.startswith("@") else name)
        receiver.settimeout(60)
        yield receiver


def received(receiver: socket.socket) -> dict[str, str]:
    """The next notification except requests for more time."""
    while True:
        fields = dict(line.split("=", 1) for line in receiver.recv(4096).decode().splitlines())
        if "EXTEND_TIMEOUT_USEC" not in fields:
            return fields
        assert fields["EXTEND_TIMEOUT_USEC"] == "30000000"


@pytest.mark.parametrize("kind", ["path", "abstract"])
def test_manager_hears_of_start_reload_and_stop(tmp_path: Path, kind: str) -> None:
    (tmp_path / "app.py").write_text(APP)
    name = str(tmp_path / "notify") if kind == "path" else f"@penstock-{tmp_path.name}-{tmp_path.parent.name}"
    with manager(name) as receiver:
        flags = ["app.py", "--http", "127.0.0.1:0", "--grpc", "off"]
        with Serving(*flags, environment={"NOTIFY_SOCKET": name}, folder=tmp_path) as serving:
            assert received(receiver) == {"READY": "1", "STATUS": "serves 1 model"}
            serving.process.send_signal(signal.SIGHUP)
            reloading = received(receiver)
            assert (reloading["RELOADING"], reloading["MONOTONIC_USEC"].isdigit()) == ("1", True)
            assert received(receiver) == {"READY": "1", "STATUS": "serves 1 model"}
            serving.process.send_signal(signal.SIGTERM)
            assert received(receiver) == {"STOPPING": "1", "STATUS": "waits for the requests that run"}


def test_wrong_socket_ends_the_start(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="NOTIFY_SOCKET: 'notify' is not a path"):
        Notifier({"NOTIFY_SOCKET": "notify"})


def test_absent_manager_is_ignored(tmp_path: Path) -> None:
    for environ in ({}, {"NOTIFY_SOCKET": ""}, {"NOTIFY_SOCKET": str(tmp_path / "none")}):
        notifier = Notifier(environ)
        with notifier.more_time("x"):
            notifier.ready("x")


def test_line_breaks_begin_no_field(tmp_path: Path) -> None:
    with manager(str(tmp_path / "notify")) as receiver:
        Notifier({"NOTIFY_SOCKET": str(tmp_path / "notify")}).ready("a\nSTOPPING=1")
        assert received(receiver) == {"READY": "1", "STATUS": "a STOPPING=1"}


VARIANTS = {
    "plain": (["--keys-file", "/etc/penstock/keys.toml"], ["penstock.service"]),
    "sockets": (
        ["--socket", "http=443", "--socket", "http=unix:/run/http.sock", "--socket", "admin=unix:/run/admin.sock"],
        ["penstock.service", "penstock-http.socket", "penstock-admin.socket"],
    ),
    "gpu": (["--gpu", "--memory", "4G"], ["penstock.service"]),
}


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
@pytest.mark.parametrize("variant", VARIANTS)
def test_exported_units_are_valid_and_hardened(tmp_path: Path, variant: str) -> None:
    flags, names = VARIANTS[variant]
    # A program that exists here.
    flags = [*flags, "--program", shutil.which("true") or "/bin/true", "--folder", str(tmp_path)]
    assert main(["export", "systemd", "/srv/app/app.py", *flags]) == 0
    assert sorted(names) == sorted(path.name for path in tmp_path.iterdir())
    paths = [str(tmp_path / name) for name in names]
    command = ["systemd-analyze", "verify", "--man=no", *paths]
    checked = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert [line for line in checked.stderr.splitlines() if "penstock" in line] == []
    command = ["systemd-analyze", "security", "--offline=yes", "--no-pager", paths[0]]
    rated = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    [level] = re.findall(r"Overall exposure level for \S+: ([\d.]+)", rated.stdout)
    assert float(level) <= 2.0
