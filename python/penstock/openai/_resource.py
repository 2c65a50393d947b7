"""Routes that belong to no model."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any, TypeAlias

from penstock.openai._events import Document
from penstock.openai._table import Table

if TYPE_CHECKING:
    from penstock._core import Context, Request, Response

__all__ = ["Given", "OpenResource", "Resource"]

Given: TypeAlias = "Document | Response | AsyncGenerator[Any, None]"
"""Response of a resource: a document, a body, or chunks of a body."""


class OpenResource:
    """Resource on the event loop of an instance."""

    async def answer(self, route: str, request: Request, ctx: Context) -> Given:
        """Returns the response to a request to one of its routes, as `Resource.routes` has it."""
        raise NotImplementedError

    async def close(self) -> None:
        """Called when the instance ends."""


class Resource:
    """Routes that belong to no model."""

    def routes(self) -> tuple[str, ...]:
        """The routes, without the prefix, such as `GET files/{file}`."""
        raise NotImplementedError

    def open(self, table: Table) -> OpenResource:
        """Opens it on the running event loop of an instance.

        Args:
            table: The endpoints of the models beside it.
        """
        raise NotImplementedError
