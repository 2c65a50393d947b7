"""Unlisted models, which serve routes but appear in no list."""

from __future__ import annotations

import numpy as np
import pytest

from http_by_hand import get, infer, post
from penstock import Model, Request, Response, Server, SignatureError, Tensor, model

PORTS = {"http": "127.0.0.1:0", "grpc": None}


@model(name=":probe", routes=["GET /probe"])
def probe(request: Request) -> Response:
    return Response(b"here", status=200)


@model(name="double", inputs=[Tensor("x", np.float32, [1])], outputs=[Tensor("y", np.float32, [1])])
def double(x: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
    return x * 2


@pytest.mark.parametrize("added", [False, True], ids=["given", "added"])
def test_unlisted_model_answers_but_is_not_listed(*, added: bool) -> None:
    models: list[Model[..., object]] = [double] if added else [double, probe]
    with Server(*models, **PORTS) as server:
        if added:
            server.add(probe)
        url = server.http_url
        assert get(url, "/probe").body == b"here"
        assert get(url, "/v2/models").json() == get(url, "/v1/models").json() == {"models": ["double"]}
        assert [one["name"] for one in post(url, "/v2/repository/index", b"{}").json()] == ["double"]
        assert infer(url, "double", {"x": np.ones(1, np.float32)}).status == 200
        server.add(probe, replace=True)
        server.remove(":probe")
        assert get(url, "/probe").status == 404


def test_only_models_with_routes_may_be_unlisted() -> None:
    with pytest.raises(SignatureError, match=r"^model: name ':double' must be 1 to 128 characters"):
        double.with_options(name=":double")
    with pytest.raises(SignatureError, match=r"^model: name ':' must be|^model: name '' must be"):
        probe.with_options(name=":")
