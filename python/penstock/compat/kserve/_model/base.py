"""What `Model` and the models of other protocols derive from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum
from typing import Any

from penstock.compat.kserve._model.awaitable_bool import Truth, listeners

__all__ = ["BaseKServeModel", "InferenceModel", "InferenceVerb"]


class InferenceVerb(Enum):
    """What a model is asked for."""

    EXPLAIN = 1
    PREDICT = 2
    GENERATE = 3
    """Text, piece by piece: `predict` gives an async iterator."""


class BaseKServeModel(ABC):
    """What a repository holds and a server serves.

    Args:
        name: Its name on the wire.

    Attributes:
        name: Its name on the wire.
        engine: Whether `start_engine` is to run beside the server.
    """

    name: str
    engine: bool = False

    def __init__(self, name: str) -> None:
        self.name = name
        self.ready = False
        self.engine = False

    @property
    def ready(self) -> bool:
        """Whether it takes requests; those that come while it is False are refused with 503."""
        return bool(self.__dict__.get("_ready", False))

    @ready.setter
    def ready(self, ready: bool) -> None:
        self.__dict__["_ready"] = bool(ready)
        for listener in tuple(listeners):
            listener(self, bool(ready))

    def healthy(self) -> Any:
        """Whether it can answer: `ready`, unless it is overridden, by a plain or an async method."""
        return Truth(bool(self.ready))

    def load(self) -> bool:
        """To be overridden: gets the model and sets `ready`. The script calls it, or the repository."""
        self.ready = True
        return self.ready

    def start(self) -> None:
        """To be overridden: called once when the server starts."""
        self.ready = True

    async def start_engine(self) -> None:
        """To be overridden where `engine` is set: called once when the server starts."""
        self.ready = True

    def stop(self) -> None:
        """To be overridden: called when it is unloaded, and when the server stops."""
        self.ready = False

    def stop_engine(self) -> None:
        """To be overridden where `engine` is set: called after `stop`."""
        self.ready = False


class InferenceModel(BaseKServeModel):
    """A model that can be called with a request."""

    @abstractmethod
    def __call__(self, body: Any, headers: Any = None, verb: Any = InferenceVerb.PREDICT) -> Any:
        """Answers a request."""

    def get_input_types(self) -> Any:
        """To be overridden: its inputs, as a list of dicts with `name`, `datatype` and `shape`."""
        return []

    def get_output_types(self) -> Any:
        """To be overridden: its outputs, as a list of dicts with `name`, `datatype` and `shape`."""
        return []
