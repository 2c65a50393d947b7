"""Two small models behind OpenAI's API: text embeddings and text completion. They need only numpy.

penstock serve app.py
"""

from __future__ import annotations

import random
import re
import zlib
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from penstock import Batching, Context, Tensor, model, openai

WIDTH = 256
TEXT = """The river turns the wheel and the wheel turns the stone. The miller opens the gate in the morning and the
water runs to the wheel. When the rain comes the river is wide and the miller closes the gate. When the summer comes
the river is low and the wheel stands still. The stone waits for the water and the miller waits for the rain."""


@model(
    name="trigrams",
    inputs=[Tensor("text", str, [1])],
    outputs=[Tensor("vector", np.float32, [WIDTH])],
    batching=Batching(max_size=64),
)
def trigrams(text: np.ndarray) -> np.ndarray:
    """Vectors of length 1, which are close if texts share runs of three letters.

    text: str [batch, 1]; returns FP32 [batch, 256].
    """
    vectors = np.zeros((len(text), WIDTH), np.float32)
    for vector, line in zip(vectors, text[:, 0], strict=True):
        letters = f"  {line.lower()}  "
        for start in range(len(letters) - 2):
            vector[zlib.crc32(letters[start : start + 3].encode()) % WIDTH] += 1
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def followers(text: str) -> dict[str, list[str]]:
    """Words that follow each word, with repetitions."""
    found: dict[str, list[str]] = defaultdict(list)
    for word, following in pairwise(re.findall(r"\w+|\.", text)):
        found[word.lower()].append(following)
    return found


@model(name="miller")
class Miller:
    """Continues a text word by word, like a short story about a mill."""

    def __init__(self) -> None:
        self.followers = followers(TEXT)

    def __call__(self, prompt: str, ctx: Context) -> Iterator[str]:
        """prompt: the text so far. Parameters: `max_tokens` (default 16) and `seed`."""
        chance = random.Random(ctx.parameters.get("seed"))  # noqa: S311 - a story needs no secrets
        words = re.findall(r"\w+|\.", prompt.lower()) or ["."]
        word = words[-1]
        for _ in range(int(ctx.parameters.get("max_tokens", 16))):
            word = chance.choice(self.followers.get(word.lower()) or ["The"])
            yield word if word == "." else f" {word}"


def count_words(text: str) -> int:
    """Number of tokens for `usage`; tokens of these models are words."""
    return len(re.findall(r"\w+|\.", text))


def last_question(messages: list[dict[str, Any]]) -> str:
    """The prompt of a chat: its last message."""
    return str(messages[-1]["content"])


api = openai.routes(
    openai.Embeddings(trigrams, tokens=count_words),
    openai.Completions(Miller, tokens=count_words),
    openai.Chat(Miller, last_question, tokens=count_words),
)
