"""Base of what `routes` serves: a model, and its endpoints."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from penstock.openai._body import Body
from penstock.openai._errors import OPENAI, ErrorForm
from penstock.openai._events import Document, Part

if TYPE_CHECKING:
    from penstock._core import Context, Request, Response
    from penstock._model.model import Model

__all__ = ["Endpoint", "Served"]


def _read_json(request: Request) -> Body:
    return Body(request.body)


class Endpoint(NamedTuple):
    """One path of a model."""

    answer: Callable[[Body, Context], Awaitable[Document | bytes | AsyncGenerator[Part, None] | Response]]
    """Returns the response: a document, also as JSON, an iterator over the parts of a stream, or another body."""
    errors: ErrorForm = OPENAI
    """The form of errors."""
    read: Callable[[Request], Body] = _read_json
    """Reads the body of a request."""

    @property
    def takes_json(self) -> bool:
        """True if its body is a JSON document."""
        return self.read is _read_json


class Served:
    """A model and its endpoints.

    Attributes:
        model: The model, which the server needs too.
        name: The `model` in requests.
    """

    model: Model[..., Any]
    name: str
    example: ClassVar[dict[str, Any]]
    """Members of an example request to the first endpoint, besides `model`."""

    def endpoints(self) -> Mapping[str, Endpoint]:
        """The endpoints by path without the prefix. One that begins with a slash needs the default prefix."""
        raise NotImplementedError
