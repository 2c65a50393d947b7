"""An image is built, run, and asked from inside, by Debian's buildah; no registry and no daemon has a part in it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from image_base import write_system, write_wheel

from waiting import PATIENCE, until

pytestmark = [
    pytest.mark.skipif(shutil.which("buildah") is None, reason="there is no buildah: apt install buildah"),
    pytest.mark.skipif(os.geteuid() != 0, reason="buildah's chroot isolation is tried as root"),
    pytest.mark.skipif(
        subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode != 0,
        reason="this machine lets nobody have mounts of their own, which chroot isolation needs",
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
ASK = """
import json, sys, urllib.request
url, name, datatype, data = sys.argv[1:]
tensor = {"name": "x", "datatype": datatype, "shape": [len(json.loads(data))], "data": json.loads(data)}
asked = urllib.request.Request(f"{url}/v2/models/{name}/infer", json.dumps({"inputs": [tensor]}).encode())
print(urllib.request.urlopen(asked).read().decode())
"""


@dataclass
class Store:
    """A place of its own for images and containers."""

    folder: Path
    environment: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        settings = self.folder / "storage.conf"
        settings.write_text(
            f'[storage]\ndriver = "vfs"\ngraphroot = "{self.folder}/images"\nrunroot = "{self.folder}/run"\n'
        )
        own = {"CONTAINERS_STORAGE_CONF": str(settings), "STORAGE_DRIVER": "vfs", "BUILDAH_ISOLATION": "chroot"}
        # A layer for each step would copy the whole image each time.
        self.environment = {**os.environ, **own, "BUILDAH_LAYERS": "false"}

    def buildah(self, *words: str, status: int = 0) -> str:
        done = subprocess.run(["buildah", *words], capture_output=True, text=True, check=False, env=self.environment)
        assert done.returncode == status, done.stderr
        return done.stdout.strip()

    def penstock(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "penstock", *words]
        return subprocess.run(command, capture_output=True, text=True, check=False, env=self.environment)

    def configuration(self, image: str) -> dict[str, object]:
        found: dict[str, object] = json.loads(self.buildah("inspect", "--type", "image", image))["Docker"]
        return found


@dataclass
class Image:
    """The image under test, and what it was built of."""

    store: Store
    folder: Path
    wheel: Path
    port: int
    said: str

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
    (app / "kept/secret.key").write_text("no image must have this")
    (app / ".dockerignore").write_text("**/*.key\n")
    (app / "app.py").write_text(APP)
    (app / "requirements.txt").write_text("numpy >= 1.24  # what the base image brings\n")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (app / "penstock.toml").write_text(SETTINGS.format(base=BASE, port=port))
    made = Image(store, app, write_wheel(folder), port, "")
    made.said = made.build("digits:1")
    yield made
    # Gigabytes, which pytest would keep.
    store.buildah("rm", "--all")
    store.buildah("rmi", "--all", "--force")


@pytest.fixture
def container(image: Image) -> Iterator[str]:
    name = image.store.buildah("from", "localhost/digits:1")
    yield name
    image.store.buildah("rm", name)


class TestAnImage:
    def test_it_serves_and_is_asked_from_inside(self, image: Image, container: str) -> None:
        entry = image.store.configuration("localhost/digits:1")["config"]
        assert isinstance(entry, dict)
        health = entry["Healthcheck"]["Test"]
        run = ["run", container, "--"]
        assert health[0] == "CMD"
        # Nobody is there yet: the check has to be able to fail.
        image.store.buildah(*run, *health[1:], status=1)
        command = ["buildah", *run, *entry["Entrypoint"], "--log-level", "info"]
        with subprocess.Popen(
            command, env=image.store.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as server:
            try:
                until(lambda: healthy(image, container, health[1:]) or server.poll() is not None, "the server")
                url = f"http://127.0.0.1:{image.port}"
                ask = [*run, "python", "-c", ASK, url]
                answer = json.loads(image.store.buildah(*ask, "double", "FP32", "[1.5, -2]"))
                assert answer["outputs"][0]["data"] == [3.0, -4.0]
                # The handler looks at variables, files and what the commands wrote.
                answer = json.loads(image.store.buildah(*ask, "about", "INT32", "[0]"))
                assert answer["outputs"][0]["data"] == [10001]
                told = f"import urllib.request as r; print(r.urlopen('{url}/v2').read().decode())"
                assert json.loads(image.store.buildah(*run, "python", "-c", told))["name"] == "from the folder"
            finally:
                out = stop(server)
        assert server.returncode == 0, out
        assert f"http  http://127.0.0.1:{image.port}" in out

    def test_its_user_cannot_change_its_code(self, image: Image, container: str) -> None:
        said = image.store.buildah(
            "run", container, "--", "sh", "-c", "id -u; ls -ld /app/app.py; touch $HOME/x; echo $HOME"
        )
        assert said.splitlines()[0] == "10001"
        assert said.splitlines()[1].startswith("-rw-r--r-- 1 root root")
        assert said.splitlines()[-1] == "/home/penstock"
        image.store.buildah("run", container, "--", "touch", "/app/app.py", status=1)
        image.store.buildah("run", container, "--", "touch", "/app/new", status=1)
        # But where it was said that it may write.
        image.store.buildah("run", container, "--", "touch", "/app/kept/new")

    def test_the_same_files_make_the_same_layers(self, image: Image) -> None:
        for path in image.folder.rglob("*"):
            os.utime(path, (1, 1))
        image.build("digits:2")
        first, second = (image.store.configuration(f"localhost/digits:{one}") for one in (1, 2))
        assert first["rootfs"] == second["rootfs"]
        assert first["created"] == second["created"] == "1980-01-01T00:00:00Z"

    def test_it_is_remembered_beside_the_folder(self, image: Image) -> None:
        known = json.loads((image.folder / ".penstock/image.json").read_text())["."]
        assert known["builder"] == "buildah"
        assert known["http_port"] == image.port
        assert known["grpc_port"] is None
        assert known["id"].startswith("sha256:")
        assert "STEP " in image.said
        assert "penstock: built digits:1 (sha256:" in image.said

    def test_a_command_that_fails_is_told_with_what_it_said(self, image: Image, tmp_path: Path) -> None:
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
    """The processes that a thread has started, and that run."""
    return (thread / "children").read_text().split()


def stop(process: subprocess.Popen[str]) -> str:
    """Ends what the container runs, as `docker stop` does, and gives what it said."""
    # What is under buildah's own processes; that passes no signals on.
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
