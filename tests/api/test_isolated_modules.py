"""Isolated modules of several apps in one process."""

from __future__ import annotations

import pickle
import sys
import types
from pathlib import Path

import pytest

from penstock.integrations.modules import IsolatedModules


def app(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        path = folder / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def test_apps_have_separate_modules_of_one_name(tmp_path: Path) -> None:
    before, path = set(sys.modules), [*sys.path]
    apps = [
        IsolatedModules(
            "an app", [app(tmp_path / name, helper=f"NAME = {name!r}", app="import helper\nNAME = helper.NAME")]
        )
        for name in ("a", "b")
    ]
    assert [modules.load(tmp_path / name / "app.py").NAME for modules, name in zip(apps, "ab", strict=True)] == [
        "a",
        "b",
    ]
    assert "helper" not in sys.modules
    assert "app" not in sys.modules
    assert sys.path == path
    for modules in apps:
        modules.forget()
    assert {name for name in set(sys.modules) - before if "_own" in name} == set()


def test_every_import_form_finds_the_apps_module(tmp_path: Path) -> None:
    app(
        tmp_path,
        app="import helper\n"
        "import package.module\n"
        "import package.module as module\n"
        "from package import other, VALUE\n"
        "from package.module import value\n"
        "import json.decoder, os.path\n"
        "def deferred():\n"
        "    import late\n"
        "    from late import value\n"
        "    return late.value + value\n",
        helper="from __future__ import annotations\nimport sys\nx: int = 1",
        late="value = 4",
        **{
            "package/__init__": "VALUE = 1",
            "package/module": "from . import other\nfrom .other import value\nimport helper",
            "package/other": "value = 2",
        },
    )
    modules = IsolatedModules("app", [tmp_path])
    loaded = modules.load(tmp_path / "app.py")
    assert loaded.package.module is loaded.module
    assert loaded.module.helper is loaded.helper
    assert loaded.module.other is loaded.other
    assert (loaded.VALUE, loaded.value) == (1, 2)
    assert loaded.json.decoder is sys.modules["json.decoder"]
    assert loaded.deferred() == 8
    assert modules.find("package.module") is loaded.module
    assert modules.find("helper") is loaded.helper
    assert modules.load(tmp_path / "app.py") is loaded, "executed once"
    assert not {"helper", "package", "late"} & set(sys.modules)


def test_substitute_modules_replace_installed_ones(tmp_path: Path) -> None:
    substitute = types.ModuleType("stand_in")
    substitute.value = 3  # type: ignore[attr-defined]
    app(tmp_path, app="import json\nfrom json import value\nimport helper", helper="import json")
    loaded = IsolatedModules("app", [tmp_path], {"json": substitute}).load(tmp_path / "app.py")
    assert (loaded.json, loaded.value, loaded.helper.json) == (substitute, 3, substitute)
    assert sys.modules["json"] is not substitute


def test_app_module_may_shadow_the_standard_library(tmp_path: Path) -> None:
    app(tmp_path, app="import colorsys, wave", colorsys="local = True")
    (tmp_path / "wave").mkdir()
    loaded = IsolatedModules("app", [tmp_path]).load(tmp_path / "app.py")
    assert loaded.colorsys.local
    assert loaded.wave.Wave_read, "the standard library module precedes a plain folder"


def test_missing_module_error_names_the_requested_module(tmp_path: Path) -> None:
    modules = IsolatedModules("app", [app(tmp_path, app="import no_such_module", broken="1 / 0")])
    with pytest.raises(ModuleNotFoundError, match="No module named 'no_such_module'"):
        modules.load(tmp_path / "app.py")
    with pytest.raises(ZeroDivisionError):
        modules.load(tmp_path / "broken.py")
    app(tmp_path, broken="fine = 1\n")
    assert modules.load(tmp_path / "broken.py").fine, "a failed module is executed again"
    with pytest.raises(ImportError, match="is not a file of a Python module"):
        modules.load(tmp_path / "app.txt")


def test_objects_of_isolated_classes_are_picklable(tmp_path: Path) -> None:
    loaded = IsolatedModules("app", [app(tmp_path, app="class Thing:\n    pass")]).load(tmp_path / "app.py")
    assert type(pickle.loads(pickle.dumps(loaded.Thing()))) is loaded.Thing
