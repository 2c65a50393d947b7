"""Generated Dockerfiles: golden files, and specs that are refused."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import trustme

from penstock import Server, StartupError
from penstock._images.dockerfile import default_python, dockerfile
from penstock.images import ImageSpec

GOLDEN = Path(__file__).parent / "golden"

ADDRESS = "https://"
"""Separate from the rest of an address, because no file here may contain an address with a password."""

SPECS: dict[str, ImageSpec] = {
    "plain": ImageSpec(python_version="3.12", files=((Path("app"), "."),), serve=("app.py",)),
    "everything": ImageSpec(
        base_image="nvidia/cuda:12.4.1-runtime-ubuntu22.04",
        python_version="3.10",
        env={"MODEL": 'a "quoted" $HOME\\path', "PIP_NO_CACHE_DIR": "0"},
        system_packages=("libgomp1", "ffmpeg", "libgomp1"),
        commands_before=("pip install --upgrade pip", "--not-a-flag", "two\nlines"),
        requirements=("scikit-learn==1.5.2", "torch>=2 ; python_version >= '3.10'"),
        commands_after=("python -c 'import sklearn'", 'echo "[it is a list]" \\', "[ -e /x ] || true"),
        files=((Path("here"), "/data/weights"), (Path("app.py"), "app.py"), (Path("x"), "/with space/x")),
        writable=("/data/cache", "logs"),
        serve=("--integration", "inferless", ".", "--option", "name=ä"),
        http_port=8080,
        grpc_port=9000,
    ),
    "hashes": ImageSpec(
        python_version="3.11", requirements=(f"numpy==2.0.0 --hash=sha256:{'0' * 64}",), grpc_port=None
    ),
}


@pytest.mark.parametrize("name", SPECS)
def test_i22_m17_d15_dockerfile_matches_the_golden_file(name: str) -> None:
    wheel = "penstock-9.9-py3-none-any.whl" if name == "hashes" else None
    text = dockerfile(SPECS[name], version="9.9", wheel=wheel)
    golden = GOLDEN / f"{name}.Dockerfile"
    if "PENSTOCK_WRITE_GOLDEN" in os.environ:
        golden.write_text(text)
    assert text == golden.read_text()


def test_default_python_is_the_version_of_the_build() -> None:
    assert f"FROM python:{default_python()}-slim" in dockerfile(ImageSpec(), version="1")


def test_d15_layers_are_in_the_order_of_the_integrations() -> None:
    text = dockerfile(SPECS["everything"], version="9.9")
    marks = [
        "FROM nvidia",
        "ENV MODEL",
        "apt-get install -y --no-install-recommends \\\n      ffmpeg",
        "RUN pip install --upgrade pip",
        "-r /opt/penstock/requirements.txt",
        "import sklearn",
        "COPY files/app/",
        "USER 10001:10001",
        "HEALTHCHECK",
        "ENTRYPOINT",
    ]
    positions = [text.index(mark) for mark in marks]
    assert positions == sorted(positions)


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"base_image": "Debian 12"}, "base_image 'Debian 12' is not the name of an image, expected one such as debian:12"),
    ({"base_image": "a\nRUN b"}, r"base_image 'a\nRUN b' is not the name of an image, expected one such as debian:12"),
    ({"python_version": "three"}, "python_version 'three': expected one such as 3.12"),
    ({"python_version": "3.8"}, "python_version 3.8: Penstock runs on Python 3.10 and newer"),
    ({"python_version": "2.12"}, "python_version 2.12: Penstock runs on Python 3.10 and newer"),
    ({"env": {"A-B": "x"}}, "env: 'A-B' is not the name of a variable"),
    (
        {"env": {"KEY": "secret\nRUN x"}},
        "env: the value of KEY has a line break or is not text, expected one line",
    ),
    (
        {"system_packages": ("a; rm -rf /",)},
        "system_packages: 'a; rm -rf /' is not the name of a package, expected one such as libgomp1",
    ),
    ({"commands_after": (" ",)}, "commands: ' ' is not a shell command"),
    ({"requirements": ("a\nb",)}, r"requirements: 'a\nb' is not a requirement, expected one in each line"),
    (
        {"requirements": ("-e .",)},
        "requirements: '-e .' refers to files of this machine, which an image does not have; name packages, and copy "
        "the files",
    ),
    (
        {"requirements": ("./wheels/x.whl",)},
        "requirements: './wheels/x.whl' refers to files of this machine, which an image does not have; name packages, "
        "and copy the files",
    ),
    (
        {"requirements": ("mine @ file:///srv/mine",)},
        "requirements: 'mine @ file:///srv/mine' refers to files of this machine, which an image does not have; name "
        "packages, and copy the files",
    ),
    (
        {"requirements": (f"mine @ {ADDRESS}me:hidden@example.org/mine.whl",)},
        f"requirements: 'mine @ {ADDRESS}***@example.org/mine.whl' has a password in its address, which every user of "
        "the image could read",
    ),
    ({"files": ((Path("a"), "../a"),)}, "files: '../a' is not a path in an image, expected a path without '..'"),
    ({"files": ((Path("a"), "/"),)}, "files: '/' is reserved, expected a path below /app, for example"),
    (
        {"files": ((Path("a"), "/opt/venv/x"),)},
        "files: '/opt/venv/x' is reserved, expected a path below /app, for example",
    ),
    ({"writable": ("/a\nb",)}, r"files: '/a\nb' is not a path in an image, expected a path without '..'"),
    ({"http_port": 80}, "http_port 80: expected 1024 to 65535, the server is not root"),
    ({"grpc_port": 8000}, "http_port and grpc_port are both 8000, expected two ports"),
]


@pytest.mark.parametrize(("fields", "message"), REFUSED, ids=[message[:40] for _, message in REFUSED])
def test_invalid_image_specs_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(StartupError) as refused:
        dockerfile(ImageSpec(**fields), version="1")
    assert str(refused.value) == message


def test_addresses_without_passwords_are_accepted() -> None:
    lines = ("mine @ git+ssh://git@example.org/mine", "torch", "numpy==2.*")
    assert "requirements.txt" in dockerfile(ImageSpec(requirements=lines), version="1")


@pytest.mark.parametrize("encrypted", [False, True], ids=["plain", "tls"])
def test_health_check_asks_the_server(tmp_path: Path, encrypted: bool) -> None:
    issued = trustme.CA().issue_cert("example.test")
    issued.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "a.pem"))
    (tmp_path / "a.pem").chmod(0o600)
    pem = str(tmp_path / "a.pem")
    options: dict[str, Any] = {"tls_certificate": pem, "tls_key": pem} if encrypted else {}

    def same(x: float) -> float:
        return x

    with Server(same, http="127.0.0.1:0", grpc="off", **options) as server:
        port = int((server.http_address or "").rpartition(":")[2])
        text = dockerfile(ImageSpec(http_port=port), version="1")
        [command] = [json.loads(found) for found in re.findall(r"^  CMD (\[.*\])$", text, re.MULTILINE)]
        environ = {**os.environ, **({"PENSTOCK_TLS_CERTIFICATE": pem} if encrypted else {})}
        ask = [sys.executable, *command[1:]]
        assert subprocess.run(ask, env=environ, timeout=60, check=False).returncode == 0
    assert subprocess.run(ask, env=environ, timeout=60, check=False, stderr=subprocess.DEVNULL).returncode == 1
