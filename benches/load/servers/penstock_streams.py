"""Penstock: a generator for each stream, on threads or on one event loop, and one generator for all of them.

`words` is a generator of texts, which OpenAI's routes serve too.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np

from penstock import Batching, Tensor, Threads, model, openai, serve

N = [Tensor("n", np.int32, [1])]
TOKEN = [Tensor("i", np.int32, [1])]
NUMBER = [Tensor("i", np.int32, [])]


@model(inputs=N, outputs=NUMBER, instances=Threads(64))
def tokens(n):
    yield from range(n[0])


@model(inputs=N, outputs=NUMBER)
async def looped(n):
    for i in range(n[0]):
        yield i


@model(inputs=N, outputs=TOKEN, batching=Batching(max_size=64, max_delay=0.02))
def batched(n):
    for i in range(n[0, 0]):
        yield np.full((len(n), 1), i, np.int32)


@model(instances=Threads(64))
def words(prompt: str) -> Iterator[str]:
    for _ in range(int(prompt)):
        yield " word"


def last_content(messages: list[dict[str, str]]) -> str:
    """The prompt of a chat."""
    return messages[-1]["content"]


if __name__ == "__main__":
    routes = openai.routes(openai.Completions(words), openai.Chat(words, last_content))
    serve(tokens, looped, batched, words, routes, http=f"127.0.0.1:{sys.argv[1]}", grpc=f"127.0.0.1:{sys.argv[2]}")
