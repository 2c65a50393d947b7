"""BentoML: one service, an API for each model, JSON rows."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import bentoml
import numpy as np

import models


def _api(name: str):
    served = models.lookup(name)

    def infer(self, x: np.ndarray) -> np.ndarray:
        return served.call(np.asarray(x, np.float32))

    infer.__name__ = name
    if models.batched(name):
        # Its batcher drops requests that it expects to exceed max_latency_ms: the timeout of the clients.
        return bentoml.api(
            infer, route=f"/{name}", batchable=True, max_batch_size=models.MAX_BATCH, max_latency_ms=5000
        )
    return bentoml.api(infer, route=f"/{name}")


Served = bentoml.service(
    type("Served", (), {name: _api(name) for name in models.NAMES}), workers=1, traffic={"timeout": 60}
)

if __name__ == "__main__":
    file = Path(__file__)
    place = ["--host", "127.0.0.1", "--port", str(models.PORT), "--working-dir", str(file.parent)]
    os.execv(sys.executable, [sys.executable, "-m", "bentoml", "serve", f"{file.stem}:Served", *place])
