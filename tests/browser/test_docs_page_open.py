"""The page at /docs for raw-request models."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from penstock import Request, Response, Server, Tensor, model

from .conftest import Browse


@model
def undeclared(request: Request) -> Response:
    """Accepts any tensors."""
    return Response(outputs=request.tensors)


@model(
    inputs=[Tensor("text", str, [1])],
    outputs=[Tensor("score", np.float32, [-1])],
    routes=["POST /score"],
)
def declared(request: Request) -> Response:
    """Declares its tensors."""
    return Response(outputs={"score": np.ones(2, np.float32)})


@model(name=":front", routes=["GET /v1/about"])
def front(request: Request) -> Response:
    """Serves a route that no listed model has."""
    return Response("about")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(undeclared, declared, front, http="127.0.0.1:0", grpc=None) as server:
        yield server


def test_declared_tensors_and_routes_are_shown(browse: Browse, server: Server) -> None:
    page = browse(server)
    page.open()
    rows = [[cell.text for cell in row.find_elements("css selector", "td")] for row in page.all("main tbody tr")]
    assert [row[2:] for row in rows] == [["text BYTES [1]\nPOST /score", "score FP32 [-1]"], ["any", "any"]]
    page.open("#declared/1")
    assert "Inputs" in page.texts("h2")
    assert page.texts("td.name") == ["text", "score"]
    page.open("#undeclared/1")
    assert page.texts("h2") == ["Routes of its own"]


def test_unlisted_model_is_shown_only_by_its_routes(browse: Browse, server: Server) -> None:
    page = browse(server)
    page.open()
    assert page.texts(".facts") == ["2 models. -1 is an axis of any size."]
    assert not [text for text in page.texts("#side li") if "front" in text]
    page.open("#routes")
    assert "/v1/about" in page.texts("td.mono"), "its routes are listed"
