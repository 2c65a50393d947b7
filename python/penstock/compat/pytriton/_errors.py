"""Errors that clients receive when an inference callable fails."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from penstock import HandlerError, PenstockError, RowErrors
from penstock.compat.pytriton.exceptions import PyTritonUnrecoverableError

__all__ = ["CAUGHT", "ErrorTranslator"]

CAUGHT = (Exception, asyncio.CancelledError)
"""Exceptions of a callable that fail its own requests only."""

logger = logging.getLogger(__name__)


class ErrorTranslator:
    """Translates the exceptions of one instance's callable to errors for clients.

    Args:
        model: The model's name.
        instance: The instance's number.
        unrecoverable: Called when the callable cannot serve any more requests.
    """

    def __init__(self, model: str, instance: int, unrecoverable: Callable[[BaseException], None]) -> None:
        self._model, self._instance, self._unrecoverable = model, instance, unrecoverable

    def translate(self, raised: BaseException) -> BaseException:
        """Returns the exception to raise instead. The traceback goes to the log, never to clients."""
        if isinstance(raised, (PenstockError, RowErrors)):
            # The callable chose this status and text itself.
            return raised
        if isinstance(raised, PyTritonUnrecoverableError):
            logger.error("model %r cannot serve any more requests: the server stops", self._model, exc_info=raised)
            self._unrecoverable(raised)
        else:
            logger.warning("model %r: the inference callable failed", self._model, exc_info=raised)
        return HandlerError(
            f"Failed to process the request(s) for model '{self._model}_0_{self._instance}', message: "
            f"TritonModelException: Model execute error: {type(raised).__name__}: {raised}"
        )
