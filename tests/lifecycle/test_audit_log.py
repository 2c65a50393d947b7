"""The audit log: which events it has, its chain, and what happens where it cannot be written."""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import grpc
import httpx
import numpy as np
import pytest
from tritonclient.grpc import service_pb2 as pb
from tritonclient.grpc import service_pb2_grpc

from http_by_hand import connect, get, infer, post, read_response
from penstock import ConfigError, HandlerError, Server, Tensor, model
from repositories import Repository
from serving_process import Serving
from waiting import until

KEY, READER = "psk_" + "a" * 40, "psk_" + "b" * 40
NONE = "0" * 64
PORTS: Any = {"http": "127.0.0.1:0", "grpc": "127.0.0.1:0"}
X = {"x": np.ones((1,), np.float32)}
UNWRITABLE = "the audit log cannot be written"
NAMES = ["time", "seq", "client", "address", "action", "target", "outcome", "prev"]


@model(inputs=[Tensor("x", np.float32, [1])], outputs=[Tensor("y", np.float32, [1])])
def same(x: Any) -> Any:
    return x


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def events(path: Path) -> list[tuple[Any, ...]]:
    return [(one["action"], one["target"], one["outcome"]) for one in lines(path)]


def verify(*paths: Path) -> tuple[int, str]:
    """Exit status and output of `penstock audit verify`."""
    command = [sys.executable, "-m", "penstock", "audit", "verify", *map(str, paths)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return ended.returncode, ended.stdout + ended.stderr


def change(url: str, headers: dict[str, str] | None = None) -> httpx.Response:
    return httpx.post(f"{url}/v2/logging", json={"log_info": True}, headers=headers or {})


def write_keys(path: Path, names: Sequence[str]) -> str:
    """A file of keys of these names: the first may do everything, others what clients may by default."""
    text = ""
    for name, key in zip(names, (KEY, READER), strict=False):
        scopes = "scopes = ['*']" if key == KEY else ""
        text += f"[[key]]\nname = '{name}'\nsha256 = '{hashlib.sha256(key.encode()).hexdigest()}'\n{scopes}\n"
    path.write_text(text)
    path.chmod(0o600)
    return str(path)


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "audit.log"


def test_control_changes_have_a_line_before_and_after(path: Path, tmp_path: Path) -> None:
    keys = write_keys(tmp_path / "keys.toml", ["operator", "reader"])
    options: Any = {"batching_debug": "change", "keys_file": keys, "audit_log": str(path)}
    with Server(same, **PORTS, **options) as server:
        url, headers = server.http_url, bearer(KEY)
        assert change(url, headers).status_code == 200
        assert httpx.post(f"{url}/v2/logging", content=b'{"log_info": 7}', headers=headers).status_code == 400
        assert httpx.post(f"{url}/v2/models/same/trace/setting", content=b"{}", headers=headers).status_code == 200
        assert httpx.post(f"{url}/v2/models/same/batching", content=b"{}", headers=headers).status_code in (200, 400)
        # Reading changes nothing.
        assert httpx.get(f"{url}/v2/logging", headers=headers).status_code == 200
        assert httpx.get(f"{url}/v2/trace/setting", headers=headers).status_code == 200
        with grpc.insecure_channel(server.grpc_url) as channel:
            stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
            metadata = [("authorization", f"Bearer {KEY}")]
            stub.LogSettings(pb.LogSettingsRequest(), metadata=metadata)
            request = pb.LogSettingsRequest()
            request.settings["log_info"].bool_param = True
            stub.LogSettings(request, metadata=metadata)
            stub.TraceSetting(pb.TraceSettingRequest(model_name="same"), metadata=metadata)
            traced = pb.TraceSettingRequest(model_name="nope")
            traced.settings["trace_rate"].value.append("7")
            with pytest.raises(grpc.RpcError):
                stub.TraceSetting(traced, metadata=metadata)
    written = lines(path)
    assert [list(line) for line in written] == [NAMES] * len(written)
    assert {(line["client"], line["address"]) for line in written} == {("operator", "127.0.0.1")}
    assert [line["seq"] for line in written] == list(range(1, len(written) + 1))
    done = [(action, target) for action, target, outcome in events(path) if outcome == "started"]
    assert done == [
        ("log_settings", None),
        ("log_settings", None),
        ("trace_settings", "same"),
        ("batching", "same"),
        ("log_settings", None),
        ("trace_settings", "nope"),
    ]
    outcomes = [outcome for _, _, outcome in events(path) if outcome != "started"]
    assert outcomes[:3] == ["ok", "invalid_input", "ok"]
    assert outcomes[4:] == ["ok", "not_found"]
    assert path.stat().st_mode & 0o777 == 0o600
    status, text = verify(path)
    last = path.read_text().splitlines()[-1]
    assert written[0]["prev"] == NONE
    count = len(written)
    expected = rf"{count} lines, no line was changed or removed; the last one is seq {count}, hash [0-9a-f]{{64}}\n"
    assert re.fullmatch(expected, text)
    assert (status, json.loads(last)["seq"]) == (0, count)


def test_models_that_clients_load_and_unload_are_named(path: Path, tmp_path: Path) -> None:
    repository = Repository(tmp_path / "models")
    repository.put("a", "1", 2)
    options: Any = {"repository": repository.path, "model_control": "explicit", "audit_log": str(path)}
    with Server(**PORTS, **options) as server:
        url = server.http_url
        assert post(url, "/v2/repository/models/a/load", b"").status == 200
        assert post(url, "/v2/repository/models/a/unload", b"").status == 200
        injected = quote('\n{"seq": 99}\r\x1b[2J')
        assert post(url, f"/v2/repository/models/{injected}/load", b"").status == 404
        with grpc.insecure_channel(server.grpc_url) as channel:
            stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
            stub.RepositoryModelLoad(pb.RepositoryModelLoadRequest(model_name="a"))
            with pytest.raises(grpc.RpcError):
                stub.RepositoryModelUnload(pb.RepositoryModelUnloadRequest(model_name="b\n\u2028{}" + "x" * 5000))
    escaped = r'\u{a}{"seq": 99}\u{d}\u{1b}[2J'
    assert events(path)[:6] == [
        ("load", "a", "started"),
        ("load", "a", "ok"),
        ("unload", "a", "started"),
        ("unload", "a", "ok"),
        ("load", escaped, "started"),
        ("load", escaped, "not_found"),
    ]
    assert events(path)[6:8] == [("load", "a", "started"), ("load", "a", "ok")]
    target = events(path)[8][1]
    assert target.startswith(r"b\u{a}\u{2028}{}xxx")
    assert len(target) < 300
    assert len(path.read_text().splitlines()) == 10
    assert verify(path)[0] == 0


def test_denied_access_has_a_line(path: Path, tmp_path: Path) -> None:
    keys = write_keys(tmp_path / "keys.toml", ["operator", "reader"])
    with Server(same, **PORTS, keys_file=keys, audit_log=str(path)) as server:
        url = server.http_url
        assert httpx.get(f"{url}/v2").status_code == 401
        assert change(url, bearer("psk_" + "x" * 40)).status_code == 401
        assert change(url, bearer(READER)).status_code == 403
        assert httpx.post(f"{url}/v2/models/a%0Ab/infer", content=b"{}").status_code == 401
        with grpc.insecure_channel(server.grpc_url) as channel:
            stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
            with pytest.raises(grpc.RpcError):
                stub.LogSettings(pb.LogSettingsRequest(), metadata=[("authorization", f"Bearer {READER}")])
            with pytest.raises(grpc.RpcError):
                stub.ModelInfer(pb.ModelInferRequest(model_name="same"))
    assert [(one["client"], one["target"], one["outcome"]) for one in lines(path)] == [
        (None, "GET /v2", "unauthenticated"),
        (None, "POST /v2/logging", "unauthenticated"),
        ("reader", "POST /v2/logging", "forbidden"),
        (None, "POST /v2/models/a%0Ab/infer", "unauthenticated"),
        ("reader", "POST /inference.GRPCInferenceService/LogSettings", "forbidden"),
        (None, "POST /inference.GRPCInferenceService/ModelInfer", "unauthenticated"),
    ]
    assert {one["action"] for one in lines(path)} == {"access"}
    assert (KEY in path.read_text(), READER in path.read_text()) == (False, False)
    assert verify(path)[0] == 0


def test_access_denied_by_a_route_or_a_secret_has_a_line(path: Path) -> None:
    rules = "logging:admin-key=s3cret"
    with Server(same, **PORTS, restricted_access=rules, audit_log=str(path), slow_request="1h") as server:
        assert get(server.http_url, "/v2/logging").status == 403
        forwarded = {"x-forwarded-for": "10.0.0.1"}
        assert httpx.get(f"{server.http_url}/debug/slow", headers=forwarded).status_code == 403
        page = {"origin": "http://evil.test", "content-type": "application/json"}
        assert httpx.post(f"{server.http_url}/v2/trace/setting", content=b"{}", headers=page).status_code == 403
    assert events(path) == [
        ("access", "GET /v2/logging", "forbidden"),
        ("access", "GET /debug/slow", "forbidden"),
        ("access", "POST /v2/trace/setting", "forbidden"),
    ]


def test_client_behind_a_trusted_proxy_is_named(path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    options: Any = {"trusted_proxies": "127.0.0.1", "access_log": "json", "access_log_fields": "address,client"}
    with Server(same, **PORTS, api_key="secret", audit_log=str(path), **options) as server:
        forwarded = {"x-forwarded-for": "192.0.2.7"}
        assert httpx.get(f"{server.http_url}/v2", headers=forwarded).status_code == 401
        assert change(server.http_url, forwarded | bearer("secret")).status_code == 200
        body = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1], "data": [1]}]}
        headers = forwarded | bearer("secret")
        assert httpx.post(f"{server.http_url}/v2/models/same/infer", json=body, headers=headers).status_code == 200
    assert [(one["client"], one["address"], one["outcome"]) for one in lines(path)] == [
        (None, "192.0.2.7", "unauthenticated"),
        ("api_key", "192.0.2.7", "started"),
        ("api_key", "192.0.2.7", "ok"),
    ]
    text = ""

    def is_logged() -> bool:
        nonlocal text
        text += capfd.readouterr().err
        return '{"address":"192.0.2.7","client":"api_key"}' in text

    until(is_logged, "the line of the access log")


def test_lines_about_denied_access_are_limited(path: Path) -> None:
    started = time.monotonic()
    with Server(same, **PORTS, api_key="secret", audit_log=str(path)) as server, httpx.Client() as client:
        for _ in range(60):
            assert client.get(f"{server.http_url}/v2").status_code == 401
        seconds = time.monotonic() - started

        def is_told() -> bool:
            client.get(f"{server.http_url}/v2")
            return any("skipped" in line for line in lines(path))

        until(is_told, "a line with the denials that have none")
    assert 20 <= len([line for line in lines(path) if line["seq"] <= 60]) <= 20 * (seconds + 2) + 20
    assert verify(path)[0] == 0


def test_chain_goes_on_after_a_restart(path: Path) -> None:
    for count in (1, 2):
        with Server(same, **PORTS, audit_log=str(path)) as server:
            assert change(server.http_url).status_code == 200
        assert [line["seq"] for line in lines(path)] == list(range(1, 2 * count + 1))
    assert verify(path)[0] == 0


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        ("flip", "line 2: changed, its hash is not the prev of line 3"),
        ("drop", "line 2: got seq 3, expected 2: a line before it is missing or added"),
        ("truncate", "line 4: cut off, it has no end"),
        ("add", "line 2: got seq 1, expected 2: a line before it is missing or added"),
        ("text", "line 3: not a line of an audit log"),
        ("first", "line 1: changed, its prev is not that of seq 1"),
    ],
)
def test_broken_line_is_named(damage: str, problem: str, path: Path) -> None:
    with Server(same, **PORTS, audit_log=str(path)) as server:
        for _ in range(2):
            assert change(server.http_url).status_code == 200
    written = path.read_bytes().splitlines(keepends=True)
    assert len(written) == 4
    if damage == "flip":
        place = written[1].index(b'"ok"') + 1
        written[1] = written[1][:place] + bytes([written[1][place] ^ 1]) + written[1][place + 1 :]
    elif damage == "drop":
        del written[1]
    elif damage == "truncate":
        written[3] = written[3][:-10]
    elif damage == "add":
        written.insert(1, written[0])
    elif damage == "text":
        written[2] = b"hello\n"
    else:
        written[0] = written[0].replace(NONE.encode(), b"1" * 64)
    path.write_bytes(b"".join(written))
    assert verify(path) == (1, f"penstock audit verify: error: {path}: {problem}\n")
    if damage == "truncate":
        expected = (
            f"audit_log: '{path}' does not end with a whole line of an audit log, move it away or remove what is broken"
        )
        with pytest.raises(ConfigError, match=f"^{re.escape(expected)}$"), Server(same, **PORTS, audit_log=str(path)):
            pass


def test_verify_refuses_files_that_it_cannot_read(path: Path) -> None:
    assert verify(path) == (1, f"penstock audit verify: error: {path}: No such file or directory (os error 2)\n")
    path.touch()
    assert verify(path)[1].startswith("0 lines, no line was changed or removed; the last one is seq 0, hash 0000")


def test_sighup_opens_a_moved_file_again(tmp_path: Path, path: Path) -> None:
    moved = tmp_path / "audit.log.1"
    arguments = ("double", "--http", "127.0.0.1:0", "--grpc", "off", "--audit-log", str(path))
    with Serving(*arguments) as server:
        assert change(server.http).status_code == 200
        path.rename(moved)
        # Without a signal the lines follow the file.
        assert change(server.http).status_code == 200
        assert (len(lines(moved)), path.exists()) == (4, False)
        server.signal(signal.SIGHUP)
        server.await_stderr("penstock: reloaded in ")
        until(lambda: path.exists() and events(path)[-1:] == [("reload", "double", "ok")])
        assert change(server.http).status_code == 200
    assert events(path) == [
        ("reload", "double", "ok"),
        ("log_settings", None, "started"),
        ("log_settings", None, "ok"),
    ]
    assert [line["seq"] for line in lines(path)] == [5, 6, 7]
    # The parts are one chain, and each of them is whole.
    assert verify(moved, path)[1].startswith("7 lines, no line was changed or removed; the last one is seq 7,")
    assert (verify(path)[0], verify(path, moved)[0]) == (0, 1)


def test_reloads_of_keys_certificates_and_code_have_lines(path: Path, tmp_path: Path) -> None:
    keys = tmp_path / "keys.toml"
    write_keys(keys, ["operator"])
    with Server(same, **PORTS, keys_file=str(keys), audit_log=str(path)) as server:
        write_keys(keys, ["operator", "reader"])
        os.utime(keys, (1, 1))
        server.reload_files()
        keys.write_text("no toml")
        server.reload_files()
        server.reload(lambda: [same])
        with pytest.raises(HandlerError):
            server.reload(lambda: [same.with_options(name=str(1 / 0))])
    assert events(path) == [
        ("keys_reload", None, "ok"),
        ("keys_reload", None, "failed"),
        ("reload", "same", "ok"),
        ("reload", None, "failed"),
    ]
    assert {(line["client"], line["address"]) for line in lines(path)} == {(None, None)}


def test_changes_are_refused_while_the_disk_is_full(capfd: pytest.CaptureFixture[str]) -> None:
    with Server(same, **PORTS, audit_log="/dev/full", api_key="secret") as server:
        url, headers = server.http_url, bearer("secret")
        before = httpx.get(f"{url}/v2/logging", headers=headers).json()
        for _ in range(2):
            response = httpx.post(f"{url}/v2/logging", json={"log_info": True}, headers=headers)
            assert (response.status_code, response.json()) == (503, {"error": UNWRITABLE})
        assert httpx.get(f"{url}/v2/logging", headers=headers).json() == before
        with grpc.insecure_channel(server.grpc_url) as channel:
            stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
            request = pb.TraceSettingRequest()
            request.settings["trace_rate"].value.append("7")
            with pytest.raises(grpc.RpcError) as raised:
                stub.TraceSetting(request, metadata=[("authorization", "Bearer secret")])
            error: Any = raised.value
            assert (error.code(), error.details()) == (grpc.StatusCode.UNAVAILABLE, UNWRITABLE)
        # Denials and inference go on.
        assert httpx.get(f"{url}/v2").status_code == 401
        body = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1], "data": [1]}]}
        assert httpx.post(f"{url}/v2/models/same/infer", json=body, headers=headers).status_code == 200
        text = ""

        def is_logged() -> bool:
            nonlocal text
            text += capfd.readouterr().err
            return UNWRITABLE in text

        until(is_logged, "the reason in the log")
    text += capfd.readouterr().err
    errors = [line for line in text.splitlines() if UNWRITABLE in line and " error " in line]
    assert len(errors) == 1
    assert errors[0].endswith(f"{UNWRITABLE}, control changes are refused: No space left on device (os error 28)")


def test_changes_are_refused_while_another_server_has_the_file(path: Path) -> None:
    with Server(same, **PORTS, audit_log=str(path)) as one:
        assert change(one.http_url).status_code == 200
        with Server(same, **PORTS, audit_log=str(path)) as other:
            assert change(other.http_url).json() == {"error": UNWRITABLE}
            assert infer(other.http_url, "same", X).status == 200
            one.stop()
            del one
            assert change(other.http_url).status_code in (200, 503)
    assert verify(path)[0] == 0


def test_standard_error_has_the_lines(capfd: pytest.CaptureFixture[str]) -> None:
    with Server(same, **PORTS, audit_log="stderr") as server:
        assert change(server.http_url).status_code == 200
    found = [json.loads(line) for line in capfd.readouterr().err.splitlines() if line.startswith("{")]
    assert [(line["seq"], line["action"], line["outcome"]) for line in found] == [
        (1, "log_settings", "started"),
        (2, "log_settings", "ok"),
    ]


def test_file_that_cannot_be_opened_prevents_the_start(tmp_path: Path) -> None:
    path = tmp_path / "none" / "audit.log"
    expected = f"audit_log: '{path}' cannot be opened: No such file or directory (os error 2)"
    with pytest.raises(ConfigError, match=f"^{re.escape(expected)}$"), Server(same, **PORTS, audit_log=str(path)):
        pass


def test_change_whose_client_left_has_an_outcome(path: Path) -> None:
    # The head promises a body that never comes: the change is begun, and not made.
    with Server(same, **PORTS, audit_log=str(path)) as server:
        with connect(server.http_url) as sock:
            sock.sendall(b"POST /v2/logging HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{")
            until(lambda: path.exists() and len(lines(path)) == 1)
        until(lambda: len(lines(path)) == 2)
        with connect(server.http_url) as sock:
            sock.sendall(b"GET /v2/health/live HTTP/1.1\r\nhost: localhost\r\n\r\n")
            assert read_response(sock).status == 200
    assert events(path) == [("log_settings", None, "started"), ("log_settings", None, "cancelled")]
