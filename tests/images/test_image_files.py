"""Build context of an image: its files, with modes and times that do not depend on the machine."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from penstock import StartupError
from penstock._images import context
from penstock.images import ImageSpec, write_context

DEFAULT_TIME = 315532800


@pytest.fixture
def app(tmp_path: Path) -> Path:
    folder = tmp_path / "app"
    (folder / "deep/er").mkdir(parents=True)
    (folder / "app.py").write_text("import penstock\n")
    (folder / "deep/er/data.bin").write_bytes(b"\0\xff")
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o700)
    return folder


def names(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def spec(app: Path) -> ImageSpec:
    return ImageSpec(files=((app, "."),), requirements=("b", "a"), serve=("app.py",))


def test_context_has_dockerfile_requirements_and_files(app: Path, tmp_path: Path) -> None:
    context_folder = write_context(spec(app), tmp_path / "context")
    assert names(context_folder) == [
        "Dockerfile",
        "files/app/app.py",
        "files/app/deep/er/data.bin",
        "files/app/run.sh",
        "requirements.txt",
    ]
    # The order is the user's, because it matters to pip.
    assert (context_folder / "requirements.txt").read_text() == "b\na\n"
    assert (context_folder / "files/app/deep/er/data.bin").read_bytes() == b"\0\xff"


def test_modes_and_times_do_not_depend_on_the_machine(
    app: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    os.umask(os.umask(0o077))
    (app / "app.py").chmod(0o600)
    context_folder = write_context(spec(app), tmp_path / "context")
    modes = {name: (context_folder / name).stat().st_mode & 0o7777 for name in names(context_folder)}
    assert modes.pop("files/app/run.sh") == 0o755
    assert set(modes.values()) == {0o644}
    assert {path.stat().st_mode & 0o7777 for path in context_folder.rglob("*") if path.is_dir()} == {0o755}
    assert {path.stat().st_mtime for path in [context_folder, *context_folder.rglob("*")]} == {DEFAULT_TIME}


def test_source_date_epoch_sets_the_file_times(app: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    context_folder = write_context(spec(app), tmp_path / "context")
    assert {path.stat().st_mtime for path in context_folder.rglob("*")} == {1700000000}
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "today")
    with pytest.raises(StartupError, match=r"^SOURCE_DATE_EPOCH is 'today', expected seconds since 1970$"):
        write_context(spec(app), tmp_path / "other")


def test_digest_depends_only_on_content(app: Path, tmp_path: Path) -> None:
    first = context.digest(write_context(spec(app), tmp_path / "first"))
    os.utime(app / "app.py", (5, 5))
    assert context.digest(write_context(spec(app), tmp_path / "second")) == first
    (app / "app.py").write_text("import  penstock\n")
    assert context.digest(write_context(spec(app), tmp_path / "second")) != first


def test_only_an_earlier_context_is_replaced(app: Path, tmp_path: Path) -> None:
    context_folder = write_context(spec(app), tmp_path / "context")
    (app / "run.sh").unlink()
    assert "files/app/run.sh" not in names(write_context(spec(app), context_folder))
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "thesis.tex").write_text("years of work")
    with pytest.raises(StartupError) as refused:
        write_context(spec(app), precious)
    assert str(refused.value) == f"{precious} is not empty, and not a context of penstock build; name a new folder"
    assert names(precious) == ["thesis.tex"]


def test_context_inside_the_app_is_refused(app: Path) -> None:
    with pytest.raises(StartupError) as refused:
        write_context(spec(app), app / "context")
    message = f"{app / 'context'} is in {app}, which is copied into the image; name a folder outside of it"
    assert str(refused.value) == message


def test_history_caches_and_secrets_are_excluded(app: Path, tmp_path: Path) -> None:
    for name in (
        ".git/config",
        "__pycache__/app.pyc",
        "deep/__pycache__/x.pyc",
        ".env",
        ".venv/bin/python",
        ".penstock/a",
    ):
        (app / name).parent.mkdir(parents=True, exist_ok=True)
        (app / name).write_text("x")
    assert names(write_context(spec(app), tmp_path / "context") / "files/app") == [
        "app.py",
        "deep/er/data.bin",
        "run.sh",
    ]


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ("*.py", ["deep/er/data.bin", "run.sh"]),
        ("deep", ["app.py", "run.sh"]),
        ("/deep/", ["app.py", "run.sh"]),
        ("er", ["app.py", "deep/er/data.bin", "run.sh"]),
        ("**/er", ["app.py", "run.sh"]),
        ("**/*.bin\n# a comment\n", ["app.py", "run.sh"]),
        ("deep/*\n", ["app.py", "run.sh"]),
        ("*\n!app.py\n!deep/er/data.bin", ["app.py", "deep/er/data.bin"]),
        ("*\n!deep", ["deep/er/data.bin"]),
        ("?un.[a-z]h", ["app.py", "deep/er/data.bin"]),
        ("./app.py", ["deep/er/data.bin", "run.sh"]),
        ("*.PY", ["app.py", "deep/er/data.bin", "run.sh"]),
    ],
)
def test_dockerignore_rules_follow_docker(app: Path, tmp_path: Path, rules: str, expected: list[str]) -> None:
    (app / ".dockerignore").write_text(rules)
    assert names(write_context(spec(app), tmp_path / "context") / "files/app") == expected


def test_inner_links_are_followed_and_outer_ones_refused(app: Path, tmp_path: Path) -> None:
    (app / "same.py").symlink_to("app.py")
    context_folder = write_context(spec(app), tmp_path / "context")
    assert (context_folder / "files/app/same.py").read_text() == "import penstock\n"
    assert not (context_folder / "files/app/same.py").is_symlink()
    (tmp_path / "secret").write_text("x")
    (app / "out").symlink_to("../secret")
    with pytest.raises(StartupError, match=r"^out links to \.\./secret, outside of what is copied into the image; "):
        write_context(spec(app), tmp_path / "context")
    (app / "out").unlink()
    (app / "deep/round").symlink_to("..")
    with pytest.raises(StartupError, match=r"^deep/round links to a folder that it is in; name it in .dockerignore$"):
        write_context(spec(app), tmp_path / "context")


def test_special_and_missing_files_are_refused(app: Path, tmp_path: Path) -> None:
    os.mkfifo(app / "pipe")
    with pytest.raises(StartupError, match=r"^pipe is neither a file nor a folder; name it in .dockerignore$"):
        write_context(spec(app), tmp_path / "context")
    missing = ImageSpec(files=((tmp_path / "gone", "gone"),))
    message = f"there is no file or folder {tmp_path / 'gone'} to copy into the image"
    with pytest.raises(StartupError, match=f"^{re.escape(message)}$"):
        write_context(missing, tmp_path / "other")


def test_wheel_must_be_one_of_penstock(app: Path, tmp_path: Path) -> None:
    with pytest.raises(StartupError, match=r"^--wheel: there is no file "):
        write_context(spec(app), tmp_path / "context", wheel=tmp_path / "penstock-1-py3-none-any.whl")
    (tmp_path / "penstock-1-py3-none-any.whl").write_text("no archive")
    with pytest.raises(
        StartupError, match=r"is not a wheel of Penstock, expected a file such as penstock-1.0-\.\.\.\.whl$"
    ):
        write_context(spec(app), tmp_path / "context", wheel=tmp_path / "penstock-1-py3-none-any.whl")
