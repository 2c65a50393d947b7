"""Builds and runs an image with buildah, without a registry or a daemon."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from image_base import write_system, write_wheel
from observe import free_ports

from waiting import PATIENCE, until

pytestmark = [
    pytest.mark.skipif(shutil.which("buildah") is None, reason="buildah is not installed: apt install buildah"),
    pytest.mark.skipif(os.geteuid() != 0, reason="buildah's chroot isolation needs root"),
    pytest.mark.skipif(
        subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode != 0,
        reason="this machine has no mount namespaces, which chroot isolation needs",
    ),
]

BASE = "localhost/penstock-test-base:1"
APP = """
import os
import numpy as np
from penstock import Tensor, model

@model(name="double", inputs=[Tensor("x", np.float32, [2])], outputs=[Tensor("y", np.float32, [2])])
def double(x):
    return x * 2

@model(name="about", inputs=[Tensor("x", np.int32, [1])], outputs=[Tensor("user", np.int32, [1])])
def about(x):
    assert os.environ["GREETING"] == 'say "$HOME"', os.environ["GREETING"]
    assert open("/opt/marker").read() == "before\\nafter\\n"
    assert os.path.exists("kept/weights.bin") and not os.path.exists("kept/secret.key")
    return np.array([os.getuid()], np.int32)
"""
SETTINGS = """
[server]
server_name = "from the folder"
[image]
base_image = "{base}"
commands_before = ["echo before > /opt/marker"]
commands_after = ["echo after >> /opt/marker"]
http_port = {port}
grpc_port = "off"
writable = ["kept"]
[image.env]
GREETING = 'say "$HOME"'
"""
INFER = """
import json, sys, urllib.request
url, name, datatype, data = sys.argv[1:]
tensor = {"name": "x", "datatype": datatype, "shape": [len(json.loads(data))], "data": json.loads(data)}
request = urllib.request.Request(f"{url}/v2/models/{name}/infer", json.dumps({"inputs": [tensor]}).encode())
print(urllib.request.urlopen(request).read().decode())
"""


@dataclass
class Store:
    """Separate storage for images and containers."""

    folder: Path
    environment: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        settings = self.folder / "storage.conf"
        settings.write_text(
            f'[storage]\ndriver = "vfs"\ngraphroot = "{self.folder}/images"\nrunroot = "{self.folder}/run"\n'
        )
        storage = {"CONTAINERS_STORAGE_CONF": str(settings), "STORAGE_DRIVER": "vfs", "BUILDAH_ISOLATION": "chroot"}
        # A layer per step would copy the whole image each time.
        self.environment = {**os.environ, **storage, "BUILDAH_LAYERS": "false"}

    def buildah(self, *words: str, status: int = 0) -> str:
        done = subprocess.run(["buildah", *words], capture_output=True, text=True, check=False, env=self.environment)
        assert done.returncode == status, done.stderr
        return done.stdout.strip()

    def penstock(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "penstock", *words]
        return subprocess.run(command, capture_output=True, text=True, check=False, env=self.environment)

    def configuration(self, image: str) -> dict[str, object]:
        configuration: dict[str, object] = json.loads(self.buildah("inspect", "--type", "image", image))["Docker"]
        return configuration


@dataclass
class Image:
    """The image under test, and the inputs of its build."""

    store: Store
    folder: Path
    wheel: Path
    port: int
    output: str

    def build(self, name: str) -> str:
        done = self.store.penstock(
            "build", str(self.folder), "-t", name, "--wheel", str(self.wheel), "--builder", "buildah", "--no-cache"
        )
        assert done.returncode == 0, done.stderr
        return done.stderr + done.stdout


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    folder = tmp_path_factory.mktemp("images")
    store = Store(folder)
    root = folder / "root"
    root.mkdir()
    write_system(root)
    container = store.buildah("from", "scratch")
    store.buildah("copy", "--quiet", container, str(root), "/")
    store.buildah("config", "--env", "PATH=/usr/local/bin:/usr/bin:/bin", container)
    store.buildah("commit", "--quiet", container, BASE)
    store.buildah("rm", container)
    shutil.rmtree(root)
    app = folder / "app"
    (app / "kept").mkdir(parents=True)
    (app / "kept/weights.bin").write_bytes(b"\0" * 1000)
    (app / "kept/secret.key").write_text("must not be in an image")
    (app / ".dockerignore").write_text("**/*.key\n")
    (app / "app.py").write_text(APP)
    (app / "requirements.txt").write_text("numpy >= 1.24  # what the base image brings\n")
    (port,) = free_ports(1)
    (app / "penstock.toml").write_text(SETTINGS.format(base=BASE, port=port))
    image = Image(store, app, write_wheel(folder), port, "")
    image.output = image.build("digits:1")
    yield image
    # Gigabytes, which pytest would retain.
    store.buildah("rm", "--all")
    store.buildah("rmi", "--all", "--force")


@pytest.fixture
def container(image: Image) -> Iterator[str]:
    name = image.store.buildah("from", "localhost/digits:1")
    yield name
    image.store.buildah("rm", name)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="penstock.toml needs Python 3.11")
class TestBuiltImage:
    def test_image_serves_and_passes_its_health_check(self, image: Image, container: str) -> None:
        entry = image.store.configuration("localhost/digits:1")["config"]
        assert isinstance(entry, dict)
        health = entry["Healthcheck"]["Test"]
        run = ["run", container, "--"]
        assert health[0] == "CMD"
        # No server runs yet, so the health check fails.
        image.store.buildah(*run, *health[1:], status=1)
        command = ["buildah", *run, *entry["Entrypoint"], "--log-level", "info"]
        with subprocess.Popen(
            command, env=image.store.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as server:
            try:
                until(lambda: healthy(image, container, health[1:]) or server.poll() is not None, "the server")
                url = f"http://127.0.0.1:{image.port}"
                infer = [*run, "python", "-c", INFER, url]
                response = json.loads(image.store.buildah(*infer, "double", "FP32", "[1.5, -2]"))
                assert response["outputs"][0]["data"] == [3.0, -4.0]
                # The handler checks variables, files and the output of the commands.
                response = json.loads(image.store.buildah(*infer, "about", "INT32", "[0]"))
                assert response["outputs"][0]["data"] == [10001]
                get_name = f"import urllib.request as r; print(r.urlopen('{url}/v2').read().decode())"
                assert json.loads(image.store.buildah(*run, "python", "-c", get_name))["name"] == "from the folder"
            finally:
                out = stop(server)
        assert server.returncode == 0, out
        assert f"http  http://127.0.0.1:{image.port}" in out

    def test_image_user_cannot_change_the_code(self, image: Image, container: str) -> None:
        output = image.store.buildah(
            "run", container, "--", "sh", "-c", "id -u; ls -ld /app/app.py; touch $HOME/x; echo $HOME"
        )
        assert output.splitlines()[0] == "10001"
        assert output.splitlines()[1].startswith("-rw-r--r-- 1 root root")
        assert output.splitlines()[-1] == "/home/penstock"
        image.store.buildah("run", container, "--", "touch", "/app/app.py", status=1)
        image.store.buildah("run", container, "--", "touch", "/app/new", status=1)
        # Writable paths are an exception.
        image.store.buildah("run", container, "--", "touch", "/app/kept/new")

    def test_equal_files_build_equal_layers(self, image: Image) -> None:
        for path in image.folder.rglob("*"):
            os.utime(path, (1, 1))
        image.build("digits:2")
        first, second = (image.store.configuration(f"localhost/digits:{one}") for one in (1, 2))
        assert first["rootfs"] == second["rootfs"]
        assert first["created"] == second["created"] == "1980-01-01T00:00:00Z"

    def test_built_image_is_recorded_in_the_folder(self, image: Image) -> None:
        record = json.loads((image.folder / ".penstock/image.json").read_text())["."]
        assert record["builder"] == "buildah"
        assert record["http_port"] == image.port
        assert record["grpc_port"] is None
        assert record["id"].startswith("sha256:")
        assert "STEP " in image.output
        assert "penstock: built digits:1 (sha256:" in image.output

    def test_failed_command_is_reported_with_its_output(self, image: Image, tmp_path: Path) -> None:
        shutil.copytree(image.folder, tmp_path / "app", ignore=shutil.ignore_patterns(".penstock"))
        done = image.store.penstock(
            "build", str(tmp_path / "app"), "-t", "broken:1", "--wheel", str(image.wheel),
            "--builder", "buildah", "--run-before", "echo out of luck; exit 7",
        )  # fmt: skip
        assert done.returncode == 1
        assert "out of luck" in done.stderr
        assert done.stderr.splitlines()[-1].startswith(
            "penstock: error: buildah could not build the image (exit status"
        )
        assert not (tmp_path / "app/.penstock").exists()


def children(thread: Path) -> list[str]:
    """Running child processes of a thread."""
    return (thread / "children").read_text().split()


def stop(process: subprocess.Popen[str]) -> str:
    """Ends the process of the container like `docker stop`, and returns its output."""
    # The innermost child, because buildah does not forward signals.
    number = str(process.pid)
    while below := [child for thread in Path(f"/proc/{number}/task").iterdir() for child in children(thread)]:
        number = below[0]
    os.kill(int(number), signal.SIGTERM)
    try:
        return process.communicate(timeout=PATIENCE)[0]
    finally:
        process.kill()


def healthy(image: Image, container: str, check: list[str]) -> bool:
    command = ["buildah", "run", container, "--", *check]
    return subprocess.run(command, env=image.store.environment, capture_output=True, check=False).returncode == 0
