"""Calls app.py with OpenAI's client.

python ask.py [BASE_URL]         default: http://127.0.0.1:8000/v1
"""

from __future__ import annotations

import sys

import numpy as np
from openai import OpenAI

TEXTS = ["the miller opens the gate", "the miller closed the gates", "stock prices fell"]


def main(base_url: str) -> None:
    """Requests embeddings, a completion, and a streamed chat."""
    client = OpenAI(base_url=base_url, api_key="-")

    answer = client.embeddings.create(model="trigrams", input=TEXTS)
    vectors = np.array([one.embedding for one in answer.data])
    for text, likeness in zip(TEXTS, vectors @ vectors[0], strict=True):
        print(f"{likeness:5.2f}  {text}")

    told = client.completions.create(model="miller", prompt="When the rain", max_tokens=12, seed=1, stop=["."])
    print(f"When the rain{told.choices[0].text}  [{told.usage.total_tokens} words]")

    question = "What does the miller do?"
    for event in client.chat.completions.create(
        model="miller", messages=[{"role": "user", "content": question}], stream=True, seed=2
    ):
        print(event.choices[0].delta.content or "", end="", flush=True)
    print()


if __name__ == "__main__":
    main(*sys.argv[1:] or ["http://127.0.0.1:8000/v1"])
