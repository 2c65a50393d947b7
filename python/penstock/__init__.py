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

from penstock._handler.forms import FormPart
from penstock._model.model import Model, model
from penstock._model.option_types import ModelOptions
from penstock._model.pipeline import Pipeline
from penstock._model.step import Step
from penstock._serve.serve import serve
from penstock._server.server import Server
from penstock._spec.batching import Batching, BatchTooLarge, Iterative
from penstock._spec.caching import Cache
from penstock._spec.cost import Cost, Dim
from penstock._spec.fallback import Fallback
from penstock._spec.instances import Processes, Threads
from penstock._spec.ragged import Padded, Ragged
from penstock._spec.resources import Resources
from penstock._spec.results import Answers, Final, RowErrors
from penstock._spec.scheduling import Level, Queueing, Sequences
from penstock._spec.tensor import Tensor
from penstock._spec.warmup import Warmup
from penstock.config import ServerConfig
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
    Throttled,
    Timeout,
    TooLarge,
    Unauthenticated,
    Unavailable,
    Unsupported,
    UnsupportedEncoding,
)

if TYPE_CHECKING:
    from penstock._attach.attach import Attached, attach
    from penstock._core import (
        ClientCertificate,
        ClientIdentity,
        Context,
        Donated,
        EventStream,
        Request,
        RequestInfo,
        Response,
        Row,
        SequenceInfo,
        frozen,
    )
    from penstock._serve.signals import Signals
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
    "ClientCertificate",
    "ClientIdentity",
    "ConfigError",
    "Context",
    "Cost",
    "Dim",
    "Donated",
    "EventStream",
    "Fallback",
    "Final",
    "Forbidden",
    "FormPart",
    "HandlerError",
    "InternalError",
    "InvalidInput",
    "Iterative",
    "Level",
    "LoadError",
    "MethodNotAllowed",
    "Model",
    "ModelOptions",
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
    "Row",
    "RowErrors",
    "SequenceInfo",
    "Sequences",
    "Server",
    "ServerConfig",
    "Signals",
    "SignatureError",
    "StartupError",
    "Step",
    "Tensor",
    "Threads",
    "Throttled",
    "Timeout",
    "TooLarge",
    "Unauthenticated",
    "Unavailable",
    "Unsupported",
    "UnsupportedEncoding",
    "Warmup",
    "attach",
    "frozen",
    "model",
    "serve",
]


def __dir__() -> list[str]:
    # What users import, the lazily imported names included; not what this module itself imports.
    modules = ("client", "config", "errors", "images", "integrations", "logs", "openai", "repository", "testing")
    return sorted({*__all__, *modules, "__all__", "__doc__", "__file__", "__name__", "__path__", "__version__"})


_COMPILED = (
    "ClientCertificate",
    "ClientIdentity",
    "Context",
    "Donated",
    "EventStream",
    "Request",
    "RequestInfo",
    "Response",
    "Row",
    "SequenceInfo",
    "frozen",
)
"""Names of the compiled extension, imported at first use."""


def __getattr__(name: str) -> object:
    # Declaring models does not need the compiled extension.
    if name in _COMPILED:
        from penstock import _core

        return getattr(_core, name)
    if name in ("Attached", "attach"):
        from penstock._attach.attach import Attached, attach

        return attach if name == "attach" else Attached
    if name in ("AsyncClient", "Client"):
        from penstock import client

        return getattr(client, name)
    if name == "Signals":
        from penstock._serve.signals import Signals

        return Signals
    if name == "__version__":
        from penstock import _core

        return _core.version
    raise AttributeError(f"module 'penstock' has no attribute {name!r}")
