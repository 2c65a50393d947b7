"""Calls with a second attempt: two at once need the runtime, whose outcome this thread awaits."""

from __future__ import annotations

import select
import threading
from typing import TYPE_CHECKING

from penstock import _core

if TYPE_CHECKING:
    from penstock.client._base import Ask, How
    from penstock.client._call import Call
    from penstock.client._options import Settings
    from penstock.client._raw import RawAnswer, RawArguments
    from penstock.client._result import Answer

__all__ = ["HedgedClient"]


class HedgedClient:
    """`_core.BlockingClient`, but for inferences."""

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
                    # Others are of calls that a signal's exception ended.
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
