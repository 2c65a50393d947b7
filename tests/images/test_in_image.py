"""`penstock serve PATH --in-image`: which container it becomes. The program is a stand-in that prints its words."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock import cli
from penstock._images import recording
from penstock._images.recording import Built

STAND_IN = (
    f"#!{sys.executable}\nimport sys\nprint('\\n'.join(sys.argv[1:]))\nsys.exit(7 if sys.argv[1] == 'run' else 0)\n"
)


@pytest.fixture
def app(tmp_path: Path) -> Path:
    (tmp_path / "app").mkdir()
    (tmp_path / "app/app.py").write_text("import penstock\n")
    recording.write(tmp_path / "app", Built("digits:1", "sha256:1", "podman", "0", 8080, 9000))
    return tmp_path / "app"


def serve(app: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    programs = app.parent / "programs"
    programs.mkdir(exist_ok=True)
    (programs / "podman").write_text(STAND_IN)
    (programs / "podman").chmod(0o755)
    command = [sys.executable, "-m", "penstock", "serve", str(app), "--in-image", *flags]
    environment = {**os.environ, "PATH": str(programs)}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def test_d15_the_next_serve_uses_the_image(app: Path) -> None:
    done = serve(app)
    assert done.stdout.split() == [
        "run", "--rm", "--stop-timeout", "40", "--publish", "127.0.0.1:8000:8080", "--publish", "127.0.0.1:8001:9000",
        "digits:1",
    ]  # fmt: skip
    assert done.stderr == "penstock: serving digits:1, as it was built, with podman\n"
    # It became the container.
    assert done.returncode == 7


def test_addresses_are_outside_and_all_else_is_inside(app: Path) -> None:
    done = serve(app, "--http", "0.0.0.0:0", "--grpc", "off", "--drain-timeout", "5m", "--log-level", "info")
    assert done.stdout.split() == [
        "run", "--rm", "--stop-timeout", "310", "--publish", "0.0.0.0::8080",
        "--env", "PENSTOCK_DRAIN_TIMEOUT=5m", "--env", "PENSTOCK_LOG_LEVEL=info", "digits:1",
    ]  # fmt: skip


def test_what_cannot_be_had_is_refused(app: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done = serve(app, "--http", "unix:/tmp/x")
    assert done.stderr == "penstock: error: http: unix:/tmp/x cannot be had with --in-image, expected HOST:PORT\n"
    assert cli.main(["serve", str(app), str(app), "--in-image"]) == 1
    assert capsys.readouterr().err == "penstock: error: --in-image serves the image of one path, not of 2\n"
    assert cli.main(["serve", str(tmp_path), "--in-image"]) == 1
    told = f"no image was built of {tmp_path} yet: use penstock build {tmp_path} -t NAME"
    assert capsys.readouterr().err == f"penstock: error: {told}\n"
    recording.write(app, Built("digits:1", "sha256:1", "buildah", "0", 8080, 9000))
    assert cli.main(["serve", str(app), "--in-image"]) == 1
    assert capsys.readouterr().err == (
        "penstock: error: the image was built by buildah, which runs none; use docker or podman\n"
    )
