"""The clients of `pytriton.client`, on Penstock's own. They talk to PyTriton's servers too.

`ModelClient` waits for its answers, `FuturesModelClient` gives futures, `AsyncioModelClient` is for asyncio;
`DecoupledModelClient` and `AsyncioDecoupledModelClient` are for models whose answers come in pieces.
"""

from __future__ import annotations

from penstock.compat.pytriton.client._asyncio import AsyncioModelClient
from penstock.compat.pytriton.client._asyncio_decoupled import AsyncioDecoupledModelClient
from penstock.compat.pytriton.client._decoupled import DecoupledModelClient
from penstock.compat.pytriton.client._futures import FuturesModelClient
from penstock.compat.pytriton.client._sync import ModelClient

__all__ = [
    "AsyncioDecoupledModelClient",
    "AsyncioModelClient",
    "DecoupledModelClient",
    "FuturesModelClient",
    "ModelClient",
]
