"""OpenAI's routes of a `ModelServer`, present while it has an OpenAI model (R8)."""

from __future__ import annotations

import asyncio
from typing import Any

from kserve_live import Double, Live, live

from penstock.compat.kserve.protocol.rest.openai import OpenAIEncoderModel, OpenAIGenerativeModel
from penstock.compat.kserve.protocol.rest.openai.types import Completion, CompletionChoice
from waiting import until

loops: dict[str, Any] = {}


class WritesName(OpenAIGenerativeModel):
    """Returns its name."""

    def __init__(self, name: str, *, engine: bool = False) -> None:
        super().__init__(name)
        self.engine = engine
        self.ready = not engine

    async def create_completion(self, request: Any, raw_request: Any = None, context: Any = None) -> Any:
        loops[self.name] = asyncio.get_running_loop()
        choice = CompletionChoice(index=0, text=self.name, finish_reason="stop")
        return Completion(id="i", created=5, model=self.name, choices=[choice])

    async def create_chat_completion(self, request: Any, raw_request: Any = None, context: Any = None) -> Any:
        raise NotImplementedError

    async def start_engine(self) -> None:
        loops[f"engine of {self.name}"] = asyncio.get_running_loop()
        self.ready = True
        try:
            await asyncio.Event().wait()
        finally:
            loops[f"end of {self.name}"] = True


def complete(server: Live, name: str) -> tuple[int, Any]:
    status, body = server.post("/openai/v1/completions", {"model": name, "prompt": "p"})
    return status, body["choices"][0]["text"] if status == 200 else body


def test_r8_openai_routes_exist_while_openai_models_are_registered() -> None:
    with live(Double()) as server:
        assert server.get("/openai/v1/models")[0] == 404
        server.server.register_model(WritesName("a"))
        server.server.register_model(WritesName("b"))
        assert [complete(server, name) for name in "ab"] == [(200, "a"), (200, "b")]
        assert server.get("/v1/models") == (200, {"models": ["m", "a", "b"]})
        assert [one["id"] for one in server.get("/openai/v1/models")[1]["data"]] == ["a", "b"]
        assert server.get("/v1/models/a") == (200, {"name": "a", "ready": True})
        assert server.predict("a") == (
            500,
            {"error": "ValueError : Model of type WritesName does not support inference"},
        )
        server.server.registered_models.unload("a")
        assert complete(server, "a")[0] == 404
        assert complete(server, "b") == (200, "b")
        server.server.registered_models.unload("b")
        assert server.get("/openai/v1/models")[0] == 404
        assert server.predict()[0] == 200
        server.server.register_model(WritesName("c"))
        assert complete(server, "c") == (200, "c")


def test_r8_engines_run_on_the_loop_of_the_routes() -> None:
    loops.clear()
    with live(WritesName("a", engine=True)) as server:
        until(lambda: complete(server, "a") == (200, "a"))
        server.server.register_model(WritesName("b", engine=True))
        until(lambda: complete(server, "b") == (200, "b"))
        assert len({id(loops[name]) for name in ("a", "b", "engine of a", "engine of b")}) == 1
        assert "end of a" not in loops
    assert loops["end of a"]
    assert loops["end of b"]


def test_r8_encoder_routes_coexist_with_tensor_models() -> None:
    class Encoder(OpenAIEncoderModel):
        async def create_embedding(self, request: Any, raw_request: Any = None, context: Any = None) -> Any:
            return {"object": "list", "data": [], "model": "e", "usage": {"prompt_tokens": 0, "total_tokens": 0}}

        async def create_rerank(self, request: Any, raw_request: Any = None, context: Any = None) -> Any:
            raise NotImplementedError

    model = Encoder("e")
    model.ready = True
    with live(model, Double()) as server:
        assert server.post("/openai/v1/embeddings", {"model": "e", "input": "text"})[0] == 200
        assert server.predict()[0] == 200
