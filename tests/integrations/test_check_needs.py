"""`penstock check`: what the image of the code will not have, and models that cannot be built."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from penstock._images import needs

APP = """
{imports}
from penstock import model

@model
class Weights:
    def __init__(self):
        {body}

    def predict(self, x: float) -> float:
        return x
"""


def check(folder: Path, *flags: str, imports: str = "", body: str = "pass") -> tuple[int, list[str]]:
    """Exit status and lines of the check of a folder, in its own process."""
    (folder / "app.py").write_text(APP.format(imports=imports, body=body))
    command = [sys.executable, "-m", "penstock", "check", str(folder), *flags]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "COLUMNS": "200"})
    return done.returncode, done.stdout.splitlines()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "app"
    folder.mkdir()
    return folder


def test_models_are_built_on_request(folder: Path) -> None:
    assert check(folder, body="1 / 0")[0] == 0
    status, lines = check(folder, "--build", body="1 / 0")
    assert status == 1
    assert len(lines) == 1
    assert "ZeroDivisionError" in lines[0]


def test_files_outside_of_the_image_are_found(folder: Path) -> None:
    outside = folder.parent / "weights.bin"
    for path in (outside, folder / "own.bin", folder / "ignored.bin"):
        path.write_bytes(b"1")
    (folder / ".dockerignore").write_text("ignored.bin\n")
    names = [str(outside), str(folder / "own.bin"), str(folder / "ignored.bin")]
    body = f"self.all = [open(name).read() for name in {names}]; open({str(folder.parent / 'log')!r}, 'w').close()"
    assert check(folder, body=body) == (0, [f"{folder}: no problems (integration penstock)"])
    assert check(folder, "--build", body=body) == (
        1,
        [
            f"{folder}: its code reads {outside}, which its image does not have; add it to files in [image]",
            f"{folder}: its code reads {folder}/ignored.bin, which .dockerignore keeps out of its image",
        ],
    )


def test_packages_that_no_requirement_brings_are_found(folder: Path) -> None:
    imports = "import numpy, json, orjson\nimport helper\ntry:\n    import msgpack\nexcept ImportError: pass\n"
    (folder / "helper.py").write_text("def later():\n    import PIL.Image\n")
    (folder / "test_app.py").write_text("import pytest\n")
    assert check(folder, imports=imports) == (
        1,
        [
            f"{folder}: app.py, line 2, imports orjson, which its image does not have; "
            "add orjson to requirements.txt, or to requirements in [image]",
            f"{folder}: helper.py, line 2, imports PIL, which its image does not have; "
            "add pillow to requirements.txt, or to requirements in [image]",
        ],
    )
    (folder / "requirements.txt").write_text("orjson>=3\nPillow\n")
    assert check(folder, imports=imports)[0] == 0


def test_packages_are_not_judged_where_they_cannot_be_known(folder: Path) -> None:
    for name, text in (
        ("requirements.txt", "no-such-package-here\n"),
        ("penstock.toml", '[image]\nbase_image = "debian:12"\n'),
        ("penstock.toml", '[image]\ncommands_before = ["pip install orjson"]\n'),
    ):
        (folder / name).write_text(text)
        assert check(folder, imports="import orjson")[0] == 0
        (folder / name).unlink()


def test_packages_of_requirements_of_requirements_count(folder: Path) -> None:
    (folder / "requirements.txt").write_text("pandas\n")
    assert check(folder, imports="import dateutil")[0] == 0


def test_packages_that_penstock_requires_are_in_each_image() -> None:
    """The names come from the installed metadata, so a new dependency needs no change here."""
    required = [name for name in metadata.requires("penstock") or [] if "extra ==" not in name]
    names = {re.split(r"[^\w.-]", name)[0].lower() for name in required}
    assert {"msgspec", "numpy"} <= names
    assert needs._closure([]) == names | {"penstock"}


def test_needs_are_unknown_where_penstock_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def requires(name: str) -> list[str]:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(needs.metadata, "requires", requires)
    assert needs._closure([]) is None
