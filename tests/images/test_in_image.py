"""`penstock serve PATH` after a build: which container it becomes. The program is a stand-in that prints its words."""

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
    plain = {name: text for name, text in os.environ.items() if not name.startswith("PENSTOCK_")}
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        env={**plain, "PATH": str(programs), **(environment or {})},
        cwd=app,
    )


WORDS = [
    "run", "--rm", "--stop-timeout", "40", "--publish", "127.0.0.1:8000:8080", "--publish", "127.0.0.1:8001:9000",
    "digits:1",
]  # fmt: skip


def test_d15_the_next_serve_uses_the_image(app: Path) -> None:
    done = serve(app)
    assert done.stdout.split() == WORDS
    assert done.stderr.splitlines() == [
        f"penstock: {app} has not changed since digits:1 was built; --no-in-image serves its code",
        "penstock: serving digits:1, as it was built, with podman",
    ]
    # It became the container.
    assert done.returncode == 7


def served_its_code(done: subprocess.CompletedProcess[str]) -> str:
    """The first line of a start that got as far as the code, which has no model."""
    assert done.stdout == ""
    *first, last = done.stderr.splitlines()
    assert "has no @model" in last
    return "\n".join(first)


def test_what_has_changed_since_is_served_as_it_is_now(app: Path) -> None:
    (app / "weights.bin").write_text("new")
    told = f"penstock: serving the code of {app}, not digits:1: it may have changed since the build"
    assert served_its_code(serve(app)) == told
    # Files that are in no image change nothing.
    (app / "weights.bin").unlink()
    (app / "__pycache__").mkdir()
    (app / "__pycache__/app.pyc").write_text("x")
    assert serve(app).stdout.split() == WORDS
    # Records from before they were compared.
    record.write(app, Built("digits:1", "sha256:1", "podman", "0", 8080, 9000))
    assert served_its_code(serve(app)) == told
    # But it can be asked for.
    assert serve(app, "--in-image").stdout.split() == WORDS


@pytest.mark.parametrize("flags", [("--no-in-image",), ("--integration", "penstock"), ("--reload",)])
def test_code_that_is_asked_for_is_served(app: Path, flags: tuple[str, ...]) -> None:
    assert served_its_code(serve(app, *flags)) == ""


@pytest.mark.parametrize(
    ("flags", "environment", "why"),
    [
        (("--http", "unix:/tmp/x"), {}, "http is of this machine"),
        (("--pid-file", "/tmp/x"), {}, "pid_file is of this machine"),
        ((), {"PENSTOCK_API_KEY": "env:SECRET", "SECRET": "s"}, "api_key is of this machine"),
        (("--config", "/dev/null"), {}, "its settings are in a file of this machine"),
    ],
)
def test_what_would_mean_something_else_in_a_container_is_served_here(
    app: Path, flags: tuple[str, ...], environment: dict[str, str], why: str
) -> None:
    done = serve(app, *flags, environment=environment)
    assert served_its_code(done) == f"penstock: serving the code of {app}, not digits:1: {why}"


def test_an_image_that_is_not_here_any_more_is_not_fetched(app: Path) -> None:
    record.write(app, Built("digits:1", "sha256:2", "podman", "0", 8080, 9000, stamp(app)))
    told = f"penstock: serving the code of {app}, not digits:1: podman has another, or none"
    assert served_its_code(serve(app)) == told
    record.write(app, Built("digits:1", "sha256:1", "docker", "0", 8080, 9000, stamp(app)))
    told = f"penstock: serving the code of {app}, not digits:1: no docker is installed to run an image"
    assert served_its_code(serve(app)) == told


def test_podman_runs_what_buildah_has_built(app: Path) -> None:
    record.write(app, Built("digits:1", "sha256:1", "buildah", "0", 8080, 9000, stamp(app)))
    assert serve(app).stdout.split() == WORDS


def test_settings_of_the_environment_go_along(app: Path) -> None:
    done = serve(app, "--in-image", "--grpc", "same", environment={"PENSTOCK_API_KEY": "hidden"})
    assert done.stdout.split() == [
        "run", "--rm", "--stop-timeout", "40", "--publish", "127.0.0.1:8000:8080", "--env", "PENSTOCK_GRPC=same",
        "--env", "PENSTOCK_API_KEY", "digits:1",
    ]  # fmt: skip
    assert done.stderr.endswith("hidden")


def test_a_named_object_is_another_thing(app: Path) -> None:
    assert stamp(app / "app.py") != stamp(app / "app.py", "Other") != stamp(app)


def test_addresses_are_outside_and_all_else_is_inside(app: Path) -> None:
    done = serve(
        app, "--in-image", "--http", "0.0.0.0:0", "--grpc", "off", "--drain-timeout", "5m", "--log-level", "info"
    )
    assert done.stdout.split() == [
        "run", "--rm", "--stop-timeout", "310", "--publish", "0.0.0.0::8080",
        "--env", "PENSTOCK_DRAIN_TIMEOUT=5m", "--env", "PENSTOCK_LOG_LEVEL=info", "digits:1",
    ]  # fmt: skip


def test_what_cannot_be_had_is_refused(app: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done = serve(app, "--in-image", "--http", "unix:/tmp/x")
    assert done.stderr == "penstock: error: http: unix:/tmp/x does not work with --in-image, expected HOST:PORT\n"
    assert main.main(["serve", str(app), str(app), "--in-image"]) == 1
    assert capsys.readouterr().err == "penstock: error: --in-image serves the image of one path, not of 2\n"
    (tmp_path / "app.py").write_text("import penstock\n")
    assert main.main(["serve", str(tmp_path), "--in-image"]) == 1
    told = f"no image was built of {tmp_path} yet: use penstock build {tmp_path} -t NAME"
    assert capsys.readouterr().err == f"penstock: error: {told}\n"
    record.write(app, Built("digits:1", "sha256:1", "buildah", "0", 8080, 9000))
    assert main.main(["serve", str(app), "--in-image"]) == 1
    assert capsys.readouterr().err == "penstock: error: no podman is installed to run an image\n"
