"""Open-loop load: requests at a fixed rate."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

from .access import Access
from .clients import ProtocolClient, check
from .models import SLOW_SECONDS
from .tally import Tally

CLIENTS = 24
"""Threads that send requests; more than the queue holds, so that an overload fills it."""
OVERLOADED = frozenset({429})


@dataclass
class Load:
    """Latencies of responses at shares of the capacity of `slow`."""

    access: Access
    tally: Tally
    latencies: dict[float, list[float]] = field(default_factory=dict)
    refused: dict[float, int] = field(default_factory=dict)

    def run(self, share: float, seconds: float) -> None:
        """Sends requests at that share of the capacity."""
        lock, start = threading.Lock(), time.monotonic()
        latencies, interval = self.latencies.setdefault(share, []), SLOW_SECONDS / share
        numbers = iter(range(int(seconds / interval)))

        def send_requests(seed: int) -> None:
            client = ProtocolClient(self.access, self.tally, seed)
            while True:
                with lock:
                    number = next(numbers, None)
                if number is None:
                    break
                time.sleep(max(0.0, start + number * interval - time.monotonic()))
                outcome, latency = self.tally.run(f"slow at {share:g}", lambda: _slow(client), OVERLOADED)
                with lock:
                    if outcome == "right":
                        latencies.append(latency)
                    else:
                        self.refused[share] = self.refused.get(share, 0) + 1
            client.close()

        threads = [threading.Thread(target=send_requests, args=(seed,)) for seed in range(CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def p99(self, share: float) -> float:
        """The 99th percentile of accepted requests, in seconds."""
        latencies = sorted(self.latencies.get(share, [])) or [0.0]
        return latencies[min(len(latencies) - 1, int(len(latencies) * 0.99))]


def _slow(client: ProtocolClient) -> None:
    x = client.row(8)
    check("slow", client.infer(("binary", "grpc")[client.random.randrange(2)], "slow", x), x - 5)
