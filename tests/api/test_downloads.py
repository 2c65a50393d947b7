"""Downloads: redirects, credentials across origins, TLS, and size limits."""

from __future__ import annotations

import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import trustme

from penstock.compat import inferless
from penstock.compat.openinference._sdk import http_client
from penstock.integrations.archives import Bounds
from penstock.integrations.downloads import opened, saved

SECRETS = {"Authorization": "Bearer s", "Cookie": "c=s", "X-Key": "s"}


class Site:
    """A server that redirects configured paths and serves JSON at all others."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.redirects: dict[str, str] = {}
        self.requests: list[tuple[str, dict[str, str]]] = []

    @property
    def had_secrets(self) -> list[bool]:
        """For each request, true if it carried one of the secrets."""
        return [bool({name.title() for name in headers} & SECRETS.keys()) for _, headers in self.requests]


@contextmanager
def site(tls: ssl.SSLContext | None = None) -> Iterator[Site]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            site_state.requests.append((self.path, dict(self.headers.items())))
            location = site_state.redirects.get(self.path)
            self.send_response(200 if location is None else 302)
            if location is not None:
                self.send_header("Location", location)
            body = b'{"a": 1}' if location is None else b""
            # /short declares more bytes than it sends.
            self.send_header("Content-Length", str(len(body) + 100 * (self.path == "/short")))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    site_state = Site(f"{'http' if tls is None else 'https'}://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield site_state
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def plain() -> Iterator[Site]:
    with site() as site_state:
        yield site_state


@pytest.fixture
def other() -> Iterator[Site]:
    with site() as site_state:
        yield site_state


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def secure(authority: trustme.CA) -> Iterator[Site]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    with site(context) as site_state:
        yield site_state


@pytest.fixture
def get(authority: trustme.CA) -> Callable[[str], bytes]:
    """A function that sends the secrets and trusts the test authority."""
    context = ssl.create_default_context()
    authority.configure_trust(context)

    def get(url: str) -> bytes:
        request = urllib.request.Request(url, headers=SECRETS)
        with opened(request, 10, urllib.request.HTTPSHandler(context=context)) as response:
            body: bytes = response.read()
            return body

    return get


def test_secrets_follow_a_redirect_within_their_origin(plain: Site, get: Callable[[str], bytes]) -> None:
    plain.redirects = {"/a": "/b", "/b": f"{plain.url}/c"}
    assert get(f"{plain.url}/a") == b'{"a": 1}'
    assert plain.had_secrets == [True, True, True]


def test_secrets_are_not_sent_to_another_port(plain: Site, other: Site, get: Callable[[str], bytes]) -> None:
    plain.redirects, other.redirects = {"/a": f"{other.url}/b"}, {"/b": f"{plain.url}/c"}
    assert get(f"{plain.url}/a") == b'{"a": 1}'
    # They are not restored on the way back: the foreign origin chose that URL.
    assert (plain.had_secrets, other.had_secrets) == ([True, False], [False])


def test_secrets_are_not_sent_to_another_scheme(plain: Site, secure: Site, get: Callable[[str], bytes]) -> None:
    plain.redirects = {"/a": f"{secure.url}/b"}
    assert get(f"{plain.url}/a") == b'{"a": 1}'
    assert (plain.had_secrets, secure.had_secrets) == ([True], [False])


def test_https_to_http_redirect_is_rejected(plain: Site, secure: Site, get: Callable[[str], bytes]) -> None:
    secure.redirects = {"/a": "/b", "/b": f"{plain.url}/c"}
    with pytest.raises(urllib.error.URLError, match="a redirect from https to http is not followed"):
        get(f"{secure.url}/a")
    assert (secure.had_secrets, plain.requests) == ([True, True], [])


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("ftp://127.0.0.1:1/a", "a redirect from http to ftp is not followed"),
        ("file:///etc/passwd", "not allowed"),
        ("http://127.0.0.1:99999/a", "a redirect to an invalid address"),
    ],
)
def test_unsupported_redirects_are_rejected(
    plain: Site, get: Callable[[str], bytes], target: str, message: str
) -> None:
    plain.redirects = {"/a": target}
    with pytest.raises(urllib.error.URLError, match=message):
        get(f"{plain.url}/a")


def test_redirect_chain_is_bounded(plain: Site, get: Callable[[str], bytes]) -> None:
    plain.redirects = {f"/{number}": f"/{number + 1}" for number in range(11)}
    with pytest.raises(urllib.error.HTTPError, match="redirect"):
        get(f"{plain.url}/0")
    assert len(plain.requests) == 11
    assert get(f"{plain.url}/1") == b'{"a": 1}'


def send_with_http_client(url: str) -> Any:
    return http_client.send_request("POST", url, json={}, headers=SECRETS).json()


def call_inferless(url: str) -> Any:
    return inferless.call(url, "s", inputs={})


@pytest.mark.parametrize("call", [send_with_http_client, call_inferless])
def test_integration_clients_drop_secrets_across_origins(plain: Site, other: Site, call: Callable[[str], Any]) -> None:
    plain.redirects = {"/a": f"{other.url}/b"}
    assert call(f"{plain.url}/a") == {"a": 1}
    assert (plain.had_secrets, other.had_secrets) == ([True], [False])


def test_oversize_or_truncated_download_leaves_no_file(plain: Site, tmp_path: Path) -> None:
    for path, max_bytes, message in [
        ("/a", 7, "the source holds more than 7 bytes: PENSTOCK_STORAGE_MAX_BYTES allows more"),
        ("/short", 8, "the response ended 100 bytes early"),
    ]:
        with opened(plain.url + path, 10) as response, pytest.raises(RuntimeError, match=message):
            saved(response, tmp_path / "a", Bounds(most=max_bytes, what="the source"))
        assert list(tmp_path.iterdir()) == []
    with opened(f"{plain.url}/a", 10) as response:
        saved(response, tmp_path / "a", Bounds(most=8))
    assert (tmp_path / "a").read_bytes() == b'{"a": 1}'
