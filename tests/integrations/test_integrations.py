"""Detection of integrations, and commands that use them."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import toy_integration

from penstock import StartupError, integrations
from penstock._cli import main
from penstock._config.resolve import Sources, resolve
from penstock.config import ServerConfig, load_config
from penstock.integrations import Finding, _detect
from penstock.integrations._table import INTEGRATIONS
from penstock.integrations._targets import Loader
from penstock.testing import Client

NATIVE = "import numpy as np\nfrom penstock import Tensor, model\n" + (
    "@model(inputs=[Tensor('x', np.int32, [1])], outputs=[Tensor('y', np.int32, [1])])\ndef one(x):\n    return x\n"
)


@pytest.fixture(autouse=True)
def toy_integration_only(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(INTEGRATIONS):
        monkeypatch.delitem(INTEGRATIONS, name)
    monkeypatch.setitem(INTEGRATIONS, "toy", "toy_integration")
    # An integration whose package is not installed.
    monkeypatch.setitem(INTEGRATIONS, "absent", "penstock_integration_that_does_not_exist")


@pytest.fixture(autouse=True)
def remove_imported_modules(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sys, "path", [*sys.path])
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if hasattr(sys.modules[name], "__penstock_file__"):
            del sys.modules[name]


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    folder = tmp_path / "toys"
    folder.mkdir()
    (folder / "toy.txt").write_text("3")
    return folder


def test_g06_integration_of_a_folder_is_detected_with_its_reason(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert integrations.detect(toy) == [Finding("toy", "it has toy.txt", 90)]
    assert main.main(["detect", str(toy)]) == 0
    assert capsys.readouterr().out == f"{toy} is for the integration toy: it has toy.txt (confidence 90)\n"
    assert main.main(["detect", "--json", str(toy)]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "path": str(toy),
        "integration": "toy",
        "findings": [{"integration": "toy", "why": "it has toy.txt", "confidence": 90}],
        "problems": [],
    }


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Adds an integration whose detection always fails."""

    def detect(path: Path) -> None:
        raise KeyError("spec")

    # Inserted before the toy, so that its detection runs first.
    monkeypatch.delitem(INTEGRATIONS, "toy")
    monkeypatch.setitem(INTEGRATIONS, "broken", "broken_integration")
    monkeypatch.setitem(INTEGRATIONS, "toy", "toy_integration")
    module = ModuleType("broken_integration")
    module.__spec__ = ModuleSpec("broken_integration", None)
    module.detect = detect  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "broken_integration", module)


FAILED = "the integration broken failed to inspect it: KeyError: 'spec'"


@pytest.mark.usefixtures("broken")
def test_g06_failed_detection_is_reported_and_others_continue(
    toy: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    assert main.main(["detect", str(toy)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{toy} is for the integration toy: it has toy.txt (confidence 90)",
        f"  {FAILED}",
    ]
    assert main.main(["detect", "--json", str(toy)]) == 0
    assert json.loads(capsys.readouterr().out)["problems"] == [{"integration": "broken", "error": "KeyError: 'spec'"}]
    assert caplog.messages == []
    # A server logs the failure once and continues.
    loader = Loader()
    assert loader.settings([str(toy)]) == [("integration toy", {}, False)]
    assert [one.name for one in loader.load(str(toy))] == ["toy"]
    assert caplog.messages == [f"penstock: {toy}: {FAILED}"]


@pytest.mark.usefixtures("broken")
def test_unrecognised_path_lists_failed_integrations(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "notes.md").write_text("x")
    assert main.main(["detect", str(tmp_path / "notes.md")]) == 1
    assert capsys.readouterr().err.endswith(f"a file whose name ends in .py; {FAILED}\n")
    # A Python file is imported nevertheless.
    (tmp_path / "plain.py").write_text("from models import double\n")
    assert Loader().integration_of(str(tmp_path / "plain.py")) is None
    assert caplog.messages == [f"penstock: {tmp_path / 'plain.py'}: {FAILED}"]
    # An integration selected by name raises its error.
    with pytest.raises(KeyError):
        _detect.module("broken").detect(tmp_path)


def test_x5_other_sources_take_precedence_over_an_integrations_settings(
    toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = {"http": "127.0.0.1:8080", "grpc": "127.0.0.1:9000", "drain_timeout": "5m", "server_name": "toys"}
    monkeypatch.setattr(toy_integration, "settings", lambda path: wanted, raising=False)
    monkeypatch.chdir(tmp_path)
    [(origin, defaults, _)] = Loader().settings([str(toy)])
    assert origin == "integration toy"
    assert defaults == wanted == integrations.settings(toy)
    (tmp_path / "some.toml").write_text("[server]\nserver_name = 'from the file'\n")
    config = load_config(
        {"drain_timeout": 7.0},
        command_line={"http": "127.0.0.1:1"},
        environ={"PENSTOCK_GRPC": "off"},
        file=str(tmp_path / "some.toml") if sys.version_info >= (3, 11) else None,
        defaults=defaults,
    )
    assert (config.http, config.grpc, config.drain_timeout) == ("127.0.0.1:1", None, 7.0)
    if sys.version_info >= (3, 11):
        assert config.server_name == "from the file"
    alone = load_config(environ={}, defaults=defaults)
    assert (alone.http, alone.grpc, alone.drain_timeout) == ("127.0.0.1:8080", "127.0.0.1:9000", 300.0)
    # Vertex AI's variables take precedence too.
    vertex = {"AIP_HEALTH_ROUTE": "/h", "AIP_PREDICT_ROUTE": "/p", "AIP_HTTP_PORT": "8082"}
    assert load_config(environ={"PENSTOCK_VERTEX": "on", **vertex}, defaults=defaults).http == "0.0.0.0:8082"


def test_first_of_several_paths_takes_precedence_in_settings(
    toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other.toy"
    other.write_text("2")
    monkeypatch.setattr(
        toy_integration,
        "settings",
        lambda path: {"http": "127.0.0.1:1", "log_level": "info"} if path == other else {"http": "127.0.0.1:2"},
        raising=False,
    )
    defaults = Loader().settings([str(toy), str(other)])
    config = resolve(ServerConfig, Sources(environ={}, defaults=defaults)).config()
    assert (config.http, config.log_level) == ("127.0.0.1:2", "info")


def test_integration_is_the_origin_of_its_settings_and_models(
    toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(toy_integration, "settings", lambda path: {"http": "127.0.0.1:8080"}, raising=False)
    load = toy_integration.load
    monkeypatch.setattr(toy_integration, "load", lambda *given: [one.with_options(max_queue=3) for one in load(*given)])
    (tmp_path / "penstock.toml").write_text("[server]\nhttp = 9000\n")
    assert main.main(["config", str(toy), "--changed"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "http  127.0.0.1:9000  penstock.toml:2",
        "      127.0.0.1:8080  integration toy",
        "",
        "model toy, version 1",
        "max_queue  3  integration toy",
    ]


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"htp": "1"}, "the integration toy: unknown setting 'htp', did you mean 'http'?"),
        (
            {"http": "here"},
            "the integration toy: http: 'here' is not HOST:PORT or PORT with a port from 0 to 65535, unix:/path, fd:N, "
            "or off",
        ),
    ],
)
def test_settings_of_an_integration_are_validated(
    toy: Path,
    wanted: dict[str, str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(toy_integration, "settings", lambda path: wanted, raising=False)
    assert main.main(["serve", str(toy)]) == 1
    assert capsys.readouterr().err == f"penstock: error: {message}\n"


def test_g06_native_folders_and_files_are_detected(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(NATIVE)
    assert integrations.detect(tmp_path) == [Finding("penstock", "its app.py imports penstock", 95)]
    assert integrations.detect(tmp_path / "app.py") == [Finding("penstock", "it imports penstock", 95)]
    (tmp_path / "app.py").write_text("from penstock.compat.kserve import Model\n")
    assert integrations.detect(tmp_path) == []
    (tmp_path / "app.py").write_text("not Python code\n")
    assert integrations.detect(tmp_path) == []


def test_highest_confidence_wins_and_others_are_listed(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (toy / "app.py").write_text(NATIVE)
    assert main.main(["detect", str(toy)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{toy} is for the integration penstock: its app.py imports penstock (confidence 95)",
        "  it could be for toy: it has toy.txt (confidence 90)",
    ]


def test_equal_confidences_are_ambiguous(
    toy: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (toy / "app.py").write_text(NATIVE)
    monkeypatch.setattr(toy_integration, "CONFIDENCE", 95)
    message = (
        f"{toy} could be for penstock (its app.py imports penstock), or toy (it has toy.txt); "
        "choose with --integration penstock for example"
    )
    assert main.main(["serve", str(toy)]) == 1
    assert capsys.readouterr().err == f"penstock: error: {message}\n"
    assert main.main(["detect", "--json", str(toy)]) == 1
    assert json.loads(capsys.readouterr().out)["integration"] is None


def test_unrecognised_folder_is_rejected_with_advice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "notes.md").write_text("x")
    assert main.main(["serve", str(tmp_path)]) == 1
    assert capsys.readouterr().err == (
        f"penstock: error: {tmp_path} cannot be served: it has no app.py with models of Penstock, and "
        "no integration recognises it (integrations: toy); name the file in it, or an integration with --integration\n"
    )
    assert main.main(["detect", str(tmp_path / "notes.md")]) == 1
    assert capsys.readouterr().err == (
        f"penstock: error: no integration recognises {tmp_path / 'notes.md'} (integrations: toy); "
        "name one with --integration, or give a file whose name ends in .py\n"
    )
    assert main.main(["detect", str(tmp_path / "missing")]) == 1
    assert capsys.readouterr().err == f"penstock: error: there is no file or folder {tmp_path / 'missing'}\n"


def test_model_repository_is_rejected_with_the_right_option(tmp_path: Path) -> None:
    (tmp_path / "digits/1").mkdir(parents=True)
    (tmp_path / "digits/1/model.py").write_text(NATIVE)
    with pytest.raises(StartupError) as raised:
        integrations.load(tmp_path)
    assert str(raised.value) == f"{tmp_path} is a model repository: give it as --repository {tmp_path}"


def test_models_of_an_integration_are_served_with_options(toy: Path) -> None:
    with Client(*integrations.load(toy, {"times": "2"})) as client:
        assert client.infer("toy", {"x": np.array([7], np.int32)})["y"].tolist() == [42]
    with Client(*integrations.load(toy, integration="toy")) as client:
        assert client.infer("toy", {"x": np.array([7], np.int32)})["y"].tolist() == [21]


def test_native_folder_is_served_without_options(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(NATIVE)
    assert [one.name for one in integrations.load(tmp_path)] == ["one"]
    with pytest.raises(
        StartupError, match=f"^{re.escape(str(tmp_path))} is served without an integration, which takes no"
    ):
        integrations.load(tmp_path, {"times": "2"})


@pytest.mark.parametrize("name", ["unknown", "absent"])
def test_unknown_integration_is_rejected(toy: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["serve", "--integration", name, str(toy)]) == 1
    assert capsys.readouterr().err == f"penstock: error: there is no integration {name!r}; there are penstock, toy\n"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--option", "times"], "--option times: expected NAME=VALUE"),
        (["--option", "=2"], "--option =2: expected NAME=VALUE"),
    ],
)
def test_options_must_be_pairs(toy: Path, options: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["serve", str(toy), *options]) == 1
    assert capsys.readouterr().err == f"penstock: error: {message}\n"


def test_options_without_an_integration_are_rejected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "one.py").write_text(NATIVE)
    assert main.main(["serve", str(tmp_path / "one.py"), "--option", "a=b"]) == 1
    message = f"--option a: {tmp_path / 'one.py'} is served without an integration, which takes no options"
    assert capsys.readouterr().err == f"penstock: error: {message}\n"


def test_only_folders_are_left_to_integrations(tmp_path: Path) -> None:
    (tmp_path / "plain.py").write_text("from models import double\n")
    # No integration recognises the file, so it is imported; it may import models from other modules.
    assert not _detect.is_for_integrations(str(tmp_path / "plain.py"))
    assert not _detect.is_for_integrations("a.module")
    assert _detect.is_for_integrations(str(tmp_path))


def test_confidence_is_from_1_to_100() -> None:
    with pytest.raises(ValueError, match=r"^a finding's confidence is from 1 to 100, not 0$"):
        Finding("toy", "it is", 0)


def test_check_reports_problems(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["check", str(toy)]) == 0
    assert capsys.readouterr().out == f"{toy}: no problems (integration toy)\n"
    (toy / "toy.txt").write_text("many")
    assert main.main(["check", str(toy)]) == 1
    assert capsys.readouterr().out == f"{toy}: toys: 'many' is not a number\n"


def test_check_runs_the_integrations_check(
    toy: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(toy_integration, "check", lambda path: [f"{path.name} is a toy"], raising=False)
    assert main.main(["check", str(toy)]) == 1
    assert capsys.readouterr().out == f"{toy}: toys is a toy\n"


def test_check_reports_problems_of_the_image(
    toy: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from penstock.images import ImageSpec

    missing = toy / "missing"
    monkeypatch.setattr(toy_integration, "describe", lambda _: ImageSpec(files=((missing, "x"),)))
    assert main.main(["check", str(toy)]) == 1
    assert capsys.readouterr().out == f"{toy}: its image needs {missing}, which does not exist\n"
    monkeypatch.setattr(toy_integration, "describe", lambda _: ImageSpec(python_version="2.7"))
    assert main.main(["check", str(toy)]) == 1
    message = f"{toy}: no image can be built of it: python_version 2.7: Penstock runs on Python 3.10 and newer\n"
    assert capsys.readouterr().out == message


def test_check_imports_native_folders(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "app.py").write_text(NATIVE + "undefined_name\n")
    assert main.main(["check", str(tmp_path)]) == 1
    output = capsys.readouterr()
    assert output.out == (
        f"{tmp_path}: cannot import {tmp_path}/app.py: NameError: name 'undefined_name' is not defined\n"
    )
    assert "line 6" in output.err


def test_check_reports_duplicate_models(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "twice.py").write_text(NATIVE + NATIVE.replace("def one", "@model(name='one')\ndef two"))
    (tmp_path / "twice.py").write_text(NATIVE + "other = one.with_options(description='again')\n")
    assert main.main(["check", str(tmp_path / "twice.py")]) == 1
    assert "'one'" in capsys.readouterr().out


def test_i33_init_writes_a_servable_app(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "new/one"
    assert main.main(["init", str(folder)]) == 0
    out = capsys.readouterr().out
    assert f"wrote {folder / 'app.py'}\n" in out
    assert f"serve it with: penstock serve {folder}\n" in out
    assert main.main(["check", str(folder)]) == 0
    with Client(*integrations.load(folder)) as client:
        outputs = client.infer("Score", {"x": np.ones((2, 4), np.float32)})
    np.testing.assert_allclose(outputs["y"], [[1.0], [1.0]])


def test_tests_written_by_init_pass(tmp_path: Path) -> None:
    import subprocess

    assert main.main(["init", str(tmp_path / "new")]) == 0
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "."],
        cwd=tmp_path / "new",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_init_writes_an_integrations_example(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["init", "--integration", "toy", str(tmp_path / "t")]) == 0
    assert capsys.readouterr().out.startswith(f"wrote {tmp_path / 't/toy.txt'}\n")
    assert [one.name for one in integrations.load(tmp_path / "t")] == ["toy"]


def test_init_rejects_non_empty_folders(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    assert main.main(["init", str(tmp_path)]) == 1
    assert capsys.readouterr().err == (f"penstock: error: {tmp_path} is not empty; name a new folder\n")
    assert main.main(["init", "--integration", "unknown", str(tmp_path / "x")]) == 1
    assert not (tmp_path / "x").exists()
