"""`penstock serve PATH` after a build: the container command. The container program is a fake that prints it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock._cli import main
from penstock._images import record
from penstock._images.fingerprint import stamp
from penstock._images.record import Built

STAND_IN = """#!{python}
import os, sys
words = sys.argv[1:]
if words[:2] == ["image", "inspect"]:
    print("1")
elif words[0] == "run":
    print("\\n".join(words))
    print(os.environ.get("PENSTOCK_API_KEY", ""), file=sys.stderr, end="")
    sys.exit(7)
"""


@pytest.fixture
def app(tmp_path: Path) -> Path:
    (tmp_path / "app").mkdir()
    (tmp_path / "app/app.py").write_text("import penstock\n")
    built = Built("digits:1", "sha256:1", "podman", "0", 8080, 9000, stamp(tmp_path / "app"))
    record.write(tmp_path / "app", built)
    return tmp_path / "app"


def serve(
    app: Path, *flags: str, program: str = "podman", environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    programs = app.parent / "programs"
    programs.mkdir(exist_ok=True)
    (programs / program).write_text(STAND_IN.format(python=sys.executable))
    (programs / program).chmod(0o755)
    command = [sys.executable, "-m", "penstock", "serve", str(app), *flags]
    variables = {name: text for name, text in os.environ.items() if not name.startswith("PENSTOCK_")}
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        env={**variables, "PATH": str(programs), **(environment or {})},
        cwd=app,
    )


ARGUMENTS = [
    "run", "--rm", "--stop-timeout", "40", "--publish", "127.0.0.1:8000:8080", "--publish", "127.0.0.1:8001:9000",
    "digits:1",
]  # fmt: skip


def test_d15_serve_uses_the_built_image(app: Path) -> None:
    done = serve(app)
    assert done.stdout.split() == ARGUMENTS
    assert done.stderr.splitlines() == [
        f"penstock: {app} has not changed since digits:1 was built; --no-in-image serves its code",
        "penstock: serving digits:1, as it was built, with podman",
    ]
    # The process was replaced by the container program.
    assert done.returncode == 7


def code_start_message(done: subprocess.CompletedProcess[str]) -> str:
    """Messages before the start of the code, which fails without a model."""
    assert done.stdout == ""
    *first, last = done.stderr.splitlines()
    assert "has no @model" in last
    return "\n".join(first)


def test_changed_code_is_served_instead_of_the_image(app: Path) -> None:
    (app / "weights.bin").write_text("new")
    expected = f"penstock: serving the code of {app}, not digits:1: it may have changed since the build"
    assert code_start_message(serve(app)) == expected
    # Excluded files do not count as a change.
    (app / "weights.bin").unlink()
    (app / "__pycache__").mkdir()
    (app / "__pycache__/app.pyc").write_text("x")
    assert serve(app).stdout.split() == ARGUMENTS
    # Old records without a stamp count as changed.
    record.write(app, Built("digits:1", "sha256:1", "podman", "0", 8080, 9000))
    assert code_start_message(serve(app)) == expected
    # --in-image forces the image.
    assert serve(app, "--in-image").stdout.split() == ARGUMENTS


@pytest.mark.parametrize("flags", [("--no-in-image",), ("--integration", "penstock"), ("--reload",)])
def test_flags_force_serving_the_code(app: Path, flags: tuple[str, ...]) -> None:
    assert code_start_message(serve(app, *flags)) == ""


@pytest.mark.parametrize(
    ("flags", "environment", "reason"),
    [
        (("--http", "unix:/tmp/x"), {}, "http is of this machine"),
        (("--pid-file", "/tmp/x"), {}, "pid_file is of this machine"),
        ((), {"PENSTOCK_API_KEY": "env:SECRET", "SECRET": "s"}, "api_key is of this machine"),
        (("--config", "/dev/null"), {}, "its settings are in a file of this machine"),
    ],
)
@pytest.mark.skipif(sys.version_info < (3, 11), reason="a configuration file needs Python 3.11")
def test_machine_specific_settings_serve_the_code(
    app: Path, flags: tuple[str, ...], environment: dict[str, str], reason: str
) -> None:
    done = serve(app, *flags, environment=environment)
    assert code_start_message(done) == f"penstock: serving the code of {app}, not digits:1: {reason}"


def test_missing_image_is_not_pulled(app: Path) -> None:
    record.write(app, Built("digits:1", "sha256:2", "podman", "0", 8080, 9000, stamp(app)))
    expected = f"penstock: serving the code of {app}, not digits:1: podman has another, or none"
    assert code_start_message(serve(app)) == expected
    record.write(app, Built("digits:1", "sha256:1", "docker", "0", 8080, 9000, stamp(app)))
    expected = f"penstock: serving the code of {app}, not digits:1: no docker is installed to run an image"
    assert code_start_message(serve(app)) == expected


def test_podman_runs_images_of_buildah(app: Path) -> None:
    record.write(app, Built("digits:1", "sha256:1", "buildah", "0", 8080, 9000, stamp(app)))
    assert serve(app).stdout.split() == ARGUMENTS


def test_environment_settings_are_passed_to_the_container(app: Path) -> None:
    flags = ["--in-image", "--grpc", "same"]
    done = serve(app, *flags, environment={"PENSTOCK_API_KEY": "hidden"})
    assert done.stdout.split() == [
        "run", "--rm", "--stop-timeout", "40", "--publish", "127.0.0.1:8000:8080", "--env", "PENSTOCK_GRPC=same",
        "--env", "PENSTOCK_API_KEY", "digits:1",
    ]  # fmt: skip
    assert done.stderr.endswith("hidden")


def test_stamp_differs_by_object(app: Path) -> None:
    assert stamp(app / "app.py") != stamp(app / "app.py", "Other") != stamp(app)


def test_addresses_are_published_and_other_settings_passed(app: Path) -> None:
    done = serve(
        app, "--in-image", "--http", "0.0.0.0:0", "--grpc", "off", "--drain-timeout", "5m", "--log-level", "info"
    )
    assert done.stdout.split() == [
        "run", "--rm", "--stop-timeout", "310", "--publish", "0.0.0.0::8080",
        "--env", "PENSTOCK_DRAIN_TIMEOUT=5m", "--env", "PENSTOCK_LOG_LEVEL=info", "digits:1",
    ]  # fmt: skip


def test_invalid_in_image_requests_are_refused(app: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done = serve(app, "--in-image", "--http", "unix:/tmp/x")
    assert done.stderr == "penstock: error: http: unix:/tmp/x does not work with --in-image, expected HOST:PORT\n"
    assert main.main(["serve", str(app), str(app), "--in-image"]) == 1
    assert capsys.readouterr().err == "penstock: error: --in-image serves the image of one path, not of 2\n"
    (tmp_path / "app.py").write_text("import penstock\n")
    assert main.main(["serve", str(tmp_path), "--in-image"]) == 1
    expected = f"no image was built of {tmp_path} yet: use penstock build {tmp_path} -t NAME"
    assert capsys.readouterr().err == f"penstock: error: {expected}\n"
    record.write(app, Built("digits:1", "sha256:1", "buildah", "0", 8080, 9000))
    assert main.main(["serve", str(app), "--in-image"]) == 1
    assert capsys.readouterr().err == "penstock: error: no podman is installed to run an image\n"
