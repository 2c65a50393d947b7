"""CORS and HSTS: what web pages of other origins may read."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from certificates import Files
from penstock import ConfigError, Server, Tensor, model

APP = "https://app.example"
OTHER = "https://evil.example"
KEY = "psk_" + "a" * 40
BODY = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1], "data": [1]}]}
OF_OPERATORS = [
    ("POST", "/v2/repository/index"),
    ("POST", "/v2/repository/models/same/unload"),
    ("GET", "/v2/logging"),
    ("POST", "/v2/trace/setting"),
    ("GET", "/v2/systemsharedmemory/status"),
    ("GET", "/debug/stacks"),
    ("GET", "/live"),
]


@model(inputs=[Tensor("x", np.float32, [-1])], outputs=[Tensor("y", np.float32, [-1])])
def same(x: Any) -> Any:
    return x


def serving(**settings: Any) -> Server:
    return Server(same, http="127.0.0.1:0", grpc=None, **settings)


def preflight(server: Server, origin: str, method: str = "POST", path: str = "/v2/models/same/infer") -> httpx.Response:
    headers = {
        "Origin": origin,
        "Access-Control-Request-Method": method,
        "Access-Control-Request-Headers": "authorization,content-type",
    }
    return httpx.options(server.http_url + path, headers=headers)


def cors(response: httpx.Response) -> dict[str, str]:
    return {name: value for name, value in response.headers.items() if name.startswith("access-control-")}


def test_listed_origins_may_read_responses() -> None:
    with serving(cors_origins=[APP, "http://LOCALHOST:3000", "https://b.example:443"]) as server:
        asked = preflight(server, APP)
        assert (asked.status_code, asked.content) == (204, b"")
        assert cors(asked) == {
            "access-control-allow-origin": APP,
            "access-control-allow-credentials": "true",
            "access-control-allow-methods": "POST",
            "access-control-allow-headers": "authorization,content-type",
            "access-control-max-age": "600",
        }
        assert asked.headers["vary"] == "origin"
        url = f"{server.http_url}/v2/models/same/infer"
        read = httpx.post(url, json=BODY, headers={"Origin": APP})
        assert read.json()["outputs"][0]["data"] == [1]
        assert read.headers["access-control-allow-origin"] == APP
        assert "retry-after" in read.headers["access-control-expose-headers"]
        for origin in ("http://localhost:3000", "https://b.example"):
            assert preflight(server, origin).headers["access-control-allow-origin"] == origin
        # Errors can be read too, or a page would see nothing of the cause.
        wrong = httpx.post(url, json={}, headers={"Origin": APP})
        assert (wrong.status_code, wrong.headers["access-control-allow-origin"]) == (400, APP)


def test_other_origins_may_not_read_responses() -> None:
    with serving(cors_origins=APP) as server:
        for origin in (
            OTHER,
            "null",
            "http://app.example",
            APP + ":8443",
            APP + ".evil.example",
            "HTTPS://APP.EXAMPLE",
        ):
            refused = preflight(server, origin)
            assert (refused.status_code, cors(refused)) == (403, {})
            assert f"web pages of the origin '{origin}' may not send POST" in refused.json()["error"]
            response = httpx.post(f"{server.http_url}/v2/models/same/infer", json=BODY, headers={"Origin": origin})
            assert (response.status_code, cors(response)) == (200, {})
            # A cache gives the response to pages of one origin only.
            assert response.headers["vary"] == "origin"
        assert cors(httpx.get(f"{server.http_url}/v2")) == {}


@pytest.mark.parametrize(("method", "path"), OF_OPERATORS)
@pytest.mark.parametrize("origins", ["*", APP])
def test_routes_for_operators_are_closed_to_other_origins(method: str, path: str, origins: str) -> None:
    with serving(cors_origins=origins) as server:
        assert (preflight(server, APP, method, path).status_code, cors(preflight(server, APP, method, path))) == (
            403,
            {},
        )
        assert cors(httpx.request(method, server.http_url + path, headers={"Origin": APP})) == {}


def test_any_origin_has_no_credentials() -> None:
    with serving(cors_origins="*") as server:
        asked = preflight(server, OTHER)
        assert (asked.status_code, asked.headers["access-control-allow-origin"]) == (204, "*")
        assert "access-control-allow-credentials" not in asked.headers
        assert "vary" not in asked.headers
        read = httpx.get(f"{server.http_url}/v2/models/same", headers={"Origin": OTHER})
        assert read.headers["access-control-allow-origin"] == "*"


def test_preflight_needs_no_key(tmp_path: Path) -> None:
    keys = tmp_path / "keys.toml"
    keys.write_text(f"[[key]]\nname = 'app'\nsha256 = '{hashlib.sha256(KEY.encode()).hexdigest()}'\n")
    with serving(cors_origins=APP, keys_file=str(keys)) as server:
        assert preflight(server, APP).status_code == 204
        url = f"{server.http_url}/v2/models/same/infer"
        refused = httpx.post(url, json=BODY, headers={"Origin": APP})
        assert (refused.status_code, refused.headers["access-control-allow-origin"]) == (401, APP)
        headers = {"Origin": APP, "Authorization": f"Bearer {KEY}"}
        for _ in range(2):
            assert httpx.post(url, json=BODY, headers=headers).status_code == 200


def test_without_the_setting_nothing_is_added() -> None:
    with serving() as server:
        response = httpx.post(f"{server.http_url}/v2/models/same/infer", json=BODY, headers={"Origin": APP})
        assert (response.status_code, cors(response)) == (200, {})
        assert preflight(server, APP).status_code == 405
        assert "strict-transport-security" not in response.headers


@pytest.mark.parametrize(
    ("origins", "problem"),
    [
        ("example.com", "'example.com' has no scheme, expected an origin such as https://app.example"),
        ("null", "'null' has no scheme, expected an origin such as https://app.example"),
        ("https://a/b", "'https://a/b' is not an origin: expected a scheme, a host and perhaps a port, without a path"),
        ("https://a/", "'https://a/' is not an origin: expected a scheme, a host and perhaps a port, without a path"),
        ("*,https://a", "'*' is any origin, and cannot be listed with others"),
    ],
)
def test_wrong_origins_are_refused(origins: str, problem: str) -> None:
    with pytest.raises(ConfigError) as raised:
        serving(cors_origins=origins)
    assert str(raised.value) == f"cors_origins: {problem}"


def test_hsts_is_sent_over_tls_only(tmp_path: Path) -> None:
    files = Files(tmp_path)
    tls = dict(zip(("tls_certificate", "tls_key"), files.issue("own", "localhost"), strict=True))
    with serving(hsts="8760h", listeners="http=plain:127.0.0.1:0", **tls) as server:
        url = server.http_url.replace("127.0.0.1", "localhost")
        response = httpx.get(f"{url}/v2/health/live", verify=files.context())
        assert response.headers["strict-transport-security"] == "max-age=31536000"
    with serving(hsts="8760h") as server:
        assert "strict-transport-security" not in httpx.get(f"{server.http_url}/v2/health/live").headers
