"""FastAPI: typical hand-written server-sent events, and chat completions with sse-starlette."""

from __future__ import annotations

import sys

import orjson
import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import StreamingResponse
from sse_starlette import EventSourceResponse

app = FastAPI()


@app.post("/stream")
async def stream(request: Request) -> StreamingResponse:
    count = orjson.loads(await request.body())["n"]

    async def events():
        for i in range(count):
            yield b"data: " + orjson.dumps({"model_name": "tokens", "model_version": "1", "i": i}) + b"\n\n"

    return StreamingResponse(events(), media_type="text/event-stream")


@app.post("/v1/chat/completions")
async def chat(request: Request) -> EventSourceResponse:
    body = orjson.loads(await request.body())
    count = int(body["messages"][-1]["content"])

    def chunk(delta: dict[str, str], reason: str | None = None) -> str:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": body["model"]}
        return orjson.dumps({**head, "choices": [choice]}).decode()

    async def events():
        yield chunk({"role": "assistant", "content": ""})
        for _ in range(count):
            yield chunk({"content": " word"})
        yield chunk({}, "stop")
        yield "[DONE]"

    return EventSourceResponse(events(), sep="\n")


if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="error", access_log=False)
