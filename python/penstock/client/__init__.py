"""Client for Open Inference Protocol v2 servers: Penstock, Triton, MLServer, KServe.

Example:
    >>> from penstock import Client
    >>> with Client("http://127.0.0.1:8000") as client:
    ...     y = client.infer("double", x=np.ones((1, 16), np.float32)).value

`AsyncClient` has the same methods as coroutines. Both raise the exceptions of `penstock.errors`.
"""

from __future__ import annotations

from penstock.client._asynchronous import AsyncClient
from penstock.client._options import ClientOptions
from penstock.client._pending import Pending
from penstock.client._raw import HttpAnswer
from penstock.client._result import Result
from penstock.client._sequence import AsyncSequence, Sequence
from penstock.client._streams import AsyncStream, Stream
from penstock.client._synchronous import Client

__all__ = [
    "AsyncClient",
    "AsyncSequence",
    "AsyncStream",
    "Client",
    "ClientOptions",
    "HttpAnswer",
    "Pending",
    "Result",
    "Sequence",
    "Stream",
]
