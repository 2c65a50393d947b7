"""`/debug/config`: settings and options of models of a running server, with their origins."""

from __future__ import annotations

import json
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from config_app import APP
from http_by_hand import connect, get, read_response
from penstock import Batching, Server, Tensor, model
from serving_process import Serving

EXPECTED = "/debug/config is for programs of this machine, unless keys, restricted_access or admin protect it"


def double(name: str, version: str = "1") -> Any:
    x = [Tensor("x", np.float32, [1])]
    return model(name=name, version=version, inputs=x, outputs=[Tensor("y", np.float32, [1])], batching=Batching(8))(
        lambda x: 2 * x
    )


def described(url: str) -> Any:
    response = get(url, "/debug/config")
    assert (response.status, response.headers["cache-control"]) == (200, "no-store"), response.body
    assert response.headers["content-type"] == "application/json"
    return response.json()


def test_served_settings_are_those_that_the_command_prints(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "penstock.toml").write_text("[server]\nidle_timeout = '2m'\n\napi_key = 'secret-key'\nhttp = 9\n")
    arguments = ("app.py", "--http", "127.0.0.1:0", "--grpc", "off", "--resources", "gpu0=2")
    command = [sys.executable, "-m", "penstock", "config", *arguments, "--json"]
    environment = {"PENSTOCK_TIMING_HEADERS": "on"}
    with Serving(*arguments, folder=tmp_path, environment=environment) as server, connect(server.http) as sock:
        key = b"authorization: Bearer secret-key\r\n"
        sock.sendall(b"GET /debug/config HTTP/1.1\r\nhost: localhost\r\n" + key + b"\r\n")
        found = read_response(sock).json()
        printed = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True).stdout
    expected = json.loads(printed)
    # The command ran without the variable.
    assert found["settings"].pop("timing_headers") == {
        "value": True,
        "origin": "PENSTOCK_TIMING_HEADERS",
        "shadowed": [],
    }
    del expected["settings"]["timing_headers"]
    assert found == expected
    assert found["settings"]["api_key"] == {"value": "(set)", "origin": "penstock.toml:4", "shadowed": []}
    assert found["settings"]["http"]["shadowed"] == [{"value": "127.0.0.1:9", "origin": "penstock.toml:5"}]
    assert "secret-key" not in json.dumps(found)


def test_server_of_python_names_its_arguments(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    with Server(double("a"), http="127.0.0.1:0", grpc=None, api_key=None) as server:
        settings = described(server.http_url)["settings"]
        assert settings["http"] == {"value": "127.0.0.1:0", "origin": "argument Server(http=)", "shadowed": []}
        assert settings["idle_timeout"] == {"value": 75.0, "origin": "default", "shadowed": []}
        assert settings["max_inflight_bytes"]["origin"].startswith("computed: ")


def test_serve_names_its_arguments(tmp_path: Path) -> None:
    call = "import penstock\npenstock.serve(double, http='127.0.0.1:0', grpc=None, resources='gpu0=2')\n"
    (tmp_path / "app.py").write_text(APP + call)
    with Serving(script="app.py", folder=tmp_path) as server:
        found = described(server.http)
        assert found["settings"]["http"]["origin"] == "argument serve(http=)"
        [only] = found["models"]
        assert (only["name"], only["settings"]["batching"]["origin"]) == ("double", "argument model(batching=)")


def test_models_are_those_that_serve() -> None:
    def names(server: Server) -> list[tuple[str, str]]:
        return [(one["name"], one["version"]) for one in described(server.http_url)["models"]]

    with Server(double("a"), http="127.0.0.1:0", grpc=None) as server:
        [only] = described(server.http_url)["models"]
        assert only["settings"]["batching"]["value"]["max_size"] == 8
        assert only["settings"]["max_queue"]["origin"] == "default"
        server.add(double("b"), double("b", "2"))
        assert names(server) == [("a", "1"), ("b", "1"), ("b", "2")]
        server.remove("b", "1")
        assert names(server) == [("a", "1"), ("b", "2")]
        server.reload(lambda: [double("c")])
        assert names(server) == [("c", "1")]


def test_it_is_for_this_machine_unless_something_protects_it() -> None:
    head = b"GET /debug/config HTTP/1.1\r\nhost: localhost\r\nx-forwarded-for: 10.0.0.1\r\n"
    with Server(double("a"), http="127.0.0.1:0", grpc=None) as server, connect(server.http_url) as sock:
        sock.sendall(head + b"\r\n")
        response = read_response(sock)
        assert (response.status, response.error()) == (403, EXPECTED)
    rule = "debug:admin-key=s3cret"
    with Server(double("a"), http="127.0.0.1:0", grpc=None, restricted_access=rule) as server:
        assert get(server.http_url, "/debug/config").status == 403
        with connect(server.http_url) as sock:
            sock.sendall(head + b"admin-key: s3cret\r\n\r\n")
            response = read_response(sock)
            assert response.status == 200
            assert b"s3cret" not in response.body


def test_key_of_some_models_does_not_see_it(tmp_path: Path) -> None:
    keys = tmp_path / "keys.toml"
    secrets = {"some": "models = ['a']", "all": ""}
    entries = [
        f"[[key]]\nname = '{name}'\nsha256 = '{sha256(name.encode()).hexdigest()}'\nscopes = ['debug']\n{models}\n"
        for name, models in secrets.items()
    ]
    keys.write_text("\n".join(entries))
    keys.chmod(0o600)
    with Server(double("a"), http="127.0.0.1:0", grpc=None, keys_file=str(keys)) as server:
        statuses = {}
        for name in secrets:
            with connect(server.http_url) as sock:
                sock.sendall(f"GET /debug/config HTTP/1.1\r\nhost: localhost\r\nx-api-key: {name}\r\n\r\n".encode())
                statuses[name] = read_response(sock).status
        assert statuses == {"some": 403, "all": 200}
