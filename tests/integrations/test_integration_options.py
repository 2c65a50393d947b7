"""Options and files of an integration."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from penstock import ConfigError, StartupError
from penstock._shim.names import INTEGRATIONS as SHIMS
from penstock.integrations._table import INTEGRATIONS as DETECTED
from penstock.integrations.files import read_yaml, temporary_folder
from penstock.integrations.options import check_least, check_positive, read_options


@dataclass(frozen=True)
class Settings:
    folder: str = ""
    strict: bool = False
    workers: int = 1
    time_limit: float = 0.0
    mode: str = "fast"
    keys: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)


def read(options: Mapping[str, Any]) -> dict[str, Any]:
    return read_options(Settings, options, choices={"mode": ("fast", "slow")}, exclude=("folder",))


@pytest.mark.parametrize(
    ("option", "value", "expected"),
    [
        *(("strict", text, True) for text in (True, "on", "TRUE", "yes", "1")),
        *(("strict", text, False) for text in (False, "off", "false", "No", "0", "")),
        ("workers", "3", 3),
        ("time-limit", "2.5", 2.5),
        ("time_limit", 0, 0.0),
        ("mode", " slow ", "slow"),
        ("keys", "a, b,,c", ("a", "b", "c")),
        ("keys", ["a", 2], ("a", "2")),
        ("env", "A=1,B=x=y", {"A": "1", "B": "x=y"}),
        ("env", {"A": 1}, {"A": "1"}),
    ],
)
def test_values_are_converted_to_the_fields_type(option: str, value: object, expected: object) -> None:
    assert read({option: value}) == {option.replace("-", "_"): expected}


@pytest.mark.parametrize(
    ("option", "value", "text"),
    [
        ("folder", "x", "unknown option 'folder', expected one of strict, workers, time_limit, mode, keys, env"),
        ("strict", "maybe", "option strict: got 'maybe', expected on or off"),
        ("workers", "2.5", "option workers: got '2.5', expected an integer"),
        ("workers", True, "option workers: got True, expected an integer"),
        ("time-limit", "nan", "option time-limit: got 'nan', expected a number of 0 or more"),
        ("time_limit", -1, "option time_limit: got -1, expected a number of 0 or more"),
        ("mode", True, "option mode: got True, expected a string"),
        ("mode", "slower", "option mode: got 'slower', expected fast or slow"),
        ("keys", 3, "option keys: got 3, expected strings separated by commas"),
        ("env", "A", "option env: got 'A', expected NAME=VALUE,..."),
    ],
)
def test_invalid_options_are_rejected_by_name(option: str, value: object, text: str) -> None:
    with pytest.raises(ConfigError) as raised:
        read({option: value})
    assert str(raised.value) == text


def test_numbers_below_their_limit_are_rejected() -> None:
    check_least(Settings(), workers=1)
    with pytest.raises(ConfigError, match="option workers: got 1, expected 2 or more"):
        check_least(Settings(), workers=2)
    check_positive(Settings(), "workers")
    with pytest.raises(ConfigError, match=r"option time_limit: got 0\.0, expected a number above 0"):
        check_positive(Settings(), "time_limit")


def test_yaml_files_are_read(tmp_path: Path) -> None:
    path = tmp_path / "some.yaml"
    path.write_text("version: 12.10\nnames: [a, b]\n")
    assert read_yaml(path) == {"version": 12.1, "names": ["a", "b"]}
    assert read_yaml(path, scalars_as_strings=True) == {"version": "12.10", "names": ["a", "b"]}
    path.write_text("a: [\n")
    with pytest.raises(StartupError, match=r"some\.yaml is not YAML: "):
        read_yaml(path)
    with pytest.raises(StartupError, match=r"none\.yaml cannot be read: "):
        read_yaml(tmp_path / "none.yaml")


def test_temporary_folder_is_private_to_the_user() -> None:
    folder = temporary_folder("penstock-test-")
    assert folder.is_dir()
    assert folder.stat().st_mode & 0o777 == 0o700


def test_each_integration_has_an_extra() -> None:
    tomllib = pytest.importorskip("tomllib" if sys.version_info >= (3, 11) else "tomli")
    root = Path(__file__).resolve().parents[2]
    extras = tomllib.loads((root / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    integrations = {*DETECTED, *(package.rpartition(".")[2] for package in SHIMS.values())}
    assert integrations <= set(extras)
    named = {
        (path.relative_to(root / "python/penstock/compat").parts[0], extra)
        for path in (root / "python/penstock/compat").rglob("*.py")
        for extra in re.findall(r"pip install 'penstock\[([^\]]+)\]|extra=\"(\w+)\"", path.read_text())
        for extra in extra
        if extra
    }
    # Ray is as large as all other packages together.
    assert named - {("kserve", "ray")} <= {(name, name) for name in integrations}
    assert len(named) >= 4


def test_missing_yaml_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(StartupError, match=r"pip install 'penstock\[inferless\]'$"):
        read_yaml(tmp_path / "a.yaml", extra="inferless")
