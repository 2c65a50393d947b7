"""Many clients at once: characters a second of the iterative model, and of a generator for each request.

Usage:

    python compare.py [--url URL] [--clients N] [--length N]
"""

from __future__ import annotations

import argparse
import time
from concurrent.futures import ThreadPoolExecutor

from penstock import Client

MODELS = ("GenerateAlone", "Generate")


def rate(client: Client, model: str, clients: int, length: int) -> float:
    """Characters a second of so many clients at once, each with one text."""

    def read(number: int) -> int:
        text = [f"Text {number}"] if model == "GenerateAlone" else [[f"Text {number}"]]
        return sum(1 for _ in client.stream(model, {"text": text}, parameters={"length": length}))

    with ThreadPoolExecutor(clients) as pool:
        start = time.perf_counter()
        count = sum(pool.map(read, range(clients)))
        return count / (time.perf_counter() - start)


def main() -> None:
    """Prints the rates, and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--length", type=int, default=64)
    options = parser.parse_args()
    with Client(options.url) as client:
        rates = {}
        for model in MODELS:
            rate(client, model, options.clients, 8)
            rates[model] = rate(client, model, options.clients, options.length)
            print(f"{model:14} {rates[model]:8.0f} characters/s")
    alone, together = (rates[model] for model in MODELS)
    print(f"{options.clients} clients: {together / alone:.1f} times as many")


if __name__ == "__main__":
    main()
