"""The clients hold nothing for ever: memory, descriptors and threads, for some seconds. soak.py does it for longer."""

from __future__ import annotations

from native_server import Urls
from soak import Usage, rounds

from waiting import until

SECONDS = 8.0


def test_nothing_is_held_for_ever(urls: Urls) -> None:
    first, last = rounds(urls, SECONDS, lambda usage, count: None)
    # What a closed client held is let go by threads of their own, soon.
    until(lambda: Usage.now().descriptors <= first.descriptors + 4, "the descriptors to be closed")
    until(lambda: Usage.now().threads <= first.threads, "the threads to end")
    assert last.megabytes < first.megabytes + 30
