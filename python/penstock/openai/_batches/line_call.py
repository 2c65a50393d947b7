"""Computation of one line of a batch."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

from penstock.errors import Overloaded, Throttled, Timeout, Unavailable
from penstock.openai._batches.capacity import Capacity
from penstock.openai._batches.jobs import Job, Line, new_request_id
from penstock.openai._body import Body
from penstock.openai._errors import OPENAI, Refused, error_response
from penstock.openai._served import Endpoint
from penstock.openai._table import Table

if TYPE_CHECKING:
    from penstock._core import Context
    from penstock._runtime.peers import Peer

__all__ = ["AGAIN", "LineCall", "Result"]

AGAIN = (Overloaded, Throttled, Timeout, Unavailable)
"""Errors after which a line is computed again later."""
Result = tuple[bool, bytes]
"""Success of a line, and its line in the output or error file."""


class LineCall:
    """A line, the endpoint of its model, and the model's capacity.

    Attributes:
        refused: The result of an invalid line, which has no endpoint.
        capacity: The capacity of its model.
        peer: Its model.
    """

    def __init__(self, job: Job, line: Line, table: Table, capacities: dict[str, Capacity]) -> None:
        self._line, self._job = line, job
        self._request_id = new_request_id()
        self.refused: Result | None = None
        if job.endpoint not in table.by_path:
            # The batch is older than this server.
            raised = Refused(f"{job.endpoint!r} is not served any more", "url", status=404, code="not_found")
            self.refused = False, self._encoded(404, error_response(raised, OPENAI).body)
            return
        try:
            self._body = Body(line.body)
            served, self._endpoint = table.find(job.endpoint, self._body, job.models.__contains__)
            if self._body.get("stream", bool, False):
                raise Refused("'stream' is not supported in a batch", "stream")
        except Refused as raised:
            self.refused = self._failed(raised, table.any_endpoint(job.endpoint))
            return
        self.capacity = capacities[served.model.name]
        self.peer = self.capacity.peer(served.model.name, served.model.version)
        self._context = _LineContext(job, self._request_id, capacities)

    async def run(self) -> Result:
        """Computes the line.

        Raises:
            PenstockError: one of `AGAIN`: the model cannot compute it now.
        """
        try:
            # Endpoints use the members of `_LineContext` only.
            given: Any = await self._endpoint.answer(self._body, cast("Context", self._context))
            if isinstance(given, bytes):
                given = json.loads(given)
            if not isinstance(given, dict):
                raise Refused("a response that is not a JSON document is not supported in a batch")
        except AGAIN:
            raise
        except Exception as raised:
            return self._failed(raised, self._endpoint)
        return True, self._encoded(200, given)

    def _failed(self, raised: Exception, endpoint: Endpoint) -> Result:
        error = error_response(raised, endpoint.errors)
        return False, self._encoded(error.status, error.body)

    def _encoded(self, status: int, body: dict[str, Any]) -> bytes:
        response = {"status_code": status, "request_id": self._request_id, "body": body}
        document = {"id": self._request_id, "custom_id": self._line.custom_id, "response": response, "error": None}
        return json.dumps(document, separators=(",", ":")).encode()


class _LineContext:
    """Context of an endpoint for a line, in place of that of a request."""

    def __init__(self, job: Job, request_id: str, capacities: dict[str, Capacity]) -> None:
        self.models = _Models(capacities)
        self.client = _Owner(job)
        self.request_id = request_id
        self.headers: dict[str, str] = {}
        self.parameters: dict[str, Any] = {}
        self.deadline = None
        self.cancelled = False


class _Models:
    def __init__(self, capacities: dict[str, Capacity]) -> None:
        self._capacities = capacities

    def __getitem__(self, which: str | tuple[str, str | int]) -> Peer:
        name, version = (which, None) if isinstance(which, str) else which
        return self._capacities[name].peer(name, version)


class _Owner:
    """Client of a batch, as `ctx.client`."""

    def __init__(self, job: Job) -> None:
        kind, _, self.name = job.owner.partition(":")
        self.key = self.name if kind == "key" else None
        self.may_use = job.models.__contains__
