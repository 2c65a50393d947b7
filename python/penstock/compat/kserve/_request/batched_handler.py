"""`Joining`: answers requests with the rows of those that go together in one call of their model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from penstock import Context, Request
from penstock.compat.kserve._request import row_batches
from penstock.compat.kserve._request.errors import failed
from penstock.compat.kserve._request.row_batches import Arrived

if TYPE_CHECKING:
    from penstock.compat.kserve._request.handler import Headers, Served

__all__ = ["Joining"]


class Joining:
    """Answers requests together.

    A call that fails, or whose answer cannot be parted, is made again for each of its requests alone: one caller's
    mistake does not fail the others.

    Args:
        served: Answers each by itself.
        name: The model's name.
        limit: The most rows of one call.
    """

    def __init__(self, served: Served, name: str, limit: int) -> None:
        self._served, self._name, self._limit = served, name, limit

    def many(self, requests: list[Request], ctx: Context) -> list[Any]:
        """Answers requests on this thread."""
        answers = _Answers(requests)
        with self._served.noting(ctx.metrics) as noted:
            for group in self._groups(requests, answers):
                if len(group) > 1:
                    try:
                        body, headers = row_batches.joined(group, self._name), row_batches.shared_headers(group)
                        answered = self._served.run(body, headers, noted, group[0].explain)
                        answers.give(group, self._parted(group, *answered))
                    except Exception as raised:
                        _say_again(raised, group)
                    else:
                        continue
                answers.give(group, [self._served.one(one.request, noted) for one in group])
        return answers.all()

    async def wait(self, requests: list[Request], ctx: Context) -> list[Any]:
        """Answers requests on an event loop."""
        kept, answers = ctx.metrics, _Answers(requests)
        for group in self._groups(requests, answers):
            if len(group) > 1:
                try:
                    body, headers = row_batches.joined(group, self._name), row_batches.shared_headers(group)
                    answered = await self._served.wait(body, headers, kept, group[0].explain)
                    answers.give(group, self._parted(group, *answered))
                except Exception as raised:
                    _say_again(raised, group)
                else:
                    continue
            answers.give(group, [await self._served.answer(one.request, ctx) for one in group])
        return answers.all()

    def _groups(self, requests: Sequence[Request], answers: _Answers) -> list[list[Arrived]]:
        """Those that go together. Who cannot be read is answered at once."""
        arrived = []
        for request in requests:
            headers = request.headers
            try:
                arrived.append(Arrived(request, *self._served.arrived(request, headers), headers))
            except Exception as raised:
                answers.fail(request, raised)
        return row_batches.groups(arrived, self._limit)

    def _parted(self, group: Sequence[Arrived], result: Any, told: Headers) -> list[Any]:
        parts = row_batches.parted(result, group)
        return [
            self._served.given(one.request, part, told, one.event, one.headers)
            for one, part in zip(group, parts, strict=True)
        ]


class _Answers:
    """What each of some requests is answered, in their order."""

    def __init__(self, requests: Sequence[Request]) -> None:
        self._requests = requests
        self._given: dict[int, Any] = {}

    def give(self, group: Sequence[Arrived], answers: Sequence[Any]) -> None:
        """Takes the answers of a group."""
        self._given.update(zip((id(one.request) for one in group), answers, strict=True))

    def fail(self, request: Request, raised: Exception) -> None:
        """Takes what was raised for a request."""
        self._given[id(request)] = failed(raised, over_grpc=request.protocol == "grpc")

    def all(self) -> list[Any]:
        """All of them."""
        return [self._given[id(request)] for request in self._requests]


def _say_again(raised: Exception, group: Sequence[Arrived]) -> None:
    from penstock.compat.kserve.logging import logger

    logger.debug("a call for %d requests failed, each is computed alone", len(group), exc_info=raised)
