"""Reading of the settings again at SIGHUP: what changes, what needs a restart, and what a broken file does."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from configured_server import BASE, Configured, configured, toml, write
from http_by_hand import get, metric_at, post
from penstock import ConfigError, Server, StartupError, model
from serving_process import Serving

CODE = """
import os
from penstock import model

@model
def leave(folder: str) -> str:
    os.chdir(folder)
    return os.getcwd()
"""


@model
def plain(a: int) -> int:
    return a


def outcomes(one: Configured) -> dict[str, float]:
    return {name: metric_at(one.url, "penstock_config_reloads_total", outcome=name) for name in ("ok", "error")}


def digest(url: str) -> str:
    found = re.search(r'^penstock_config_hash_info\{hash="(\w{16})"\} 1$', get(url, "/metrics").body.decode(), re.M)
    assert found
    return found[1]


def test_live_settings_change_and_others_are_reported(tmp_path: Path) -> None:
    with configured(tmp_path, CODE, idle_timeout="60s", server_name="a", api_key="off") as one:
        assert outcomes(one) == {"ok": 0, "error": 0}
        before, process = digest(one.url), one.server.process.pid
        one.reload(
            "penstock: 7 settings read, 2 changed, 2 need a restart\n",
            idle_timeout="2m",
            server_name="b",
            request_timeout="1h",
            max_headers=7,
            api_key="off",
        )
        lines = [line for line in one.server.notices if " changed" in line]
        assert lines[:4] == [
            "penstock: max_headers changed from 100 to 7: needs a restart",
            "penstock: idle_timeout changed from 60s to 120s",
            "penstock: request_timeout changed from 0s to 3600s",
            "penstock: server_name changed from a to b: needs a restart",
        ]
        settings = one.settings()
        assert settings["idle_timeout"] == {"value": 120.0, "origin": "server.toml:4", "shadowed": []}
        assert settings["request_timeout"]["value"] == 3600.0
        waiting = {"value": "b", "origin": "server.toml:5"}
        assert settings["server_name"] == {
            "value": "a",
            "origin": "server.toml:5",
            "shadowed": [],
            "needs_restart": waiting,
        }
        assert get(one.url, "/v2").json()["name"] == "a"
        assert outcomes(one) == {"ok": 1, "error": 0}
        assert digest(one.url) != before
        # Until the restart, each reading reports it; a value that is back is no change.
        one.reload(
            "penstock: 5 settings read, 2 changed, 1 needs a restart\n",
            idle_timeout="60s",
            server_name="b",
            api_key="off",
        )
        one.reload("penstock: 5 settings read, 0 changed\n", idle_timeout="60s", server_name="a", api_key="off")
        assert "needs_restart" not in one.settings()["server_name"]
        assert digest(one.url) == before
        assert one.server.process.pid == process


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        (
            "[server]\nidle_timeout = '5s'\nrequest_timeout = 'soon'\nidle = 3\n",
            [
                "server.toml:3: request_timeout: 'soon' is not a duration such as 500ms, 30s or 2m",
                "server.toml:4: unknown setting 'idle' in [server]",
            ],
        ),
        ("[server\n", ["server.toml: not valid TOML: "]),
        ("[server]\ngrpc = 'same'\nhttp = 'off'\n", ["grpc: 'same' is the HTTP port, but http is off (server.toml:2)"]),
        (
            "[server]\nidle_timeout = '5s'\napi_key = 'env:NONE'\n",
            ["api_key: the variable 'NONE' is not set (server.toml:3)"],
        ),
        (None, ["server.toml: cannot be read: No such file or directory"]),
    ],
)
def test_broken_file_changes_nothing(text: str | None, problems: list[str], tmp_path: Path) -> None:
    with configured(tmp_path, CODE, idle_timeout="60s") as one:
        settings, before = one.settings(), digest(one.url)
        if text is None:
            one.path.unlink()
        else:
            one.write(text)
        one.reload_again("penstock: the settings stay as they are\n")
        for problem in problems:
            assert re.search(rf"^penstock: {re.escape(problem)}", one.server.err, re.MULTILINE), one.server.err
        assert one.settings() == settings
        assert digest(one.url) == before
        assert outcomes(one) == {"ok": 0, "error": 1}
        one.reload(" read, 1 changed\n", idle_timeout="5s")
        assert one.settings()["idle_timeout"]["value"] == 5.0


def test_flags_and_variables_win_over_the_file(tmp_path: Path) -> None:
    flags, variables = ("--idle-timeout", "1h"), {"PENSTOCK_REQUEST_TIMEOUT": "2h"}
    with configured(tmp_path, CODE, *flags, environment=variables) as one:
        one.reload(" read, 1 changed\n", idle_timeout="5s", request_timeout="5s", body_timeout="5s")
        settings = one.settings()
    assert settings["idle_timeout"] == {
        "value": 3600.0,
        "origin": "--idle-timeout",
        "shadowed": [{"value": 5.0, "origin": "server.toml:4"}],
    }
    assert settings["request_timeout"]["value"] == 7200.0
    assert settings["body_timeout"]["value"] == 5.0


def test_default_file_is_that_of_the_start_folder(tmp_path: Path) -> None:
    app = tmp_path / "app.py"
    app.write_text(CODE)
    (tmp_path / "other").mkdir()
    with Serving(str(app), "--http", "127.0.0.1:0", "--grpc", "off", folder=tmp_path) as server:
        one = Configured(server, tmp_path / "penstock.toml")
        # A server may start without the file.
        write(one.path, toml({"idle_timeout": 7}))
        one.reload_again("penstock: 1 setting read, 1 changed\n")
        moved = post(one.url, "/models/leave", json.dumps({"folder": str(tmp_path / "other")}).encode())
        assert moved.status == 200, moved.body
        write(tmp_path / "other" / "penstock.toml", toml({"idle_timeout": 1}))
        write(one.path, toml({"idle_timeout": 9}))
        one.reload_again("penstock: idle_timeout changed from 7s to 9s\n")
        assert one.settings()["idle_timeout"]["origin"] == "penstock.toml:2"


def test_log_settings_of_clients_stay_unless_the_file_changes_them(tmp_path: Path) -> None:
    def log(one: Configured) -> Any:
        return get(one.url, "/v2/logging").json()

    with configured(tmp_path, CODE, log_level="error") as one:
        assert post(one.url, "/v2/logging", b'{"log_info": true}').status == 200
        one.reload(" read, 1 changed\n", log_level="error", idle_timeout="5s")
        assert log(one)["log_info"] is True
        one.reload(" read, 1 changed\n", log_level="warning", idle_timeout="5s")
        assert (log(one)["log_info"], log(one)["log_warning"]) == (False, True)


def test_reload_without_settings_says_nothing_of_them(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(CODE)
    with Serving("app.py", "--http", "127.0.0.1:0", "--grpc", "off", folder=tmp_path) as server:
        server.signal(signal.SIGHUP)
        server.await_stderr("penstock: reloaded in")
        assert "settings read" not in server.err


def test_server_of_python_reads_its_settings_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.toml"
    monkeypatch.setenv("PENSTOCK_CONFIG", str(path))
    path.write_text(toml({"idle_timeout": 60, "request_timeout": 5}))
    server = Server(plain, http="127.0.0.1:0", grpc=None, request_timeout=7)
    with pytest.raises(StartupError, match="the server is not started, so its settings cannot be read again"):
        server.reload_settings()
    with server:
        path.write_text(toml({"idle_timeout": 30, "request_timeout": 9, **BASE}))
        monkeypatch.setenv("PENSTOCK_IDLE_TIMEOUT", "5")
        assert [*server.reload_settings().lines()] == [
            "idle_timeout changed from 60s to 30s",
            "4 settings read, 1 changed",
        ]
        assert (server.config.idle_timeout, server.config.request_timeout) == (30.0, 7.0)
        path.write_text(toml({"idle_timeout": "x", "max_headers": -1}))
        with pytest.raises(ConfigError) as refused:
            server.reload_settings()
        assert [line.split(": ")[1] for line in str(refused.value).splitlines()] == ["idle_timeout", "max_headers"]
        assert server.config.idle_timeout == 30.0
    with Server(plain, config=server.config) as other:
        assert [*other.reload_settings().lines()] == ["0 settings read, 0 changed"]
