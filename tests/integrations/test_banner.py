"""Banner of `penstock serve`: the table of models, and example requests of integrations."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import toy_integration

from penstock import Model, Request, Response, Server, Tensor, model, openai
from penstock._serve.banner import _row, describe
from penstock.integrations._table import INTEGRATIONS
from penstock.integrations._targets import Loader

PORTS = {"http": "127.0.0.1:0", "grpc": None}


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setitem(INTEGRATIONS, "toy", "toy_integration")
    (tmp_path / "toy.txt").write_text("3")
    return tmp_path


def example_requests(loader: Loader, models: list[Any], **settings: Any) -> list[str]:
    with Server(*models, **{**PORTS, **settings}) as server:
        text = describe(server, models, loader.greetings)
        return [line.replace(server.http_url, "URL") for line in text.splitlines() if line.startswith(("try", "  "))]


def test_example_requests_of_an_integration_are_shown(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def greeting(models: list[Model[..., Any]], url: str) -> list[str]:
        return [f"curl {url}/of/{one.name} \\\n  -d 1" for one in models]

    monkeypatch.setattr(toy_integration, "greeting", greeting, raising=False)
    loader = Loader()
    models = loader.load(str(toy))
    # Only for models of the integration, not for another model of the server.
    other = model(toy_integration.detect, name="other", inputs=[Tensor("path", np.int32, [1])], outputs=[])
    assert example_requests(loader, [other, *models]) == ["try   curl URL/of/toy \\", "  -d 1"]


@pytest.mark.parametrize("greeting", [lambda models, url: [], lambda models, url: 1 / 0])
def test_default_example_request_without_a_greeting(
    toy: Path, greeting: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(toy_integration, "greeting", greeting, raising=False)
    loader = Loader()
    (line,) = example_requests(loader, loader.load(str(toy)))
    assert line.startswith("try   curl -s URL/v2/models/toy/infer ")
    assert caplog.messages in ([], ["the integration toy has no example requests"])


def test_unix_sockets_get_the_default_example_request(
    toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(toy_integration, "greeting", lambda models, url: [f"curl {url}"], raising=False)
    loader = Loader()
    (line,) = example_requests(loader, loader.load(str(toy)), http=f"unix:{tmp_path}/s")
    assert line.startswith("try   curl -s --unix-socket ")


def test_table_shows_the_first_routes_and_counts_the_rest() -> None:
    def many(request: Request) -> Response:
        return Response(body=b"")

    routes = [f"GET /many/{number}" for number in range(12)]
    definition = model(many, name="many", routes=routes).bare_definition()
    assert _row(definition)[2] == "any, GET /many/0, GET /many/1, GET /many/2, and 9 more"
    long = model(many, name="many", routes=[f"GET /{'long' * 30}/{number}" for number in range(2)])
    assert _row(long.bare_definition())[2] == f"any, GET /{'long' * 30}/0, and 1 more"
    # Declared tensors of a raw-request model are shown.
    declared = replace(definition, inputs=(Tensor("x", np.float32, [-1]),), outputs=(Tensor("y", np.int64, [2]),))
    assert _row(declared)[2:4] == ("x FP32 [-1], GET /many/0, GET /many/1, GET /many/2, and 9 more", "y INT64 [2]")


def test_hidden_models_are_not_in_the_table() -> None:
    @model(name=":front", routes=["GET /about"])
    def front(request: Request) -> Response:
        return Response("about")

    with Server(front, http="127.0.0.1:0", grpc=None) as server:
        assert "front" not in describe(server, [front]).partition("\nhttp ")[0]


@model
def complete(prompt: str) -> Iterator[str]:
    yield prompt.upper()


@model
def embed(text: str) -> list[float]:
    return [float(len(text)), 1.0]


@pytest.mark.parametrize(
    ("served", "kind"),
    [
        (openai.Chat(complete, lambda messages: messages[-1]["content"]), "chat.completion"),
        (openai.Completions(complete, name="writer"), "text_completion"),
        (openai.Embeddings(embed), "list"),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_example_request_to_openai_routes_succeeds(served: Any, kind: str) -> None:
    models = [complete, embed, openai.routes(served)]
    with Server(*models, **PORTS) as server:
        lines = describe(server, models).splitlines()
        [line] = [line.removeprefix("try   ") for line in lines if f"{server.http_url}/v1/" in line]
        done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, timeout=30, check=True)
    assert json.loads(done.stdout)["object"] == kind, done.stdout


def test_first_three_models_have_an_example_request() -> None:
    def front(request: Request) -> Response:
        return Response("front")

    def named(name: str, version: int = 1) -> Model[..., Any]:
        return model(embed.__wrapped__, name=name, version=version)

    hidden = model(front, name=":front", routes=["GET /front"])
    models = [hidden, named("a"), named("a", 2), named("b"), named("c"), named("d")]
    lines = example_requests(Loader(), models)
    requests = [line for line in lines if line.startswith("try")]
    assert [line.split()[3] for line in requests] == ["URL/models/a/versions/1", "URL/models/b", "URL/models/c"]
