"""Command line of `penstock serve`: targets, and the error line of a failed start."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

from penstock import Model, ServerConfig, StartupError
from penstock._cli import url
from penstock._cli.main import _parser, main
from penstock._cli.settings import GROUPS
from penstock._loading import targets

UNKNOWN = "penstock serve: error: unrecognized arguments: "
PORT = f"{UNKNOWN}--port 9000; the address is one flag: --http 9000, or --http HOST:PORT"
APP = """
from penstock import model
from helper import STEP

@model
def add(a: int, b: int) -> int:
    return a + b + STEP

again = add

@model(name="echo")
class Echo:
    def predict(self, text: str) -> str:
        return text

def plain(a: int) -> int:
    return a

both = [add, plain]
nothing = 3
"""


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "helper.py").write_text("STEP = 1\n")
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


def failed_start(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Standard error of a start that fails."""
    assert main(["serve", *arguments]) == 1
    output = capsys.readouterr()
    assert output.out == ""
    return output.err


def test_file_target_loads_each_model_once() -> None:
    assert [item.name for item in targets.load("app.py")] == ["add", "echo"]


def test_target_object_may_be_a_model_function_list_or_attribute() -> None:
    add, plain = targets.load("app.py:both")
    assert isinstance(add, Model)
    assert plain.__name__ == "plain"
    assert targets.load("app.py:plain") == [plain]
    assert [item.__name__ for item in targets.load("app.py:Echo.__wrapped__")] == ["Echo"]


def test_two_objects_of_one_file_share_its_module() -> None:
    assert targets.load("app.py:add")[0] is targets.load("./app.py:again")[0]


def test_module_target_is_loaded_by_name() -> None:
    assert [item.name for item in targets.load("app:add")] == ["add"]


def test_two_files_of_one_name_are_separate_modules(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "app.py").write_text("def plain(a: int) -> int:\n    return 2\n")
    first, second = targets.load("app.py:plain")[0], targets.load("other/app.py:plain")[0]
    assert (first(1), second(1)) == (1, 2)


@pytest.mark.parametrize(
    ("target", "line"),
    [
        ("none.py", "there is no file none.py"),
        ("app.py:nope", "app.py has no object 'nope'; its models are add, again, Echo"),
        ("app.py:", "'app.py:' names no object after the colon; write app.py:NAME, or app.py alone"),
        ("app.py:nothing", "3 has no name of its own; give it one with model(name=...)"),
        ("helper.py", "helper.py has no @model; decorate one, or name a function or class, as in helper.py:NAME"),
        (
            "no_such_module",
            "cannot import no_such_module: ModuleNotFoundError: No module named 'no_such_module'",
        ),
    ],
)
def test_missing_target_prints_one_line(capsys: pytest.CaptureFixture[str], target: str, line: str) -> None:
    output = failed_start(capsys, target)
    assert output.splitlines()[-1] == f"penstock: error: {line}"
    if target != "no_such_module":
        assert len(output.splitlines()) == 1


def test_duplicate_model_is_rejected(capsys: pytest.CaptureFixture[str]) -> None:
    assert failed_start(capsys, "app.py:add", "app.py:again") == (
        "penstock: error: model 'add' version '1' is given twice; give one of them another name= or version=\n"
    )


def test_user_error_shows_only_the_users_traceback(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bad.py").write_text("def load():\n    return 1 / 0\n\nload()\n")
    lines = failed_start(capsys, "bad.py").splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert [line for line in lines if line.startswith("  File")] == [
        f'  File "{tmp_path}/bad.py", line 4, in <module>',
        f'  File "{tmp_path}/bad.py", line 2, in load',
    ]
    assert lines[-2:] == [
        "ZeroDivisionError: division by zero",
        "penstock: error: cannot import bad.py: ZeroDivisionError: division by zero",
    ]


def test_syntax_error_shows_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bad.py").write_text("def f(:\n")
    output = failed_start(capsys, "bad.py")
    assert "def f(:" in output
    assert output.splitlines()[-1].startswith("penstock: error: cannot import bad.py: SyntaxError: ")


def test_invalid_signature_prints_one_line_with_its_location(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bad.py").write_text("import penstock\n\ndef f(x) -> int: ...\n\npenstock.model(f)\n")
    assert failed_start(capsys, "bad.py") == (
        "penstock: error: model 'f': parameter 'x' has no annotation; annotate it, or declare inputs= "
        "(bad.py, line 5)\n"
    )


def test_serve_call_during_import_is_rejected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bad.py").write_text("import penstock\n\ndef f(x: int) -> int: ...\n\npenstock.serve(f)\n")
    assert failed_start(capsys, "bad.py") == (
        "penstock: error: bad.py calls serve() when it is imported; put the call under "
        "`if __name__ == '__main__':` (bad.py, line 5)\n"
    )


def test_sys_exit_during_import_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bad.py").write_text("import sys\nsys.exit(0)\n")
    assert failed_start(capsys, "bad.py") == (
        "penstock: error: cannot import bad.py: it called sys.exit(0) when it was imported\n"
    )


def test_settings_are_validated_before_user_code_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "slow.py").write_text("raise AssertionError('must not run')\n")
    monkeypatch.setenv("PENSTOCK_HTTP", "h")
    assert failed_start(capsys, "slow.py").startswith("penstock: error: PENSTOCK_HTTP: 'h' is not HOST:PORT")


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["serve"], "penstock serve: error: give a PATH[:object] to serve, a --repository, or --attach"),
        (
            ["serve", "app.py", "--htpp", "x"],
            "penstock serve: error: unrecognized arguments: --htpp x; did you mean --http?",
        ),
        (["serve", "app.py", "--http", "x"], "penstock serve: error: argument --http: 'x' is not HOST:PORT"),
        (
            ["serve", "app.py", "--io-threads", "-1"],
            "penstock serve: error: argument --io-threads: '-1' is not an integer",
        ),
        (["serve", "app.py", "--access-log", "x"], "penstock serve: error: argument --access-log: 'x' is not one of"),
        (["serve", "--port", "9000"], PORT.replace(" 9000", "", 1)),
        (["serve", "app.py", "--port=9000", "--no-docs"], PORT.replace(" 9000", "=9000", 1)),
        (
            ["serve", "app.py", "--host", "0.0.0.0"],
            f"{UNKNOWN}--host 0.0.0.0; the address is one flag: --http 0.0.0.0:8000",
        ),
        (
            ["serve", "app.py", "--workers", "4"],
            f"{UNKNOWN}--workers 4; calls that run at once are an option of the model",
        ),
        (["serve", "app.py", "--no-doc"], f"{UNKNOWN}--no-doc; did you mean --no-docs?"),
        (
            ["infer", "http://h", "m", "--strem"],
            "penstock infer: error: unrecognized arguments: --strem; did you mean --stream?",
        ),
        (["infer"], "penstock infer: error: the following arguments are required: URL, MODEL"),
        (["export", "kubernets", "a"], "penstock export: error: argument KIND: invalid choice: 'kubernets'"),
        (["fly"], "penstock: error: argument COMMAND: invalid choice: 'fly'"),
    ],
)
def test_usage_errors_exit_with_status_2(capsys: pytest.CaptureFixture[str], arguments: list[str], line: str) -> None:
    assert main(arguments) == 2
    assert capsys.readouterr().err.splitlines()[-1].startswith(line)


def test_misspelled_command_is_answered(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, hint in ((["srve"], "'serve'"), (["export", "kubernets", "a"], "'kubernetes'")):
        assert main(arguments) == 2
        assert capsys.readouterr().err.endswith(f"; did you mean {hint}?\n")


def test_every_setting_is_in_one_group_of_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    grouped = [name for names in GROUPS.values() for name in names]
    assert sorted(grouped) == sorted(item.name for item in fields(ServerConfig))
    assert main(["serve", "--help"]) == 0
    shown = [line[:-1] for line in capsys.readouterr().out.splitlines() if re.fullmatch(r"[A-Za-z][a-zA-Z, ]+:", line)]
    assert [title for title in shown if title in GROUPS] == list(GROUPS)


def test_url_of_client_commands_may_be_a_variable() -> None:
    environ = {"PENSTOCK_URL": "http://h:1"}
    for given, read in (
        (["infer", "m", "x=1"], ["infer", "http://h:1", "m", "x=1"]),
        (["infer", "--stream", "m"], ["infer", "http://h:1", "--stream", "m"]),
        (["infer", "grpc://g:2", "m"], ["infer", "grpc://g:2", "m"]),
        (["attach", "app.py"], ["attach", "http://h:1", "app.py"]),
        (["attach", "unix:/a", "app.py"], ["attach", "unix:/a", "app.py"]),
        (["serve", "app.py"], ["serve", "app.py"]),
    ):
        assert url.with_default(given, environ) == read
        assert url.with_default(given, {}) == given


def test_no_command_prints_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "serve the models of files, folders or modules" in capsys.readouterr().out


def test_every_setting_has_a_flag_with_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--help"]) == 0
    output = " ".join(capsys.readouterr().out.split())
    for item in fields(ServerConfig):
        assert f"--{item.name.replace('_', '-')} " in output
        assert f"{item.metadata['help']} (default: " in output


def test_serve_is_allowed_after_a_failed_import(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("1 / 0\n")
    with pytest.raises(StartupError):
        targets.load("bad.py")
    targets.refuse_serve_while_loading()


def test_package_import_loads_no_heavy_modules() -> None:
    # Import cost, beyond numpy, of a program that only describes models.
    heavy = [
        "argparse",
        "asyncio",
        "json",
        "tomllib",
        "penstock._core",
        "penstock._handler.signature",
        "penstock._cli.main",
    ]
    code = (
        "import sys, numpy; before = set(sys.modules); import penstock; "
        f"print(*set({heavy}) & set(sys.modules) - before)"
    )
    completed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert completed.stdout.split() == []


@pytest.mark.parametrize("order", ["before", "behind", "both"])
def test_inputs_may_follow_options(order: str) -> None:
    options = ["--header", "x-api-key=k"]
    given = {"before": ["x=1", "y=2", *options], "behind": [*options, "x=1", "y=2"], "both": ["x=1", *options, "y=2"]}
    parsed = _parser().parse_args(["infer", "http://127.0.0.1:9", "m", *given[order]])
    assert (parsed.inputs, parsed.header) == (["x=1", "y=2"], ["x-api-key=k"])
