"""Requests at a rate that does not ask whether the server keeps up."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

from .callers import Caller, check
from .models import SLOW_SECONDS
from .tally import Tally

CALLERS = 24
"""Threads that ask; more than the queue holds, so that an overload is one."""
OVERLOADED = frozenset({429})


@dataclass
class Load:
    """What answers took at a share of the capacity of `slow`."""

    http: str
    grpc: str
    tally: Tally
    taken: dict[float, list[float]] = field(default_factory=dict)
    refused: dict[float, int] = field(default_factory=dict)

    def run(self, share: float, seconds: float) -> None:
        """Asks at that share of the capacity."""
        lock, start = threading.Lock(), time.monotonic()
        taken, every = self.taken.setdefault(share, []), SLOW_SECONDS / share
        turn = iter(range(int(seconds / every)))

        def ask(seed: int) -> None:
            caller = Caller(self.http, self.grpc, self.tally, seed)
            while True:
                with lock:
                    number = next(turn, None)
                if number is None:
                    break
                time.sleep(max(0.0, start + number * every - time.monotonic()))
                outcome, took = self.tally.run(f"slow at {share:g}", lambda: _slow(caller), OVERLOADED)
                with lock:
                    if outcome == "right":
                        taken.append(took)
                    else:
                        self.refused[share] = self.refused.get(share, 0) + 1
            caller.close()

        threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(CALLERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def p99(self, share: float) -> float:
        """The 99th percentile of accepted answers, in seconds."""
        taken = sorted(self.taken.get(share, [])) or [0.0]
        return taken[min(len(taken) - 1, int(len(taken) * 0.99))]


def _slow(caller: Caller) -> None:
    x = caller.row(8)
    check("slow", caller.infer(("binary", "grpc")[caller.random.randrange(2)], "slow", x), x - 5)
