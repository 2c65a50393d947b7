"""Downloads: redirects and the headers that go with them, with and without TLS; how much is taken."""

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
    """A server that redirects where it is told, and else answers with JSON."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.to: dict[str, str] = {}
        self.seen: list[tuple[str, dict[str, str]]] = []

    @property
    def shown(self) -> list[bool]:
        """Of each request, whether it had any of the secrets."""
        return [bool({name.title() for name in headers} & SECRETS.keys()) for _, headers in self.seen]


@contextmanager
def site(tls: ssl.SSLContext | None = None) -> Iterator[Site]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            one.seen.append((self.path, dict(self.headers.items())))
            to = one.to.get(self.path)
            self.send_response(200 if to is None else 302)
            if to is not None:
                self.send_header("Location", to)
            body = b'{"a": 1}' if to is None else b""
            # Says more than it has, where it is asked for that.
            self.send_header("Content-Length", str(len(body) + 100 * (self.path == "/short")))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    one = Site(f"{'http' if tls is None else 'https'}://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield one
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def plain() -> Iterator[Site]:
    with site() as one:
        yield one


@pytest.fixture
def other() -> Iterator[Site]:
    with site() as one:
        yield one


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def secure(authority: trustme.CA) -> Iterator[Site]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    with site(context) as one:
        yield one


@pytest.fixture
def get(authority: trustme.CA) -> Callable[[str], bytes]:
    """Asks with the secrets, and trusts the authority."""
    context = ssl.create_default_context()
    authority.configure_trust(context)

    def get(url: str) -> bytes:
        request = urllib.request.Request(url, headers=SECRETS)
        with opened(request, 10, urllib.request.HTTPSHandler(context=context)) as answer:
            body: bytes = answer.read()
            return body

    return get


def test_secrets_go_with_a_redirect_to_their_own_origin(plain: Site, get: Callable[[str], bytes]) -> None:
    plain.to = {"/a": "/b", "/b": f"{plain.url}/c"}
    assert get(f"{plain.url}/a") == b'{"a": 1}'
    assert plain.shown == [True, True, True]


def test_secrets_go_to_no_other_port(plain: Site, other: Site, get: Callable[[str], bytes]) -> None:
    plain.to, other.to = {"/a": f"{other.url}/b"}, {"/b": f"{plain.url}/c"}
    assert get(f"{plain.url}/a") == b'{"a": 1}'
    # They do not come back either: who redirects says what is asked.
    assert (plain.shown, other.shown) == ([True, False], [False])


def test_secrets_go_to_no_other_scheme(plain: Site, secure: Site, get: Callable[[str], bytes]) -> None:
    plain.to = {"/a": f"{secure.url}/b"}
    assert get(f"{plain.url}/a") == b'{"a": 1}'
    assert (plain.shown, secure.shown) == ([True], [False])


def test_https_is_not_left_for_http(plain: Site, secure: Site, get: Callable[[str], bytes]) -> None:
    secure.to = {"/a": "/b", "/b": f"{plain.url}/c"}
    with pytest.raises(urllib.error.URLError, match="a redirect from https to http is not followed"):
        get(f"{secure.url}/a")
    assert (secure.shown, plain.seen) == ([True, True], [])


@pytest.mark.parametrize(
    ("to", "why"),
    [
        ("ftp://127.0.0.1:1/a", "a redirect from http to ftp is not followed"),
        ("file:///etc/passwd", "not allowed"),
        ("http://127.0.0.1:99999/a", "a redirect to an invalid address"),
    ],
)
def test_other_redirects_are_not_followed(plain: Site, get: Callable[[str], bytes], to: str, why: str) -> None:
    plain.to = {"/a": to}
    with pytest.raises(urllib.error.URLError, match=why):
        get(f"{plain.url}/a")


def test_redirects_end(plain: Site, get: Callable[[str], bytes]) -> None:
    plain.to = {f"/{number}": f"/{number + 1}" for number in range(11)}
    with pytest.raises(urllib.error.HTTPError, match="redirect"):
        get(f"{plain.url}/0")
    assert len(plain.seen) == 11
    assert get(f"{plain.url}/1") == b'{"a": 1}'


def ask_a_service(url: str) -> Any:
    return http_client.send_request("POST", url, json={}, headers=SECRETS).json()


def call_an_app(url: str) -> Any:
    return inferless.call(url, "s", inputs={})


@pytest.mark.parametrize("ask", [ask_a_service, call_an_app])
def test_clients_keep_their_secrets_too(plain: Site, other: Site, ask: Callable[[str], Any]) -> None:
    plain.to = {"/a": f"{other.url}/b"}
    assert ask(f"{plain.url}/a") == {"a": 1}
    assert (plain.shown, other.shown) == ([True], [False])


def test_a_download_that_is_too_large_or_too_short_leaves_nothing(plain: Site, tmp_path: Path) -> None:
    for path, most, why in [
        ("/a", 7, "the source holds more than 7 bytes: PENSTOCK_STORAGE_MAX_BYTES allows more"),
        ("/short", 8, "the response ended 100 bytes early"),
    ]:
        with opened(plain.url + path, 10) as answer, pytest.raises(RuntimeError, match=why):
            saved(answer, tmp_path / "a", Bounds(most=most, what="the source"))
        assert list(tmp_path.iterdir()) == []
    with opened(f"{plain.url}/a", 10) as answer:
        saved(answer, tmp_path / "a", Bounds(most=8))
    assert (tmp_path / "a").read_bytes() == b'{"a": 1}'
