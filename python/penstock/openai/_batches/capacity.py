"""Capacity of the models for lines of batches: never before requests of other clients."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from penstock._runtime.peers import Peer, Peers
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from penstock._core import CallQueue
    from penstock._model.model import Model

__all__ = ["Capacity"]

MOST_RUNNING = 256
"""Limit of running lines of one model."""
POLL_INTERVAL = 0.05
"""Seconds after which a model is looked at again."""


class Capacity:
    """Calls of one model at its lowest priority.

    If its queue has a level below that of requests without a priority, lines wait there. Otherwise a line begins only
    while the model has no other requests.

    Args:
        model: The model.
        queue: The queue of the routes' own instance.
    """

    def __init__(self, model: Model[..., Any], queue: CallQueue) -> None:
        self._queue = queue
        queueing = model.queueing
        has_lower = queueing is not None and queueing.priorities > queueing.default_priority
        self._waits_for_idle = not has_lower
        self._priority = queueing.priorities if queueing is not None and has_lower else 0
        rows = 1 if model.batching is None else model.batching.max_size
        busy = rows * model.instances * (model.max_concurrency or 1)
        # Where they do not delay others, some wait in the queue, so that it is never empty between two.
        self._most = max(1, min(busy * (2 if has_lower else 1), model.max_queue, MOST_RUNNING))
        self._running = 0
        self._freed = asyncio.Event()

    def peer(self, name: str, version: str | int | None) -> Peer:
        """The model, for a call by a line."""
        # Numbers of tokens are recorded with the time since a client was made.
        return Peers(self._queue.peers(self._priority))[name if version is None else (name, version)]

    async def enter(self, peer: Peer) -> None:
        """Waits until a line may begin, and counts it as running."""
        while not self._has_room(peer):
            self._freed.clear()
            try:
                await asyncio.wait_for(self._freed.wait(), POLL_INTERVAL)
            except asyncio.TimeoutError:
                continue
        self._running += 1

    def leave(self) -> None:
        """Counts a line as ended."""
        self._running -= 1
        self._freed.set()

    def _has_room(self, peer: Peer) -> bool:
        if self._queue.is_draining or self._running >= self._most:
            return False
        if not self._waits_for_idle:
            return True
        try:
            return peer.in_flight <= self._running
        except PenstockError:
            # A model that is not there: the call has the reason.
            return True
