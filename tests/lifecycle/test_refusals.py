"""Refusals before the body is read, which reach clients that send head and body separately."""

from __future__ import annotations

import http.client
import time
from contextlib import closing
from typing import Any

import numpy as np
import pytest

from penstock import Server, Tensor, model


@model(inputs=[Tensor("x", np.float32, [-1])], outputs=[Tensor("y", np.float32, [-1])])
def same(x: Any) -> Any:
    return x


def connected(server: Server) -> closing[http.client.HTTPConnection]:
    return closing(http.client.HTTPConnection((server.http_url or "").removeprefix("http://"), timeout=20))


@pytest.mark.parametrize("path", ["/v2/models/no/infer", "/v2/models/no/generate", "/v1/models/no:predict"])
def test_refusal_reaches_a_client_that_sends_its_body_later(path: str) -> None:
    with Server(same, http="127.0.0.1:0", grpc=None) as server, connected(server) as connection:
        connection.putrequest("POST", path)
        connection.putheader("Content-Length", "2000")
        connection.endheaders()
        time.sleep(0.1)
        connection.send(b" " * 1000)
        time.sleep(0.05)
        connection.send(b" " * 1000)
        response = connection.getresponse()
        assert response.status == 404
        assert b"unknown model 'no'" in response.read()
        # The connection stays usable.
        connection.request("GET", "/v2/health/live")
        assert connection.getresponse().status == 200


def test_refusal_does_not_wait_for_the_body() -> None:
    with Server(same, http="127.0.0.1:0", grpc=None) as server, connected(server) as connection:
        connection.putrequest("POST", "/v2/models/no/infer")
        connection.putheader("Content-Length", "2000")
        connection.endheaders()
        assert connection.getresponse().status == 404
