"""Penstock: chats of tokens at a pace, on one event loop."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from typing import Any

from penstock import model, openai, serve


@model(max_concurrency=4096, max_queue=4096)
async def paced(messages: list[dict[str, Any]]) -> AsyncIterator[str]:
    count, pause = json.loads(messages[-1]["content"])
    for _ in range(count):
        yield " word"
        await asyncio.sleep(pause)


if __name__ == "__main__":
    serve(paced, openai.routes(openai.Chat(paced)), http=f"127.0.0.1:{sys.argv[1]}", grpc=None)
