"""Functions with requirements."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

import pytest
from functions import handler_code, serving, write_function

from penstock.compat.openinference import _virtualenv
from penstock.errors import StartupError


def wheel(folder: Path) -> Path:
    """Writes the wheel of a package that is not installed."""
    path = folder / "penstock_sample-1.0-py3-none-any.whl"
    metadata_folder = "penstock_sample-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("penstock_sample.py", "VALUE = 'private'\n")
        archive.writestr(f"{metadata_folder}/METADATA", "Metadata-Version: 2.1\nName: penstock-sample\nVersion: 1.0\n")
        archive.writestr(
            f"{metadata_folder}/WHEEL", "Wheel-Version: 1.0\nGenerator: a\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{metadata_folder}/RECORD", "")
    return path


CODE = handler_code(
    "(penstock_sample.VALUE, has_pytest)",
    before="""
import importlib.util
import penstock_sample
has_pytest = importlib.util.find_spec("pytest") is not None
""",
)


def test_d16_requirements_are_installed_once_and_isolated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_ENVIRONMENTS", str(tmp_path / "cache"))
    write_function(tmp_path, CODE, requirements=[str(wheel(tmp_path))])
    try:
        with serving(tmp_path) as served:
            # Packages of the server are not visible.
            assert served.text() == "('private', False)"
    except StartupError as error:
        if "numpy" in str(error):
            pytest.skip("numpy cannot be installed here: there is no package index")
        raise
    before = {one: one.stat().st_mtime_ns for one in (tmp_path / "cache").glob("*/finished.json")}
    assert len(before) == 1
    with serving(tmp_path) as served:
        assert served.text() == "('private', False)"
    assert {one: one.stat().st_mtime_ns for one in before} == before


def test_d16_failed_installation_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_ENVIRONMENTS", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    write_function(tmp_path, CODE, requirements=["penstock-sample==1.0"])
    with pytest.raises(StartupError, match=r"(?s)cannot install the requirements: .*penstock-sample==1\.0"):
        serving(tmp_path).__enter__()


def test_images_install_no_requirements(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_OPENINFERENCE_ENVIRONMENT", "none")
    write_function(tmp_path, handler_code("1"), requirements=["nothing-of-that-name==0"])
    with serving(tmp_path) as served:
        assert served.text() == "1"


def test_required_python_version_is_located(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda _: None)
    assert _virtualenv.find_interpreter("3.99", exact=False) == sys.executable
    assert "the function requires Python 3.99, which is not installed" in caplog.text
    with pytest.raises(
        StartupError, match=r"the function requires Python 3.99, which is not installed: install python3.99"
    ):
        _virtualenv.find_interpreter("3.99", exact=True)
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    assert _virtualenv.find_interpreter("3.99", exact=True) == "/usr/bin/python3.99"
