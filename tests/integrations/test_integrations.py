"""Which integration is for what, and what the commands say of it."""

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
from penstock.config import load_config
from penstock.integrations import Finding, _detect
from penstock.integrations._table import INTEGRATIONS
from penstock.integrations._targets import Loader
from penstock.testing import Client

NATIVE = "import numpy as np\nfrom penstock import Tensor, model\n" + (
    "@model(inputs=[Tensor('x', np.int32, [1])], outputs=[Tensor('y', np.int32, [1])])\ndef one(x):\n    return x\n"
)


@pytest.fixture(autouse=True)
def only_the_toy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(INTEGRATIONS):
        monkeypatch.delitem(INTEGRATIONS, name)
    monkeypatch.setitem(INTEGRATIONS, "toy", "toy_integration")
    # One that this Penstock does not have.
    monkeypatch.setitem(INTEGRATIONS, "absent", "penstock_integration_that_is_not_there")


@pytest.fixture(autouse=True)
def no_module_stays(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
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


def test_g06_a_folder_is_its_integration_s_and_it_is_said_why(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
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
    """A second integration, which fails at whatever it is shown."""

    def detect(path: Path) -> None:
        raise KeyError("spec")

    # Before the toy: it is asked first.
    monkeypatch.delitem(INTEGRATIONS, "toy")
    monkeypatch.setitem(INTEGRATIONS, "broken", "broken_integration")
    monkeypatch.setitem(INTEGRATIONS, "toy", "toy_integration")
    module = ModuleType("broken_integration")
    module.__spec__ = ModuleSpec("broken_integration", None)
    module.detect = detect  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "broken_integration", module)


FAILED = "the integration broken failed to inspect it: KeyError: 'spec'"


@pytest.mark.usefixtures("broken")
def test_g06_a_integration_that_fails_to_look_is_told_and_stops_no_other(
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
    # Whatever serves it is told once, and goes on.
    loader = Loader()
    assert loader.settings([str(toy)]) == {}
    assert [one.name for one in loader.load(str(toy))] == ["toy"]
    assert caplog.messages == [f"penstock: {toy}: {FAILED}"]


@pytest.mark.usefixtures("broken")
def test_where_no_integration_knows_a_path_those_that_failed_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "notes.md").write_text("x")
    assert main.main(["detect", str(tmp_path / "notes.md")]) == 1
    assert capsys.readouterr().err.endswith(f"a file whose name ends in .py; {FAILED}\n")
    # A Python file is imported all the same.
    (tmp_path / "plain.py").write_text("from models import double\n")
    assert Loader().integration_of(str(tmp_path / "plain.py")) is None
    assert caplog.messages == [f"penstock: {tmp_path / 'plain.py'}: {FAILED}"]
    # Asked for by name, it is the user's affair.
    with pytest.raises(KeyError):
        _detect.module("broken").detect(tmp_path)


def test_x5_a_integration_s_settings_are_behind_every_other_source(
    toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = {"http": "127.0.0.1:8080", "grpc": "127.0.0.1:9000", "drain_timeout": "5m", "server_name": "toys"}
    monkeypatch.setattr(toy_integration, "settings", lambda path: wanted, raising=False)
    monkeypatch.chdir(tmp_path)
    defaults = Loader().settings([str(toy)])
    assert defaults == wanted == integrations.settings(toy)
    (tmp_path / "some.toml").write_text("[server]\nserver_name = 'of the file'\n")
    config = load_config(
        {"drain_timeout": 7.0},
        command_line={"http": "127.0.0.1:1"},
        environ={"PENSTOCK_GRPC": "off"},
        file=str(tmp_path / "some.toml") if sys.version_info >= (3, 11) else None,
        defaults=defaults,
    )
    assert (config.http, config.grpc, config.drain_timeout) == ("127.0.0.1:1", None, 7.0)
    if sys.version_info >= (3, 11):
        assert config.server_name == "of the file"
    alone = load_config(environ={}, defaults=defaults)
    assert (alone.http, alone.grpc, alone.drain_timeout) == ("127.0.0.1:8080", "127.0.0.1:9000", 300.0)
    # What Vertex AI says comes over them too.
    vertex = {"AIP_HEALTH_ROUTE": "/h", "AIP_PREDICT_ROUTE": "/p", "AIP_HTTP_PORT": "8082"}
    assert load_config(environ={"PENSTOCK_VERTEX": "on", **vertex}, defaults=defaults).http == "0.0.0.0:8082"


def test_of_several_paths_the_first_s_settings_count(
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
    assert Loader().settings([str(toy), str(other)]) == {"http": "127.0.0.1:2", "log_level": "info"}


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"htp": "1"}, "the integration toy: unknown setting 'htp', did you mean 'http'?"),
        (
            {"http": "here"},
            "the integration toy: http: 'here' is not HOST:PORT with a port from 0 to 65535, unix:/path, or off",
        ),
    ],
)
def test_a_integration_s_settings_are_checked(
    toy: Path,
    wanted: dict[str, str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(toy_integration, "settings", lambda path: wanted, raising=False)
    assert main.main(["serve", str(toy)]) == 1
    assert capsys.readouterr().err == f"penstock: error: {message}\n"


def test_g06_penstock_s_own_folders_and_files_are_known(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(NATIVE)
    assert integrations.detect(tmp_path) == [Finding("penstock", "its app.py imports penstock", 95)]
    assert integrations.detect(tmp_path / "app.py") == [Finding("penstock", "it imports penstock", 95)]
    (tmp_path / "app.py").write_text("from penstock.compat.kserve import Model\n")
    assert integrations.detect(tmp_path) == []
    (tmp_path / "app.py").write_text("this is no Python\n")
    assert integrations.detect(tmp_path) == []


def test_the_surest_integration_is_chosen_and_the_others_are_named(
    toy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (toy / "app.py").write_text(NATIVE)
    assert main.main(["detect", str(toy)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{toy} is for the integration penstock: its app.py imports penstock (confidence 95)",
        "  it could be for toy: it has toy.txt (confidence 90)",
    ]


def test_of_two_that_are_as_sure_none_is_chosen(
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


def test_nobody_s_folder_is_refused_with_what_could_be_done(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
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
    assert main.main(["detect", str(tmp_path / "gone")]) == 1
    assert capsys.readouterr().err == f"penstock: error: there is no file or folder {tmp_path / 'gone'}\n"


def test_a_model_repository_is_told_how_it_is_served(tmp_path: Path) -> None:
    (tmp_path / "digits/1").mkdir(parents=True)
    (tmp_path / "digits/1/model.py").write_text(NATIVE)
    with pytest.raises(StartupError) as refused:
        integrations.load(tmp_path)
    assert str(refused.value) == f"{tmp_path} is a model repository: give it as --repository {tmp_path}"


def test_what_a_integration_makes_of_a_folder_is_served(toy: Path) -> None:
    with Client(*integrations.load(toy, {"times": "2"})) as client:
        assert client.infer("toy", {"x": np.array([7], np.int32)})["y"].tolist() == [42]
    with Client(*integrations.load(toy, integration="toy")) as client:
        assert client.infer("toy", {"x": np.array([7], np.int32)})["y"].tolist() == [21]


def test_a_folder_of_penstock_s_own_is_served(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(NATIVE)
    assert [one.name for one in integrations.load(tmp_path)] == ["one"]
    with pytest.raises(
        StartupError, match=f"^{re.escape(str(tmp_path))} is served without an integration, which takes no"
    ):
        integrations.load(tmp_path, {"times": "2"})


@pytest.mark.parametrize("name", ["nobody", "absent"])
def test_a_integration_that_is_not_there_is_refused(toy: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["serve", "--integration", name, str(toy)]) == 1
    assert capsys.readouterr().err == f"penstock: error: there is no integration {name!r}; there are penstock, toy\n"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--option", "times"], "--option times: expected NAME=VALUE"),
        (["--option", "=2"], "--option =2: expected NAME=VALUE"),
    ],
)
def test_options_are_pairs(toy: Path, options: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["serve", str(toy), *options]) == 1
    assert capsys.readouterr().err == f"penstock: error: {message}\n"


def test_options_are_for_integrations(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "one.py").write_text(NATIVE)
    assert main.main(["serve", str(tmp_path / "one.py"), "--option", "a=b"]) == 1
    said = f"--option a: {tmp_path / 'one.py'} is served without an integration, which takes no options"
    assert capsys.readouterr().err == f"penstock: error: {said}\n"


def test_a_python_file_is_a_integration_s_only_without_penstock_in_it(tmp_path: Path) -> None:
    (tmp_path / "plain.py").write_text("from models import double\n")
    # No integration knows it, so it is imported, and may hold models that it got from elsewhere.
    assert not _detect.is_for_integrations(str(tmp_path / "plain.py"))
    assert not _detect.is_for_integrations("a.module")
    assert _detect.is_for_integrations(str(tmp_path))


def test_a_confidence_is_a_share_of_a_hundred() -> None:
    with pytest.raises(ValueError, match=r"^a finding's confidence is from 1 to 100, not 0$"):
        Finding("toy", "it is", 0)


def test_check_says_what_is_wrong(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["check", str(toy)]) == 0
    assert capsys.readouterr().out == f"{toy}: no problems (integration toy)\n"
    (toy / "toy.txt").write_text("many")
    assert main.main(["check", str(toy)]) == 1
    assert capsys.readouterr().out == f"{toy}: toys: 'many' is no number\n"


def test_check_asks_the_integration_s_own(
    toy: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(toy_integration, "check", lambda path: [f"{path.name} is a toy"], raising=False)
    assert main.main(["check", str(toy)]) == 1
    assert capsys.readouterr().out == f"{toy}: toys is a toy\n"


def test_check_finds_what_no_image_could_have(
    toy: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from penstock.images import ImageSpec

    gone = toy / "gone"
    monkeypatch.setattr(toy_integration, "describe", lambda _: ImageSpec(files=((gone, "x"),)))
    assert main.main(["check", str(toy)]) == 1
    assert capsys.readouterr().out == f"{toy}: its image needs {gone}, which does not exist\n"
    monkeypatch.setattr(toy_integration, "describe", lambda _: ImageSpec(python_version="2.7"))
    assert main.main(["check", str(toy)]) == 1
    said = f"{toy}: no image can be built of it: python_version 2.7: Penstock runs on Python 3.10 and newer\n"
    assert capsys.readouterr().out == said


def test_check_imports_penstock_s_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "app.py").write_text(NATIVE + "undefined_name\n")
    assert main.main(["check", str(tmp_path)]) == 1
    told = capsys.readouterr()
    assert told.out == (
        f"{tmp_path}: cannot import {tmp_path}/app.py: NameError: name 'undefined_name' is not defined\n"
    )
    assert "line 6" in told.err


def test_check_compares_models(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "twice.py").write_text(NATIVE + NATIVE.replace("def one", "@model(name='one')\ndef two"))
    (tmp_path / "twice.py").write_text(NATIVE + "other = one.with_options(description='again')\n")
    assert main.main(["check", str(tmp_path / "twice.py")]) == 1
    assert "'one'" in capsys.readouterr().out


def test_i33_init_writes_what_can_be_served(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "new/one"
    assert main.main(["init", str(folder)]) == 0
    out = capsys.readouterr().out
    assert f"wrote {folder / 'app.py'}\n" in out
    assert f"serve it with: penstock serve {folder}\n" in out
    assert main.main(["check", str(folder)]) == 0
    with Client(*integrations.load(folder)) as client:
        answer = client.infer("Score", {"x": np.ones((2, 4), np.float32)})
    np.testing.assert_allclose(answer["y"], [[1.0], [1.0]])


def test_the_test_that_init_writes_passes(tmp_path: Path) -> None:
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


def test_init_writes_a_integration_s_example(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["init", "--integration", "toy", str(tmp_path / "t")]) == 0
    assert capsys.readouterr().out.startswith(f"wrote {tmp_path / 't/toy.txt'}\n")
    assert [one.name for one in integrations.load(tmp_path / "t")] == ["toy"]


def test_init_overwrites_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    assert main.main(["init", str(tmp_path)]) == 1
    assert capsys.readouterr().err == (f"penstock: error: {tmp_path} is not empty; name a new folder\n")
    assert main.main(["init", "--integration", "nobody", str(tmp_path / "x")]) == 1
    assert not (tmp_path / "x").exists()
