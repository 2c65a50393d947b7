"""Base classes of `Model` and of the models of other protocols, and the views that internal modules have of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol

from penstock.compat.kserve import dialect
from penstock.compat.kserve._model.awaitable_bool import AwaitableBool

if TYPE_CHECKING:
    from penstock.compat.kserve.predictor_config import PredictorConfig

__all__ = [
    "BaseKServeModel",
    "InferenceModel",
    "InferenceVerb",
    "PredictingModel",
    "StagedModel",
    "readiness_listeners",
]


class InferenceVerb(Enum):
    """The operation that a request asks a model for."""

    EXPLAIN = 1
    PREDICT = 2
    GENERATE = 3
    """Streamed text: `predict` returns an async iterator."""


class BaseKServeModel(ABC):
    """A model that a repository holds and a server serves.

    Args:
        name: The name on the wire.

    Attributes:
        name: The name on the wire.
        engine: Whether `start_engine` runs while the server does.
    """

    name: str
    engine: bool = False

    def __init__(self, name: str) -> None:
        self.name = name
        self.ready = False
        self.engine = False

    @property
    def ready(self) -> bool:
        """True while the model takes requests; otherwise they are refused with 503."""
        return bool(self.__dict__.get("_ready", False))

    @ready.setter
    def ready(self, ready: bool) -> None:
        self.__dict__["_ready"] = bool(ready)
        for listener in tuple(readiness_listeners):
            listener(self, bool(ready))

    def healthy(self) -> Any:
        """Returns whether the model can respond: `ready` unless overridden, by a plain or an async method.

        The result may be awaited or not. In the dialect of 0.13 it is a `bool`.
        """
        return self.ready if dialect.is_old() else AwaitableBool(self.ready)

    def load(self) -> bool:
        """Loads the model and sets `ready`. To be overridden; called by the script or the repository."""
        self.ready = True
        return self.ready

    def start(self) -> None:
        """Runs once when the server starts. To be overridden."""
        self.ready = True

    async def start_engine(self) -> None:
        """Runs once when the server starts, if `engine` is set. To be overridden."""
        self.ready = True

    def stop(self) -> None:
        """Runs when the model is unloaded and when the server stops. To be overridden."""
        self.ready = False

    def stop_engine(self) -> None:
        """Runs after `stop`, if `engine` is set. To be overridden."""
        self.ready = False


class InferenceModel(BaseKServeModel):
    """A model that can be called with a request."""

    @abstractmethod
    def __call__(self, body: Any, headers: Any = None, verb: Any = InferenceVerb.PREDICT) -> Any:
        """Returns the response to a request."""

    def get_input_types(self) -> Any:
        """Returns the inputs as a list of dicts with `name`, `datatype` and `shape`. To be overridden."""
        return []

    def get_output_types(self) -> Any:
        """Returns the outputs as a list of dicts with `name`, `datatype` and `shape`. To be overridden."""
        return []


readiness_listeners: list[Callable[[BaseKServeModel, bool], None]] = []
"""Called on each assignment of `ready`, on the assigning thread. Listeners must not raise."""


class StagedModel(Protocol):
    """`Model` as the code that runs its stages sees it."""

    @property
    def protocol(self) -> str:
        """The predictor's protocol: "v1", "v2" or "grpc-v2"."""

    required_response_headers: bool

    async def predict(self, payload: Any, headers: Any = None, response_headers: Any = None) -> Any:
        """Computes the result of a payload."""

    async def explain(self, payload: Any, headers: Any = None) -> Any:
        """Computes the explanation of a payload."""


class PredictingModel(Protocol):
    """`Model` as the code that calls its predictor sees it."""

    name: str
    explainer_host: str | None

    @property
    def predictor_config(self) -> PredictorConfig | None:
        """The predictor's address and options."""

    @property
    def timeout(self) -> float:
        """The predictor's timeout in seconds."""

    @property
    def use_ssl(self) -> bool:
        """True if the predictor is called over TLS."""

    @property
    def _http_client(self) -> Any: ...

    @property
    def _grpc_client(self) -> Any: ...

    async def _http_predict(self, payload: Any, headers: Any, response_headers: Any) -> Any: ...

    async def _grpc_predict(self, payload: Any, headers: Any) -> Any: ...
