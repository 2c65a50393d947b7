"""Hedged calls of the synchronous client: they run on the shared runtime, while the calling thread waits."""

from __future__ import annotations

import select
import threading
from typing import TYPE_CHECKING

from penstock import _core

if TYPE_CHECKING:
    from penstock.client._base import Ask
    from penstock.client._options import Call, How, Settings
    from penstock.client._raw import RawAnswer, RawArguments
    from penstock.client._result import Answer

__all__ = ["HedgedClient"]


class HedgedClient:
    """A `_core.BlockingClient` whose inferences are hedged."""

    def __init__(self, url: str, settings: Settings) -> None:
        self._blocking = _core.BlockingClient(url, settings)
        self._shared = _core.RuntimeClient(url, settings)
        self._of_thread = threading.local()

    def infer(self, call: Call, how: How) -> Answer:
        mailbox = getattr(self._of_thread, "mailbox", None)
        if mailbox is None:
            mailbox = self._of_thread.mailbox = _core.CompletionQueue()
        running = self._shared.infer(call, how, mailbox, False)
        poll = select.poll()
        poll.register(mailbox.fileno(), select.POLLIN)
        try:
            while True:
                poll.poll()
                for ticket, value, error in mailbox.take():
                    # Other outcomes belong to calls that an exception of a signal handler ended.
                    if ticket == running.ticket:
                        if error is not None:
                            raise error
                        answer: Answer = value
                        return answer
        except BaseException:
            running.cancel()
            raise

    def query(self, ask: Ask, how: How) -> bytes:
        return self._blocking.query(ask, how)

    def raw(self, arguments: RawArguments, how: How) -> RawAnswer:
        return self._blocking.raw(arguments, how)

    def stream(self, call: Call, how: How) -> _core.BlockingStream:
        return self._blocking.stream(call, how)

    def close(self) -> None:
        self._blocking.close()
        self._shared.close()
