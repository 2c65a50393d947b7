"""Asks models now and then whether they are ready, where no assignment says so: gRPC sees only what was told."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from typing import TYPE_CHECKING

from penstock.compat.kserve._model import background_loop
from penstock.compat.kserve.logging import logger

if TYPE_CHECKING:
    from penstock.compat.kserve._server.model_table import Table
    from penstock.compat.kserve.protocol.dataplane import DataPlane

__all__ = ["Polling"]

_EVERY = 1.0
"""Seconds between two rounds."""


class Polling:
    """Rounds of questions, from `start` to `stop`.

    Args:
        dataplane: Asks.
        table: Is told.
    """

    def __init__(self, dataplane: DataPlane, table: Table) -> None:
        self._dataplane, self._table = dataplane, table
        self._rounds: Future[None] | None = None

    def start(self) -> None:
        """Begins."""
        self._rounds = asyncio.run_coroutine_threadsafe(self._ask(), background_loop.loop())

    def stop(self) -> None:
        """Ends."""
        if self._rounds is not None:
            self._rounds.cancel()

    async def _ask(self) -> None:
        while True:
            for name in self._table.asked():
                try:
                    # The predictor is not asked: that would keep it awake, and is no reason to refuse requests.
                    ready = await self._dataplane.model_ready(name, disable_predictor_health_check=True)
                    self._table.tell(name, ready)
                except Exception:
                    # It may have gone meanwhile; and one that cannot say is not ready.
                    logger.debug("Model %s could not be asked whether it is ready", name, exc_info=True)
                    self._table.tell(name, False)
            await asyncio.sleep(_EVERY)
