"""Keys: scopes, models, expiry, reload, and the identity that handlers see."""

from __future__ import annotations

import hashlib
import json
import os
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import httpx
import openai
import pytest
import trustme
from tritonclient.grpc import service_pb2 as pb
from tritonclient.grpc import service_pb2_grpc

from penstock import Client, ConfigError, Context, Processes, Server, Unauthenticated, model
from penstock import openai as routes
from waiting import until

KEY = "psk_" + "a" * 40
OTHER = "psk_" + "b" * 40
OLD = "psk_" + "c" * 40
ADMIN = "psk_" + "d" * 40


def entry(name: str, key: str, more: str = "") -> str:
    return f"[[key]]\nname = '{name}'\nsha256 = '{hashlib.sha256(key.encode()).hexdigest()}'\n{more}\n"


FILE = "\n".join(
    [
        entry("batch-team", KEY, "models = ['who*', '!who-secret', 'openai']"),
        entry("reader", OTHER, "scopes = ['metadata']"),
        entry("old", OLD, "expires = 2020-01-01"),
        entry("admin", ADMIN, "scopes = ['*']"),
    ]
)


@model
def who(x: float, ctx: Context) -> str:
    client = ctx.client
    return json.dumps([client.name, client.kind, client.key, client.address, client.may_use("secret")])


@model(name="who-secret")
def secret(x: float) -> float:
    return x


@pytest.fixture
def keys(tmp_path: Path) -> str:
    path = tmp_path / "keys.toml"
    path.write_text(FILE)
    path.chmod(0o600)
    return str(path)


@pytest.fixture
def server(keys: str) -> Iterator[Server]:
    with Server(who, secret, keys_file=keys, http="127.0.0.1:0", grpc="127.0.0.1:0") as server:
        yield server


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


def get(server: Server, path: str, key: str | None = None) -> httpx.Response:
    return httpx.get(server.http_url + path, headers=bearer(key) if key else {})


def ask(server: Server, key: str, name: str = "who") -> httpx.Response:
    return httpx.post(f"{server.http_url}/models/{name}", json={"x": 1.0}, headers=bearer(key))


def test_refusals_of_rest_name_the_missing_part(server: Server) -> None:
    for key, status, text in (
        (None, 401, "a key is needed: send it as 'authorization: Bearer KEY' or 'x-api-key: KEY'"),
        ("nobody", 401, "this key is not known"),
        (OLD, 401, "this key expired on 2020-01-01"),
        (KEY, 403, "key 'batch-team' may not use statistics"),
        (ADMIN, 200, None),
    ):
        answered = get(server, "/v2/models/stats", key)
        assert answered.status_code == status
        assert answered.headers.get("www-authenticate") == ('Bearer realm="penstock"' if status == 401 else None)
        if text is not None:
            assert answered.json() == {"error": text}
    both = httpx.get(f"{server.http_url}/v2", headers={**bearer(KEY), "x-api-key": OTHER})
    assert (both.status_code, both.json()["error"]) == (
        400,
        "the headers 'authorization' and 'x-api-key' carry two different keys",
    )
    assert httpx.get(f"{server.http_url}/v2", headers={"x-api-key": KEY}).status_code == 200


def test_probes_need_no_key(server: Server) -> None:
    assert get(server, "/v2/health/ready").status_code == 200
    assert get(server, "/v2/models/who/ready").status_code == 200
    assert get(server, "/v2/health/ready", "nobody").status_code == 401


def test_refusals_of_grpc_have_their_status(server: Server) -> None:
    with grpc.insecure_channel(server.grpc_url) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)

        def status(call: Any, message: Any, key: str | None) -> Any:
            metadata = (("authorization", f"Bearer {key}"),) if key else ()
            try:
                call(message, metadata=metadata, timeout=20)
            except grpc.RpcError as error:
                return error.code().name, error.details()
            return "OK", None

        message = pb.ModelStatisticsRequest()
        assert status(stub.ModelStatistics, message, None)[0] == "UNAUTHENTICATED"
        assert status(stub.ModelStatistics, message, "nobody") == ("UNAUTHENTICATED", "this key is not known")
        text = "key 'batch-team' may not use statistics"
        assert status(stub.ModelStatistics, message, KEY) == ("PERMISSION_DENIED", text)
        assert status(stub.ModelStatistics, message, ADMIN)[0] == "OK"
        named = pb.ModelMetadataRequest(name="who-secret")
        assert status(stub.ModelMetadata, named, KEY)[0] == "NOT_FOUND"
        assert status(stub.ModelMetadata, pb.ModelMetadataRequest(name="who"), KEY)[0] == "OK"
        assert status(stub.ServerLive, pb.ServerLiveRequest(), None)[0] == "OK"


def test_models_that_a_key_may_not_use_are_unknown(server: Server) -> None:
    hidden, missing = ask(server, KEY, "who-secret"), ask(server, KEY, "nowhere")
    assert (hidden.status_code, missing.status_code) == (404, 404)
    assert hidden.json()["error"].replace("who-secret", "nowhere") == missing.json()["error"]
    assert get(server, "/v2/models", KEY).json() == {"models": ["who"]}
    assert get(server, "/v2/models", ADMIN).json() == {"models": ["who", "who-secret"]}
    assert "who-secret" not in get(server, "/openapi.json", KEY).text
    assert "who-secret" in get(server, "/openapi.json", ADMIN).text
    for path in ("", "/ready", "/versions/1", "/versions/1/ready"):
        assert get(server, f"/v2/models/who-secret{path}", KEY).status_code == 404
    assert ask(server, ADMIN, "who-secret").status_code == 200
    denied = get(server, "/metrics", ADMIN).text
    assert 'penstock_denied_total{reason="model"}' in denied


@pytest.mark.parametrize("processes", [False, True], ids=["thread", "process"])
def test_handlers_see_the_client(keys: str, processes: bool) -> None:
    target = who.with_options(instances=Processes(1)) if processes else who
    with Server(target, keys_file=keys, http="127.0.0.1:0", grpc="off") as server:
        assert json.loads(ask(server, KEY).json()) == ["batch-team", "key", "batch-team", "127.0.0.1", False]
        assert json.loads(ask(server, ADMIN).json()) == ["admin", "key", "admin", "127.0.0.1", True]
    with Server(target, http="127.0.0.1:0", grpc="off") as server:
        named = json.loads(ask(server, KEY).json())
        assert named == ["127.0.0.1", "address", None, "127.0.0.1", True]


def test_certificates_are_identities_and_keys(tmp_path: Path) -> None:
    authority = trustme.CA()
    issued = {name: authority.issue_cert(name) for name in ("localhost", "batch.test", "other.test")}
    for name, certificate in issued.items():
        certificate.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / f"{name}.pem"))
        (tmp_path / f"{name}.pem").chmod(0o600)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    keys = tmp_path / "keys.toml"
    keys.write_text("[[key]]\nname = 'batch'\nsubject = 'batch.test'\n")
    options: dict[str, Any] = {
        "tls_certificate": str(tmp_path / "localhost.pem"),
        "tls_key": str(tmp_path / "localhost.pem"),
        "tls_client": "required",
        "tls_client_ca": str(tmp_path / "ca.pem"),
        "http": "127.0.0.1:0",
        "grpc": "off",
    }

    def call(server: Server, name: str) -> httpx.Response:
        context = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
        context.load_cert_chain(tmp_path / f"{name}.pem")
        url = server.http_url.replace("127.0.0.1", "localhost")
        with httpx.Client(verify=context) as client:
            return client.post(f"{url}/models/who", json={"x": 1.0})

    with Server(who, **options) as server:
        assert json.loads(call(server, "batch.test").json())[:3] == ["batch.test", "certificate", None]
    with Server(who, **options, keys_file=str(keys)) as server:
        assert json.loads(call(server, "batch.test").json())[:3] == ["batch", "key", "batch"]
        assert call(server, "other.test").status_code == 401


def test_changed_file_is_read_again(server: Server, keys: str) -> None:
    assert ask(server, "n" * 30).status_code == 401
    Path(keys).write_text(entry("new", "n" * 30))
    server.reload_files()
    assert ask(server, "n" * 30).status_code == 200
    assert ask(server, KEY).status_code == 401
    for problem in (lambda: Path(keys).write_text("[[key]\n"), lambda: os.unlink(keys)):
        problem()
        server.reload_files()
        assert ask(server, "n" * 30).status_code == 200
    Path(keys).write_text(entry("admin", ADMIN, "scopes = ['*']"))
    until(lambda: ask(server, "n" * 30).status_code == 401, "the reading of the changed file")
    text = get(server, "/metrics", ADMIN).text
    assert 'penstock_keys_reloads_total{outcome="ok"} 2' in text
    assert 'penstock_keys_reloads_total{outcome="error"} 2' in text


def test_one_connection_may_have_several_clients(server: Server) -> None:
    with httpx.Client(base_url=server.http_url) as client:
        for _ in range(3):
            for key, status in ((KEY, 200), (OTHER, 403), (None, 401), ("x", 401), (ADMIN, 200)):
                headers = bearer(key) if key else {}
                assert client.post("/models/who", json={"x": 1.0}, headers=headers).status_code == status


def test_penstocks_client_raises_unauthenticated(server: Server) -> None:
    for url in (server.http_url, f"grpc://{server.grpc_url}"):
        with Client(url) as client, pytest.raises(Unauthenticated, match="a key is needed"):
            client.infer("who", x=1.0)
        with Client(url, headers=bearer(KEY)) as client:
            assert json.loads(client.infer("who", x=1.0).json())[0] == "batch-team"


@model
def complete(prompt: str) -> Iterator[str]:
    yield prompt


def test_openai_routes_show_only_the_keys_models(tmp_path: Path) -> None:
    whose, other = complete.with_options(name="who"), complete.with_options(name="who-secret")
    served = routes.routes(routes.Completions(whose), routes.Completions(other))
    keys = tmp_path / "keys.toml"
    keys.write_text(FILE)
    with Server(served, whose, other, keys_file=str(keys), http="127.0.0.1:0", grpc="off") as server:
        with openai.OpenAI(base_url=f"{server.http_url}/v1", api_key=KEY, max_retries=0) as client:
            assert [one.id for one in client.models.list()] == ["who"]
            assert client.completions.create(model="who", prompt="hi").choices[0].text == "hi"
            with pytest.raises(openai.NotFoundError, match="'who-secret' does not exist"):
                client.completions.create(model="who-secret", prompt="hi")
        refused = pytest.raises(openai.AuthenticationError)
        with openai.OpenAI(base_url=f"{server.http_url}/v1", api_key="x" * 30, max_retries=0) as client, refused:
            client.models.list()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[[key]]\nname = 'a'\nsha256 = 'x'\n", "keys_file: keys.toml:3: 'sha256' has 64 hexadecimal digits"),
        (entry("a", KEY, "scopes = ['infer']"), "keys_file: keys.toml:4: scope 'infer' is not known; did you mean"),
        (None, "keys_file: '.*keys.toml' cannot be read: No such file"),
    ],
)
def test_problems_end_the_start(tmp_path: Path, text: str | None, problem: str) -> None:
    path = tmp_path / "keys.toml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ConfigError, match=problem):
        Server(who, keys_file=str(path), http="127.0.0.1:0", grpc="off").start()


def penstock(*arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "penstock", *arguments]
    return subprocess.run(command, input=given, capture_output=True, text=True, timeout=60, check=False)


def test_command_adds_lists_and_revokes_keys(tmp_path: Path) -> None:
    path = tmp_path / "keys.toml"
    options = ["--scope", "*", "--model", "who*", "--expires", "2099-01-31", "--rate", "100/s", "--concurrency", "8"]
    added = penstock("keys", "add", "a", "--file", str(path), *options)
    assert added.returncode == 0, added.stderr
    key = added.stdout.strip()
    assert key.startswith("psk_")
    assert len(key) == 47
    assert key not in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o600
    path.write_text("# Keys of a test.\n" + path.read_text() + "# About the next.\n")
    chosen = penstock("keys", "add", "b", "--file", str(path), "--stdin", given="k" * 24 + "\n")
    assert (chosen.returncode, chosen.stdout) == (0, "penstock: added b\n")
    assert penstock("keys", "list", "--file", str(path)).stdout.splitlines() == [
        "a  scopes *  models who*  rate 100/s  concurrency 8  expires 2099-01-31",
        "b  scopes health,metadata,inference  models *",
    ]
    with Server(who, keys_file=str(path), http="127.0.0.1:0", grpc="off") as server:
        assert json.loads(ask(server, key).json())[0] == "a"
        assert json.loads(ask(server, "k" * 24).json())[0] == "b"
    assert penstock("keys", "revoke", "a", "--file", str(path)).stdout == "penstock: revoked a\n"
    assert path.read_text().startswith("# Keys of a test.\n# About the next.\n")
    assert penstock("keys", "check", "--file", str(path)).stdout == f"penstock: {path} has 1 keys, and no problem\n"


@pytest.mark.parametrize(
    ("arguments", "given", "status", "problem"),
    [
        (["add", "a", "--stdin"], "short", 1, "--stdin: the key has 5 characters, at least 24 are needed"),
        (["add", "a", "--stdin"], "k" * 24 + " \n", 1, "printable ASCII text without spaces around it"),
        (
            ["add", "a", "--scope", "infer"],
            "",
            1,
            "keys.toml:10: scope 'infer' is not known; did you mean 'inference'?",
        ),
        (["add", "taken"], "", 1, "two keys have the name 'taken'"),
        (["add", "a b"], "", 1, "a key's name has 1 to 128 letters"),
        (["add", "a", "--expires", "soon"], "", 2, "'soon' is not a date such as 2027-01-31"),
        (["add", "a", "--rate", "100"], "", 1, "rate '100' is not a number of requests in a time, such as 100/s"),
        (["add", "a", "--burst", "3"], "", 1, "'burst' has no meaning without 'rate'"),
        (["revoke", "nobody"], "", 1, "no key has the name 'nobody'"),
        ([], "", 2, "VERB"),
    ],
)
def test_command_refuses_and_changes_nothing(
    tmp_path: Path, arguments: list[str], given: str, status: int, problem: str
) -> None:
    path = tmp_path / "keys.toml"
    path.write_text(entry("taken", KEY) + "\n")
    before = path.read_bytes()
    ran = penstock("keys", *arguments, *(["--file", str(path)] if arguments else []), given=given)
    assert (ran.returncode, problem in ran.stderr) == (status, True), ran.stderr
    assert path.read_bytes() == before
    assert [child.name for child in tmp_path.iterdir()] == ["keys.toml"]


def test_open_file_and_refused_clients_are_logged(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "keys.toml"
    path.write_text(FILE)
    path.chmod(0o644)
    with Server(who, keys_file=str(path), http="127.0.0.1:0", grpc="off") as server:
        get(server, "/v2", "nobody")
        get(server, "/v2", "nobody")
    logged = capfd.readouterr().err
    assert "has the mode 0644, expected 0600 or 0640" in logged
    assert logged.count("refused a client, 127.0.0.1: this key is not known") == 1
    assert "nobody" not in logged


def test_responses_are_cached_for_each_client(keys: str) -> None:
    from penstock import Cache

    with Server(who.with_options(cache=Cache()), keys_file=keys, http="127.0.0.1:0", grpc="off") as server:
        names = [json.loads(ask(server, key).json())[0] for key in (KEY, ADMIN, KEY, ADMIN)]
        assert names == ["batch-team", "admin"] * 2
        assert "penstock_cache_hits_total" in get(server, "/metrics", ADMIN).text


def test_rates_and_concurrency_are_limited(tmp_path: Path) -> None:
    gate = threading.Event()
    held = threading.Semaphore(0)

    @model
    def wait(x: float) -> float:
        held.release()
        assert gate.wait(60)
        return x

    path = tmp_path / "keys.toml"
    path.write_text(
        entry("slow", KEY, "rate = '2/h'")
        + entry("few", OTHER, "scopes = ['inference']\nconcurrency = 1")
        + "[anonymous]\nscopes = ['inference', 'metrics']\nrate = '1/h'\n"
    )
    models = [who, wait.with_options(instances=2)]
    with Server(*models, keys_file=str(path), http="127.0.0.1:0", grpc="127.0.0.1:0") as server:
        # A rate by the hour has a burst of one request.
        assert ask(server, KEY).status_code == 200
        refused = ask(server, KEY)
        assert refused.status_code == 429
        assert 1700 < int(refused.headers["retry-after"]) <= 1800
        assert refused.json()["error"].startswith("key 'slow' may send 2/h requests, retry in 17")
        # The rate is of inference.
        assert get(server, "/v2/models/who", KEY).status_code == 200
        with grpc.insecure_channel(server.grpc_url) as channel:
            call = service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelInfer
            with pytest.raises(grpc.RpcError) as error:
                call(pb.ModelInferRequest(model_name="who"), metadata=(("x-api-key", KEY),), timeout=20)
        assert error.value.code().name == "RESOURCE_EXHAUSTED"
        server.reload_files()
        assert ask(server, KEY).status_code == 429
        with ThreadPoolExecutor() as pool:
            first = pool.submit(ask, server, OTHER, "wait")
            assert held.acquire(timeout=60)
            second = ask(server, OTHER, "wait")
            assert (second.status_code, second.headers["retry-after"]) == (429, "1")
            assert second.json()["error"] == "key 'few' may have 1 requests at once, retry in 1.000 s"
            gate.set()
            assert first.result().status_code == 200
        assert ask(server, OTHER, "wait").status_code == 200
        url = f"{server.http_url}/models/who"
        statuses = [httpx.post(url, json={"x": 1.0}).status_code for _ in range(2)]
        assert statuses == [200, 429]
        assert 'penstock_denied_total{reason="rate"} ' in get(server, "/metrics").text


def test_changed_rate_is_unused_at_first(tmp_path: Path) -> None:
    path = tmp_path / "keys.toml"
    path.write_text(entry("a", KEY, "rate = '1/h'"))
    with Server(who, keys_file=str(path), http="127.0.0.1:0", grpc="off") as server:
        assert [ask(server, KEY).status_code for _ in range(2)] == [200, 429]
        path.write_text(entry("a", KEY, "rate = '1/h'") + entry("b", OTHER))
        server.reload_files()
        assert ask(server, KEY).status_code == 429
        path.write_text(entry("a", KEY, "rate = '2/h'"))
        server.reload_files()
        assert ask(server, KEY).status_code == 200
