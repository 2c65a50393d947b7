"""A Go client, compiled from the proto file against the gRPC library for Go."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from clients_tools import REPOSITORY, TOOLS

from serving_process import Serving

MODULE = "penstock.test/client"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled client. Its code is generated here and not checked in."""
    plugins = [TOOLS / "bin" / name for name in ("protoc-gen-go", "protoc-gen-go-grpc")]
    if shutil.which("go") is None:
        pytest.skip("go is not installed; see https://go.dev/doc/install")
    if not (TOOLS / "protoc" / "grpc_tools").exists() or not all(plugin.exists() for plugin in plugins):
        pytest.skip("the Go plugins are not installed; python tests/clients/setup_tools.py go_client fetches them")
    folder = tmp_path_factory.mktemp("go")
    shutil.copytree(Path(__file__).parent / "go", folder, dirs_exist_ok=True)
    (folder / "inference").mkdir()
    mapping = f"Mopen_inference.proto={MODULE}/inference"
    protoc = [sys.executable, "-m", "grpc_tools.protoc", f"-I{REPOSITORY / 'proto'}"]
    for plugin in plugins:
        kind = plugin.name.removeprefix("protoc-gen-")
        protoc += [f"--plugin={plugin.name}={plugin}", f"--{kind}_out={folder}"]
        protoc += [f"--{kind}_opt={mapping}", f"--{kind}_opt=module={MODULE}"]
    run([*protoc, "open_inference.proto"], folder, {"PYTHONPATH": str(TOOLS / "protoc")})
    run(["go", "mod", "tidy"], folder)
    run(["go", "build", "-o", "client", "."], folder)
    return folder / "client"


def run(command: list[str], folder: Path, environment: dict[str, str] | None = None) -> str:
    # -mod=mod downloads the checksums with the modules.
    variables = {**os.environ, "GOFLAGS": "-mod=mod", **(environment or {})}
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=600, cwd=folder, env=variables)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_go_client_over_tcp(program: Path, server: Serving, tmp_path: Path) -> None:
    assert run([str(program), server.grpc], tmp_path).splitlines() == [
        "ready true",
        "input x FP32 [-1 4]",
        "output y [1 4] [2 4 6 9]",
        "id from-go",
        "typed 16",
        "refused true unknown model 'missing'",
    ]


def test_go_client_over_a_unix_socket(program: Path, tmp_path: Path) -> None:
    address = f"unix:{tmp_path}/grpc.sock"
    with Serving("double.py", "--http", "127.0.0.1:0", "--grpc", address) as server:
        assert "output y [1 4] [2 4 6 9]" in run([str(program), server.grpc], tmp_path)
