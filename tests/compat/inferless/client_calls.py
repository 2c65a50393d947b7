"""Calls of the real inferless package; prints the results as JSON. Runs in that package's Python."""

from __future__ import annotations

import json
import sys
from typing import Any

import inferless  # type: ignore[import-not-found,unused-ignore]
from inferless.api import InferlessOpenAIClient  # type: ignore[import-not-found,unused-ignore]

URL, CALL = sys.argv[1:3]
KEY = sys.argv[3] if len(sys.argv) > 3 else None


def call() -> Any:
    return inferless.call(URL, KEY, data={"prompt": "hi", "count": 3, "scale": 0.5, "flag": True, "words": ["a", "b"]})


def call_async() -> Any:
    received: list[Any] = []
    inferless.call_async(
        URL, KEY, data={"prompt": "hi"}, callback=lambda error, response: received.append([str(error), response])
    ).join()
    return received


def fails() -> Any:
    received: list[Any] = []
    inferless.call(
        URL, KEY, data={"other": "hi"}, callback=lambda error, response: received.append([str(error), response])
    )
    return received


def batch() -> Any:
    return inferless.call(URL, KEY, data={"prompt": "hi"}, is_batch=True)


def nothing() -> Any:
    return inferless.call(URL, KEY)


def openai() -> Any:
    client = InferlessOpenAIClient(KEY or "key", URL)
    return client.call_infer([{"role": "user", "content": "hi"}], temperature=0.5, top_k=3, do_sample=True, stop="x")


print(
    json.dumps(
        {"call": call, "call_async": call_async, "fails": fails, "batch": batch, "nothing": nothing, "openai": openai}[
            CALL
        ]()
    )
)
