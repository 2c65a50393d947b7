"""Penstock serves Python models: a Rust core carries tensors, a Python handler computes.

Example:
    >>> from penstock import Batching, Tensor, model, serve
    >>> @model(
    ...     inputs=[Tensor("x", np.float32, [16])],
    ...     outputs=[Tensor("y", np.float32, [16])],
    ...     batching=Batching(max_size=32),
    ... )
    ... def double(x):
    ...     return x * 2
    >>> serve(double)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock._model import Model, model
from penstock.answers import Answers
from penstock.batching import Batching, BatchTooLarge
from penstock.caching import Cache
from penstock.config import ServerConfig
from penstock.cost import Cost, Dim
from penstock.errors import (
    AlreadyExists,
    BindError,
    Cancelled,
    ConfigError,
    Forbidden,
    HandlerError,
    InternalError,
    InvalidInput,
    LoadError,
    MethodNotAllowed,
    NotFound,
    Overloaded,
    PenstockError,
    SignatureError,
    StartupError,
    Timeout,
    TooLarge,
    Unavailable,
    Unsupported,
    UnsupportedEncoding,
)
from penstock.fallback import Fallback
from penstock.instances import Processes, Threads
from penstock.pipeline import Pipeline, Step
from penstock.ragged import Padded, Ragged
from penstock.resources import Resources
from penstock.rows import RowErrors
from penstock.scheduling import Level, Queueing, Sequences
from penstock.server import Server, serve
from penstock.streaming import Final
from penstock.tensor import Tensor
from penstock.warmup import Warmup

if TYPE_CHECKING:
    from penstock._core import Context, Moved, Request, RequestInfo, Response, SequenceInfo
    from penstock.attaching import Attached, attach
    from penstock.client import AsyncClient, Client

    __version__: str

__all__ = [
    "AlreadyExists",
    "Answers",
    "AsyncClient",
    "Attached",
    "BatchTooLarge",
    "Batching",
    "BindError",
    "Cache",
    "Cancelled",
    "Client",
    "ConfigError",
    "Context",
    "Cost",
    "Dim",
    "Fallback",
    "Final",
    "Forbidden",
    "HandlerError",
    "InternalError",
    "InvalidInput",
    "Level",
    "LoadError",
    "MethodNotAllowed",
    "Model",
    "Moved",
    "NotFound",
    "Overloaded",
    "Padded",
    "PenstockError",
    "Pipeline",
    "Processes",
    "Queueing",
    "Ragged",
    "Request",
    "RequestInfo",
    "Resources",
    "Response",
    "RowErrors",
    "SequenceInfo",
    "Sequences",
    "Server",
    "ServerConfig",
    "SignatureError",
    "StartupError",
    "Step",
    "Tensor",
    "Threads",
    "Timeout",
    "TooLarge",
    "Unavailable",
    "Unsupported",
    "UnsupportedEncoding",
    "Warmup",
    "attach",
    "model",
    "serve",
]


def __getattr__(name: str) -> object:
    # Loaded at first use: describing models does not need the compiled part.
    if name in ("Context", "Moved", "Request", "RequestInfo", "Response", "SequenceInfo"):
        from penstock import _core

        return getattr(_core, name)
    if name in ("Attached", "attach"):
        from penstock import attaching

        return getattr(attaching, name)
    if name in ("AsyncClient", "Client"):
        from penstock import client

        return getattr(client, name)
    if name == "__version__":
        from penstock import _core

        return _core.version
    raise AttributeError(f"module 'penstock' has no attribute {name!r}")
