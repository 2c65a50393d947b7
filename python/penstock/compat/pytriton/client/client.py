"""PyTriton's module of client classes."""

from __future__ import annotations

from penstock.compat.pytriton.client._asyncio import AsyncioModelClient
from penstock.compat.pytriton.client._asyncio_decoupled import AsyncioDecoupledModelClient
from penstock.compat.pytriton.client._base import DEFAULT_INFERENCE_TIMEOUT_S, BaseModelClient
from penstock.compat.pytriton.client._decoupled import DecoupledModelClient
from penstock.compat.pytriton.client._futures import FuturesModelClient
from penstock.compat.pytriton.client._sync import ModelClient

__all__ = [
    "DEFAULT_INFERENCE_TIMEOUT_S",
    "AsyncioDecoupledModelClient",
    "AsyncioModelClient",
    "BaseModelClient",
    "DecoupledModelClient",
    "FuturesModelClient",
    "ModelClient",
]
