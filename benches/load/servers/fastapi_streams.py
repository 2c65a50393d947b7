"""FastAPI: typical hand-written server-sent events."""

from __future__ import annotations

import sys

import orjson
import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import StreamingResponse

app = FastAPI()


@app.post("/stream")
async def stream(request: Request) -> StreamingResponse:
    count = orjson.loads(await request.body())["n"]

    async def events():
        for i in range(count):
            yield b"data: " + orjson.dumps({"model_name": "tokens", "model_version": "1", "i": i}) + b"\n\n"

    return StreamingResponse(events(), media_type="text/event-stream")


if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="error", access_log=False)
