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
        return answer(request, request.prompt.upper())


class Engine(OpenAIModel):
    """A model whose engine computes its requests."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.engine = True
        self.asked: asyncio.Queue[Any]
        self.ended = False

    async def start_engine(self) -> None:
        self.asked = asyncio.Queue()
        try:
            while True:
                prompt, told = await self.asked.get()
                told.set_result(prompt.upper())
        finally:
            self.ended = True

    async def create_completion(self, request: Any, raw_request: Any = None, context: Any = None) -> Any:
        # A future of this loop: no other loop could set it.
        told = asyncio.get_running_loop().create_future()
        await self.asked.put((request.prompt, told))
        return answer(request, await told)


def answer(request: Any, text: str) -> Completion:
    return Completion(model=request.model, choices=[CompletionChoice(index=0, text=text)])


def told(server: Any, model: str) -> str:
    with OpenAI(base_url=f"{server.url}/openai/v1", api_key="-", max_retries=0, timeout=PATIENCE) as client:
        return client.completions.create(model=model, prompt="hi").choices[0].text


def test_r8_openai_and_other_models_serve_together() -> None:
    with live(Double("m"), Shout("o")) as server:
        assert told(server, "o") == "HI"
        assert server.predict("m", 1) == (200, {"predictions": [2]})
        status, said = server.get("/v1/models")
        assert (status, sorted(said["models"])) == (200, ["m", "o"])
        assert server.get("/v1/models/o") == (200, {"name": "o", "ready": True})
        assert [one["id"] for one in server.get("/openai/v1/models")[1]["data"]] == ["o"]
        assert server.predict("o", 1)[0] == 500


def test_r8_no_routes_without_an_openai_model() -> None:
    with live(Double("m")) as server:
        assert server.get("/openai/v1/models")[0] == 404


def test_r8_an_engine_runs_on_the_loop_of_its_requests_and_ends_with_the_server() -> None:
    model = Engine("e")
    with live(model, Shout("o")) as server:
        assert [told(server, "e"), told(server, "o"), told(server, "e")] == ["HI"] * 3
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
        assert told(server, "e") == "HI"
