"""Short soak test of the clients: memory, descriptors and threads. soak.py runs longer."""

from __future__ import annotations

from native_server import Urls
from soak import Usage, rounds

from waiting import until

SECONDS = 8.0


def test_clients_release_their_resources(urls: Urls) -> None:
    first, last = rounds(urls, SECONDS, lambda usage, count: None)
    # Threads release the resources of closed clients shortly after the close.
    until(lambda: Usage.now().descriptors <= first.descriptors + 4, "the descriptors to be closed")
    until(lambda: Usage.now().threads <= first.threads, "the threads to end")
    assert last.megabytes < first.megabytes + 30
