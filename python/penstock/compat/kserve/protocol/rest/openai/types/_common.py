"""Parts that several of OpenAI's responses share."""

from __future__ import annotations

import time
import uuid
from typing import Any

from penstock.compat.kserve.protocol.rest.openai.types._fields import Fields, default_factory

__all__ = ["DualRequest", "Model", "ModelList", "UsageInfo", "id_of", "now"]


def id_of(prefix: str) -> Any:
    """Returns the default of an `id` with a prefix."""
    return default_factory(lambda: f"{prefix}-{uuid.uuid4().hex}")


def now() -> Any:
    """Returns the default of a `created`: seconds of the Unix clock."""
    return default_factory(lambda: int(time.time()))


class UsageInfo(Fields):
    """Token counts."""

    completion_tokens: int | None = 0
    prompt_tokens: int = 0
    total_tokens: int = 0


class Model(Fields):
    """An entry of the list of models."""

    id: str
    created: int = now()
    object: str = "model"
    owned_by: str = ""


class ModelList(Fields):
    """The list of models."""

    object: str = "list"
    data: list[Model] = default_factory(list)


class DualRequest(Fields):
    """A request for handlers of either version of KServe: its members are its own (0.14 on) or those of `params`.

    A request that was created with `params` forwards other members to it, so that scripts of either version work.
    """

    def __init__(self, /, *, params: Any = None, **given: Any) -> None:
        if params is None:
            super().__init__(**given)
            return
        self.__dict__.update(params=params, model_fields_set={"params"})
        self.__dict__.update(request_id=given.get("request_id"), context=given.get("context"))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "model_fields_set" not in self.__dict__:
            raise AttributeError(name)
        if name == "params":
            return self
        if name == "context":
            return self.__dict__.get("_context")
        if "params" in self.__dict__:
            return getattr(self.__dict__["params"], name)
        raise AttributeError(f"{type(self).__name__} has no {name!r}")

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "context" and "context" not in self.__dict__:
            self.__dict__["_context"] = value
            return
        super().__setattr__(name, value)

    def model_dump(self, **options: Any) -> dict[str, Any]:
        """Returns the members as a dict; those of `params` if it was created with them."""
        params = self.__dict__.get("params")
        if params is not None:
            dumped: dict[str, Any] = params.model_dump(**options)
            return dumped
        return super().model_dump(**options)

    dict = model_dump
