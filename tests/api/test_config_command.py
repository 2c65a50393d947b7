"""`penstock config`: settings with their origins, and those of models."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import config_app
from config_app import APP, output
from config_samples import KINDS, SAMPLES, samples
from penstock import ServerConfig
from penstock._cli.main import main
from penstock._config import settings
from penstock._config.sources import flag
from penstock._config.value_text import shown
from penstock._model.settings import SETTINGS

folder = config_app.folder
pytestmark = pytest.mark.usefixtures("folder")

PAGE = Path(__file__).resolve().parents[2] / "docs/configuration.md"


def described(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    return json.loads(output(capsys, "--json", *arguments))


def test_rows_have_value_and_origin_and_shadowed_values_follow(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "penstock.toml").write_text("[server]\nhttp = 9000\n\nidle_timeout = '2m'\n")
    monkeypatch.setenv("PENSTOCK_HTTP", "9001")
    lines = output(capsys, "--http", "0.0.0.0:9002").splitlines()
    assert lines[:3] == [
        "http                         0.0.0.0:9002                      --http",
        "                             127.0.0.1:9001                    PENSTOCK_HTTP",
        "                             127.0.0.1:9000                    penstock.toml:2",
    ]
    names = [line.split()[0] for line in lines if not line.startswith(" ")]
    assert names == [entry.name for entry in fields(ServerConfig)]
    assert "idle_timeout                 120s                              penstock.toml:4" in lines
    assert "log_level                    info                              default of penstock serve" in lines
    assert (
        "io_threads                   0                                 computed: half of the processors, 1 to 4"
        in lines
    )
    assert "max_headers                  100                               default" in lines


def test_changed_leaves_out_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    assert output(capsys, "--changed", "--io-threads", "3") == "io_threads  3  --io-threads\n"
    assert output(capsys, "--changed") == "\n"
    assert described(capsys, "--changed", "--no-docs") == {
        "file": None,
        "settings": {"docs": {"value": False, "origin": "--docs", "shadowed": []}},
        "models": [],
    }


@pytest.mark.parametrize("name", [entry.name for entry in fields(ServerConfig)])
@pytest.mark.parametrize("origin", ["flag", "variable", "file"])
def test_command_shows_the_origin_of_each_setting(
    name: str, origin: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    kind = KINDS[name]
    # Settings that a rule requires beside this one.
    for needed, text in (NEEDED | NEEDED_BY.get(name, {})).items():
        monkeypatch.setenv(needed, text)
    text = samples(name, 1)[0]
    arguments, expected = [], f"PENSTOCK_{name.upper()}"
    if origin == "flag":
        expected = flag(name)
        no = f"--no-{flag(name)[2:]}" if text == "off" else flag(name)
        arguments = [no] if kind == "switch" else [flag(name), text]
    elif origin == "file":
        expected = "penstock.toml:3"
        (tmp_path / "penstock.toml").write_text(f"[server]\n# a comment\n{name} = '{text}'\n")
        monkeypatch.delenv(f"PENSTOCK_{name.upper()}", raising=False)
    else:
        monkeypatch.setenv(expected, text)
    row = described(capsys, *arguments)["settings"][name]
    assert row["origin"] == expected
    read = settings.parse(kind, text)
    plain = "(set)" if kind in settings.SECRETS else dict(read) if kind == "amounts" else read
    assert row["value"] == (list(plain) if isinstance(plain, tuple) else plain)


NEEDED = {"PENSTOCK_VERTEX_HEALTH_ROUTE": "/h", "PENSTOCK_VERTEX_PREDICT_ROUTE": "/p"}
NEEDED_BY = {
    "tls_certificate": {"PENSTOCK_TLS_KEY": "a.key"},
    "tls_key": {"PENSTOCK_TLS_CERTIFICATE": "a.pem"},
    "tls_client_ca": {
        "PENSTOCK_TLS_CLIENT": "required",
        "PENSTOCK_TLS_CERTIFICATE": "a.pem",
        "PENSTOCK_TLS_KEY": "a.key",
    },
    "tls_client_crl": {
        "PENSTOCK_TLS_CLIENT": "required",
        "PENSTOCK_TLS_CERTIFICATE": "a.pem",
        "PENSTOCK_TLS_KEY": "a.key",
        "PENSTOCK_TLS_CLIENT_CA": "ca.pem",
    },
    "load_models": {"PENSTOCK_MODEL_CONTROL": "explicit"},
    "admin_open": {"PENSTOCK_ADMIN": "127.0.0.1:9"},
    "load_files": {"PENSTOCK_MODEL_CONTROL": "explicit"},
}


@pytest.mark.parametrize("entry", fields(ServerConfig), ids=lambda entry: entry.name)
def test_shown_value_is_read_as_the_same_value(entry: Any) -> None:
    kind = entry.metadata["kind"]
    texts = settings.choices(kind) or SAMPLES[kind]
    values = [settings.parse(kind, text) for text in texts]
    values += [entry.default] if entry.default != () else []
    values += [1.5, 0.001, 366 * 86400.0, 123456.789] if kind == "seconds" else []
    for value in values:
        if kind not in settings.SECRETS:
            assert settings.parse(kind, shown(kind, value)) == value


@pytest.mark.parametrize("name", ["api_key", "cache_redis", "restricted_access"])
def test_secrets_are_not_shown(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    prefix = "inference:x-key=" if name == "restricted_access" else ""
    (tmp_path / "penstock.toml").write_text(f"[server]\n{name} = '{prefix}hidden-of-file'\n")
    monkeypatch.setenv(f"PENSTOCK_{name.upper()}", f"{prefix}hidden-of-variable")
    for arguments in ([], ["--json"]):
        text = output(capsys, "--changed", flag(name), f"{prefix}hidden-of-flag", *arguments)
        assert "hidden" not in text
        assert text.count("(set)") == 3


def test_settings_of_models_follow(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "app.py", "--changed"]) == 0
    out, err = capsys.readouterr()
    assert err == "imported\n"
    assert out.splitlines() == [
        "model double, version 1",
        "batching   Batching(max_size=32, max_delay=0.002)  argument model(batching=)",
        "resources  Resources(amounts=(('gpu0', 2),), weight=1.0)  argument model(resources=)",
    ]
    assert "queueing " in output(capsys, "app.py")
    [one] = described(capsys, "app.py:plain")["models"]
    assert (one["name"], one["version"], list(one["settings"])) == ("plain", "1", list(SETTINGS))
    assert one["settings"]["max_queue"] == {"value": 1024, "origin": "default", "shadowed": []}


def test_example_of_the_documentation_is_printed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    [shown] = re.findall(r"^\$ PENSTOCK_HTTP=9001 penstock (.*)\n((?:.*\n)*?)```", PAGE.read_text(), re.MULTILINE)
    (tmp_path / "app.py").write_text(APP.replace('    resources={"gpu0": 2},\n', ""))
    (tmp_path / "penstock.toml").write_text("[server]\nhttp = 9000\nidle_timeout = '2m'\n")
    monkeypatch.setenv("PENSTOCK_HTTP", "9001")
    assert main(shown[0].split()) == 0
    assert capsys.readouterr().out == shown[1]


def test_wrong_settings_are_all_printed_in_place_of_rows(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_IO_THREADS", "many")
    monkeypatch.setenv("PENSTOCK_HTTP", "h")
    assert main(["config"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert [line.split(" is not ")[0] for line in err.splitlines()] == [
        "penstock: error: PENSTOCK_HTTP: 'h'",
        "penstock: error: PENSTOCK_IO_THREADS: 'many'",
    ]


def test_import_error_of_a_target_is_reported(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("1 / 0\n")
    assert main(["config", "bad.py"]) == 1
    line = "cannot import bad.py: ZeroDivisionError: division by zero"
    assert capsys.readouterr().err.endswith(f"penstock: error: {line}\n")


def test_reader_may_leave_early(tmp_path: Path) -> None:
    environment = {name: text for name, text in os.environ.items() if not name.startswith("PENSTOCK_")}
    command = [sys.executable, "-m", "penstock", "config", "schema"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 0


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["config", "--http", "x"], "penstock config: error: argument --http: 'x' is not HOST:PORT"),
        (["config", "check", "--json"], "penstock config check: error: unrecognized arguments: --json"),
        (
            ["config", "check", "--port", "9"],
            "penstock config check: error: unrecognized arguments: --port; the address",
        ),
        (["config", "schema", "app.py"], "penstock config schema: error: unrecognized arguments: app.py"),
        (["config", "--changd"], "penstock config: error: unrecognized arguments: --changd; did you mean --changed?"),
    ],
)
def test_wrong_usage_exits_with_status_2(capsys: pytest.CaptureFixture[str], arguments: list[str], line: str) -> None:
    assert main(arguments) == 2
    assert capsys.readouterr().err.splitlines()[-1].startswith(line)
