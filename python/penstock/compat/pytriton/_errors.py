"""What callers are told when an inference callable fails."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from penstock import HandlerError, PenstockError, RowErrors
from penstock.compat.pytriton.exceptions import PyTritonUnrecoverableError

__all__ = ["CAUGHT", "Failures"]

CAUGHT = (Exception, asyncio.CancelledError)
"""What a callable may raise to fail its callers, and only them."""

logger = logging.getLogger(__name__)


class Failures:
    """Makes the errors of one instance's callers of what its callable raises.

    Args:
        model: The model's name.
        instance: The instance's number.
        unrecoverable: Is told of a callable that can never answer again.
    """

    def __init__(self, model: str, instance: int, unrecoverable: Callable[[BaseException], None]) -> None:
        self._model, self._instance, self._unrecoverable = model, instance, unrecoverable

    def error(self, raised: BaseException) -> BaseException:
        """What to raise in its place. The log gets the traceback; callers do not."""
        if isinstance(raised, (PenstockError, RowErrors)):
            # The callable's own answer.
            return raised
        if isinstance(raised, PyTritonUnrecoverableError):
            logger.error("model %r cannot answer any more: the server stops", self._model, exc_info=raised)
            self._unrecoverable(raised)
        else:
            logger.warning("model %r: the inference callable failed", self._model, exc_info=raised)
        return HandlerError(
            f"Failed to process the request(s) for model '{self._model}_0_{self._instance}', message: "
            f"TritonModelException: Model execute error: {type(raised).__name__}: {raised}"
        )
