"""The start of a served process: addresses, and one-line errors for each failure."""

from __future__ import annotations

import os
import re
import socket
from pathlib import Path

import pytest

from http_by_hand import get, post
from serving_process import Serving

LOOPBACK = ("--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0")
"""Two addresses of this machine, because equal texts would mean one shared port."""
MODEL = """
import numpy as np
from penstock import Tensor, model

@model(inputs=[Tensor("x", np.float32, [2])], outputs=[Tensor("y", np.float32, [2])])
def same(x):
    return x
"""


def failure(folder: Path, *arguments: str) -> tuple[int, str]:
    """The exit status and standard error of a server that does not start."""
    with Serving(*arguments, folder=folder, up=False) as server:
        status = server.exit_status()
        assert server.out == ""
        return status, server.err


@pytest.fixture
def app(tmp_path: Path) -> Path:
    path = tmp_path / "app.py"
    path.write_text(MODEL)
    return path


def test_banner_prints_the_port_picked_for_0() -> None:
    with Serving("double.py", *LOOPBACK) as server:
        ports = [int(address.rsplit(":", 1)[1]) for address in (server.http, server.grpc)]
        assert 0 not in ports
        assert len(set(ports)) == 2
        assert get(server.http, "/v2/health/ready").status == 200
        assert "double  1        x FP32 [-1, 4]" in server.out
        server.await_stderr(" info the server is ready\n")
        assert server.err.count("\n") == 1


def test_banner_prints_the_pages_unless_disabled(app: Path) -> None:
    for flags, printed in (((), True), (("--no-docs", "--live", "off"), False)):
        with Serving("app.py", *LOOPBACK, *flags, folder=app.parent) as server:
            assert (f"\ndocs  {server.http}/docs\n" in server.out) is printed
            assert (get(server.http, "/docs").status == 200) is printed
            assert (f"\nlive  {server.http}/live\n" in server.out) is printed
            assert (get(server.http, "/live").status == 200) is printed


@pytest.mark.fault("port in use")
@pytest.mark.parametrize("flag", ["--http", "--grpc"])
def test_port_in_use_is_named(app: Path, flag: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        status, error = failure(app.parent, "app.py", *LOOPBACK, flag, address)
    assert status == 1
    assert re.fullmatch(rf"penstock: error: cannot listen on {address}: Address already in use .*\n", error)
    holder = f": process {os.getpid()} ({Path('/proc/self/comm').read_text().strip()}) has it; "
    assert error.endswith(f"{holder}choose another with {flag} HOST:PORT, or port 0 for a free one\n")


def test_address_of_another_machine_is_rejected(app: Path) -> None:
    status, error = failure(app.parent, "app.py", "--http", "192.0.2.1:0", "--grpc", "off")
    assert status == 1
    assert re.fullmatch(
        r"penstock: error: cannot listen on 192\.0\.2\.1:0: Cannot assign requested address .*\n", error
    )


@pytest.mark.fault("no name resolution")
def test_unresolvable_host_is_rejected(app: Path) -> None:
    status, error = failure(app.parent, "app.py", "--http", "no-such-host.invalid:0", "--grpc", "off")
    assert (status, error) == (
        1,
        "penstock: error: cannot listen on no-such-host.invalid:0: expected HOST:PORT, unix:/path or fd:N\n",
    )


def test_invalid_signature_is_reported_with_its_location(app: Path) -> None:
    app.write_text(MODEL + "\n@model\ndef broken(x: complex) -> int:\n    return 1\n")
    status, error = failure(app.parent, "app.py", *LOOPBACK)
    assert status == 1
    assert error.count("\n") == 1
    assert error.startswith("penstock: error: model 'broken': parameter 'x' is complex, which is not a tensor; use ")
    assert error.endswith(" (app.py, line 9)\n")


def test_import_error_shows_the_user_traceback(app: Path) -> None:
    app.write_text(MODEL + "\ndef weights():\n    return open('missing.bin')\n\nweights()\n")
    status, error = failure(app.parent, "app.py", *LOOPBACK)
    lines = error.splitlines()
    assert status == 1
    assert lines[0] == "Traceback (most recent call last):"
    # From the user's file on, without a frame of Penstock.
    assert lines[1].endswith('app.py", line 12, in <module>')
    assert not [line for line in lines if "penstock/_loading/targets.py" in line or "importlib" in line]
    assert lines[-2] == "FileNotFoundError: [Errno 2] No such file or directory: 'missing.bin'"
    assert lines[-1] == (
        "penstock: error: cannot import app.py: FileNotFoundError: [Errno 2] No such file or directory: 'missing.bin'"
    )


def test_failing_constructor_shows_its_traceback(app: Path) -> None:
    app.write_text(
        "import numpy as np\nfrom penstock import Tensor, model\n"
        "@model(inputs=[Tensor('x', np.float32)], outputs=[Tensor('y', np.float32)])\n"
        "class Broken:\n    def __init__(self):\n        self.weights = {}['w']\n"
        "    def __call__(self, x):\n        return x\n"
    )
    status, error = failure(app.parent, "app.py", *LOOPBACK)
    assert status == 1
    assert 'app.py", line 6, in __init__' in error
    assert error.splitlines()[-1] == "penstock: error: model 'Broken' version '1' could not be loaded: KeyError: 'w'"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--htpp", "127.0.0.1:0"], "unrecognized arguments: --htpp 127.0.0.1:0"),
        (["--max-body-bytes", "lots"], "argument --max-body-bytes: 'lots' is not a size of 1 byte or more"),
    ],
)
def test_wrong_usage_exits_with_status_2(app: Path, arguments: list[str], complaint: str) -> None:
    status, error = failure(app.parent, "app.py", *arguments)
    assert status == 2
    assert complaint in error


def test_missing_file_is_named(app: Path) -> None:
    assert failure(app.parent, "none.py") == (1, "penstock: error: there is no file none.py\n")


def test_settings_are_read_from_the_environment(app: Path) -> None:
    environment = {"PENSTOCK_HTTP": "127.0.0.1:0", "PENSTOCK_GRPC": "off", "PENSTOCK_SERVER_NAME": "from-environment"}
    with Serving("app.py", folder=app.parent, environment=environment) as server:
        assert get(server.http, "/v2").json()["name"] == "from-environment"
        assert "\ngrpc " not in server.out


def test_files_and_objects_are_served_together(app: Path) -> None:
    (app.parent / "more.py").write_text("def shout(text: str) -> str:\n    return text.upper()\n")
    with Serving("app.py", "more.py:shout", *LOOPBACK, folder=app.parent) as server:
        assert [get(server.http, f"/v2/models/{name}/ready").status for name in ("same", "shout")] == [200, 200]


def test_child_process_inherits_no_socket(app: Path) -> None:
    app.write_text(
        "import os, subprocess\n"
        "def descriptors(x: int) -> list[str]:\n"
        "    listed = subprocess.run(['ls', '-l', '/proc/self/fd'], close_fds=False, capture_output=True, text=True)\n"
        "    return listed.stdout.splitlines()\n"
    )
    body = b'{"inputs":[{"name":"x","shape":[],"datatype":"INT64","data":[1]}]}'
    with Serving("app.py:descriptors", *LOOPBACK, folder=app.parent) as server:
        listed = post(server.http, "/v2/models/descriptors/infer", body).json()["outputs"][0]["data"]
    assert any("pipe:" in line for line in listed)
    assert not [line for line in listed if "socket:" in line or "eventpoll" in line]
