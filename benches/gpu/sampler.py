"""The GPU's utilisation, power and clock while something else runs, by NVML."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

_INTERVAL = 0.05


@contextmanager
def sampled(*, cpu: bool, after: float) -> Iterator[dict[str, float]]:
    """Samples until the block ends, beginning after some seconds. The dict then has the means."""
    means: dict[str, float] = {}
    if cpu:
        yield means
        return
    import pynvml

    pynvml.nvmlInit()
    device = pynvml.nvmlDeviceGetHandleByIndex(0)
    stop = threading.Event()
    samples: list[tuple[float, float, float, float]] = []

    def sample() -> None:
        begin = time.monotonic() + after
        while not stop.wait(_INTERVAL):
            if time.monotonic() >= begin:
                used = pynvml.nvmlDeviceGetUtilizationRates(device)
                watts = pynvml.nvmlDeviceGetPowerUsage(device) / 1000
                megahertz = pynvml.nvmlDeviceGetClockInfo(device, pynvml.NVML_CLOCK_SM)
                samples.append((used.gpu, used.memory, watts, megahertz))

    thread = threading.Thread(target=sample, daemon=True)
    thread.start()
    try:
        yield means
    finally:
        stop.set()
        thread.join(timeout=5)
        if samples:
            names = ("percent", "memory_percent", "watts", "megahertz")
            for name, column in zip(names, zip(*samples, strict=True), strict=True):
                means[name] = sum(column) / len(column)
