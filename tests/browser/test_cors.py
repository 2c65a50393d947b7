"""CORS in a real browser: a page of one origin calls a server of another."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import numpy as np
import pytest

from penstock import Server, Tensor, model

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

CALL = """
const [url, body, done] = arguments;
fetch(url, {method: "POST", headers: {"content-type": "application/json"}, body})
  .then(async response => done([response.status, await response.text()]))
  .catch(error => done([0, String(error)]));
"""
BODY = '{"inputs": [{"name": "x", "datatype": "FP32", "shape": [1], "data": [3]}]}'


@model(inputs=[Tensor("x", np.float32, [-1])], outputs=[Tensor("y", np.float32, [-1])])
def same(x: np.ndarray) -> np.ndarray:
    return x


class _Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<title>app</title>")

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def page() -> Iterator[str]:
    """The origin of a page."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Page) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("allowed", [True, False])
def test_page_reads_responses_where_its_origin_is_allowed(browser: Chrome, allowed: bool) -> None:
    with (
        page() as origin,
        Server(
            same,
            http="127.0.0.1:0",
            grpc=None,
            model_control="explicit",
            cors_origins=origin if allowed else "https://app.example",
        ) as server,
    ):
        browser.get(origin)

        def call(path: str, body: str) -> list[object]:
            found: list[object] = browser.execute_async_script(CALL, server.http_url + path, body)
            return found

        status, text = call("/v2/models/same/infer", BODY)
        assert (status, '"data":[3.0]' in str(text)) == ((200, True) if allowed else (0, False))
        # Routes for operators are closed to every page.
        assert call("/v2/repository/index", "{}")[0] == 0
