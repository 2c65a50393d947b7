"""`ReadinessPoll`: polls models whose `ready` is not assigned, since gRPC shows only the readiness that was set."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from typing import TYPE_CHECKING

from penstock.compat.kserve._model import background_loop
from penstock.compat.kserve.logging import logger

if TYPE_CHECKING:
    from penstock.compat.kserve._server.model_table import ModelTable
    from penstock.compat.kserve.protocol.dataplane import DataPlane

__all__ = ["ReadinessPoll"]

_INTERVAL = 1.0
"""Seconds between two polls."""


class ReadinessPoll:
    """Polls from `start` to `stop`.

    Args:
        dataplane: Returns a model's readiness.
        table: Receives it.
    """

    def __init__(self, dataplane: DataPlane, table: ModelTable) -> None:
        self._dataplane, self._table = dataplane, table
        self._task: Future[None] | None = None

    def start(self) -> None:
        """Begins to poll, on the background loop."""
        self._task = asyncio.run_coroutine_threadsafe(self._run(), background_loop.loop())

    def stop(self) -> None:
        """Stops polling."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        while True:
            for name in self._table.polled_models():
                try:
                    # Without the predictor: polls would keep it awake, and its absence is no reason to refuse requests.
                    ready = await self._dataplane.model_ready(name, disable_predictor_health_check=True)
                    self._table.set_ready(name, ready)
                except Exception:
                    # The model was removed meanwhile, or its check failed: it is not ready.
                    logger.debug("The readiness check of model %s failed", name, exc_info=True)
                    self._table.set_ready(name, False)
            await asyncio.sleep(_INTERVAL)
