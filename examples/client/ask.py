"""Calls the models of app.py with every method of the client, and prints the results.

Usage:

    python ask.py [URL]         # http://127.0.0.1:8000, grpc://127.0.0.1:8001, unix:/path, ...
"""

from __future__ import annotations

import asyncio
import sys

import numpy as np

from penstock import AsyncClient, Client, InvalidInput, NotFound

WIDTH = 256


def ask(client: Client) -> None:
    """Calls the models one after the other, on this thread."""
    random = np.random.default_rng(7)
    a = random.standard_normal((3, WIDTH)).astype(np.float32)
    b = a + random.standard_normal((3, WIDTH)).astype(np.float32)
    # Arrays are sent without copies; the returned array is not shared.
    result = client.infer("similarity", a=a, b=b, timeout=2)
    print("similar:", ", ".join(f"{cosine:.2f}" for cosine in result.cosine[:, 0]))

    # Chunks arrive as soon as the model yields them.
    print("spelled:", "-".join(piece.text for piece in client.stream("spell", text="penstock")))

    with client.sequence("running_mean", "ask") as sequence:
        means = [sequence.infer(x=[x], end=x == 4.0).value for x in (1.0, 2.0, 4.0)]
    print("running mean:", ", ".join(f"{mean:.2f}" for mean in means))

    # A refusal raises the exception of its kind, with the server's message.
    try:
        client.infer("similarity", a=a, b=np.zeros_like(b))
    except InvalidInput as error:
        print("refused:", error)
    try:
        client.infer("similarly", a=a, b=b)
    except NotFound as error:
        print("refused:", error)


async def ask_at_once(url: str, count: int = 50) -> None:
    """Sends many requests at once: the server computes them in a few batches."""
    random = np.random.default_rng(8)
    rows = random.standard_normal((count, 1, WIDTH)).astype(np.float32)
    async with AsyncClient(url, retries=2) as client:
        results = await asyncio.gather(*(client.infer("similarity", a=row, b=rows[0]) for row in rows))
        best = max(range(1, count), key=lambda index: float(results[index].value[0, 0]))
        print(f"of {count} asked at once, row {best} is the nearest to row 0")
        letters = [piece.text async for piece in client.stream("spell", text="async")]
    print("spelled:", "-".join(letters))


def main(arguments: list[str]) -> None:
    """Calls the server at the given URL."""
    url = arguments[0] if arguments else "http://127.0.0.1:8000"
    with Client(url, retries=2) as client:
        ask(client)
    asyncio.run(ask_at_once(url))


if __name__ == "__main__":
    main(sys.argv[1:])
