"""OpenAI models on a `ModelServer`: with other models, with engines, loaded and unloaded (R8)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from kserve_live import Double, live
from openai import OpenAI

from penstock.compat.kserve import ModelRepository
from penstock.compat.kserve.protocol.rest.openai import OpenAIModel
from penstock.compat.kserve.protocol.rest.openai.types import Completion, CompletionChoice
from waiting import PATIENCE, until


class Shout(OpenAIModel):
    """Returns the prompt in capitals."""

    async def create_completion(self, request: Any, raw_request: Any = None, context: Any = None) -> Any:
        return completion(request, request.prompt.upper())


class Engine(OpenAIModel):
    """A model whose engine computes its requests."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.engine = True
        self.queue: asyncio.Queue[Any]
        self.ended = False

    async def start_engine(self) -> None:
        self.queue = asyncio.Queue()
        try:
            while True:
                prompt, result = await self.queue.get()
                result.set_result(prompt.upper())
        finally:
            self.ended = True

    async def create_completion(self, request: Any, raw_request: Any = None, context: Any = None) -> Any:
        # A future of this loop: no other loop could set it.
        result = asyncio.get_running_loop().create_future()
        await self.queue.put((request.prompt, result))
        return completion(request, await result)


def completion(request: Any, text: str) -> Completion:
    return Completion(model=request.model, choices=[CompletionChoice(index=0, text=text)])


def complete(server: Any, model: str) -> str:
    with OpenAI(base_url=f"{server.url}/openai/v1", api_key="-", max_retries=0, timeout=PATIENCE) as client:
        return client.completions.create(model=model, prompt="hi").choices[0].text


def test_r8_openai_and_other_models_serve_together() -> None:
    with live(Double("m"), Shout("o")) as server:
        assert complete(server, "o") == "HI"
        assert server.predict("m", 1) == (200, {"predictions": [2]})
        status, body = server.get("/v1/models")
        assert (status, sorted(body["models"])) == (200, ["m", "o"])
        assert server.get("/v1/models/o") == (200, {"name": "o", "ready": True})
        assert [one["id"] for one in server.get("/openai/v1/models")[1]["data"]] == ["o"]
        assert server.predict("o", 1)[0] == 500


def test_r8_no_routes_without_an_openai_model() -> None:
    with live(Double("m")) as server:
        assert server.get("/openai/v1/models")[0] == 404


def test_r8_engines_share_the_request_loop_and_end_with_the_server() -> None:
    model = Engine("e")
    with live(model, Shout("o")) as server:
        assert [complete(server, "e"), complete(server, "o"), complete(server, "e")] == ["HI"] * 3
        assert not model.ended
    assert model.ended


@pytest.mark.parametrize("engine", [False, True])
def test_r8_models_with_engines_are_loaded_and_unloaded(engine: bool) -> None:
    repository = ModelRepository()
    with live(Engine("e") if engine else Shout("e"), Double("m"), registered_models=repository) as server:
        repository.update(Shout("late"))
        until(lambda: server.get("/v1/models/late")[0] == 200)
        listed = [one["id"] for one in server.get("/openai/v1/models")[1]["data"]]
        assert listed == ["e", "late"]
        assert complete(server, "e") == "HI"
