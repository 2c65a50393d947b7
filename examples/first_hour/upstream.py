# A handler that awaits another HTTP service: one event loop waits for up to 64 responses at once.

import os

import httpx

from penstock import model

service = httpx.AsyncClient(base_url=os.environ.get("UPSTREAM", "http://127.0.0.1:9000"))


@model(max_concurrency=64)
async def words(path: str = "/") -> int:
    """Counts the words of a page of the service."""
    page = await service.get(path)
    return len(page.raise_for_status().text.split())
