"""The clients of `pytriton.client`, on top of Penstock's own. They work with PyTriton's servers too.

`ModelClient` blocks, `FuturesModelClient` returns futures, and `AsyncioModelClient` is for asyncio.
`DecoupledModelClient` and `AsyncioDecoupledModelClient` are for models that stream several responses.
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
