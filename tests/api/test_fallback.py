"""`fallback=`: requests that a model declines and another model serves."""

from __future__ import annotations

import asyncio
import os
import time
from typing import Any

import pytest

from penstock import Context, Fallback, Processes, Request, Response, SignatureError, Tensor, model
from penstock.errors import Overloaded, PenstockError
from penstock.testing import Client
from waiting import until


def first(request: Request) -> Response:
    """Handler whose request body selects its behaviour."""
    command = (request.body or b"").decode()
    if command == "pass":
        return Response(b"from the first", status=421)
    if command == "raise":
        raise Overloaded("no more")
    if command == "wait":
        time.sleep(20)
    if command == "die":
        os._exit(3)
    return Response(f"first: {command}")


async def second(request: Request) -> Response:
    """Handler that returns the request and the reason for the fallback."""
    reason = request.refused
    summary = "passed on" if reason is None else f"{type(reason).__name__}: {reason}"
    assert reason is None or isinstance(reason, PenstockError)
    details = f"{request.method} {request.path}?{request.query} {request.route} {request.path_params} {request.body!r}"
    return Response(f"{summary} | {details} {request.headers['x-tenant']} {request.id}", status=299)


ROUTE = "POST /first/{name}"
TO_SECOND = Fallback("second", after=0.5)
threads = model(first, name="threads", routes=["POST /threads/{name}"], fallback=TO_SECOND)
processes = model(
    first, name="processes", routes=[ROUTE], instances=Processes(1, abandoned_after=0.1), fallback=TO_SECOND
)
other = model(second, name="second")
HEADERS = {"X-Tenant": "7", "x-request-id": "id1"}


def post(client: Client, body: str, path: str = "/first/a%20b?x=1") -> tuple[int, str]:
    response = client.post(path, body.encode(), headers=HEADERS)
    return response.status, response.body.decode()


def details(reason: str, body: str) -> tuple[int, str]:
    return 299, f"{reason} | POST /first/a%20b?x=1 {ROUTE} {{'name': 'a b'}} {body.encode()!r} 7 id1"


def test_first_model_serves_requests_without_the_fallback() -> None:
    with Client(processes, other) as client:
        assert post(client, "a") == (200, "first: a")


def test_declined_and_failed_requests_reach_the_fallback() -> None:
    with Client(processes, other) as client:
        assert post(client, "pass") == details("passed on", "pass")
        assert post(client, "raise") == details("Overloaded: no more", "raise")
        late = "Timeout: model 'processes' did not answer within the deadline"
        assert post(client, "wait") == details(late, "wait")
        # The process that exceeded its time was stopped and is being replaced.
        until(lambda: post(client, "a") == (200, "first: a"))
        status, text = post(client, "die")
        assert (status, text.partition(":")[0]) == (299, "HandlerError")
        until(lambda: post(client, "a") == (200, "first: a"))
        outcomes = [line for line in client.get("/metrics").body.decode().splitlines() if 'model="second"' in line]
        assert any('outcome="ok"' in line for line in outcomes), outcomes


def test_requests_rejected_at_admission_do_not_fall_back() -> None:
    bounded = model(
        first, name="threads", routes=["POST /threads/{name}"], max_queue=1, fallback=Fallback("second", after=2)
    )

    async def main(client: Client) -> list[tuple[int, str]]:
        slow = [asyncio.to_thread(post, client, "wait", "/threads/a") for _ in range(4)]
        return await asyncio.gather(*slow)

    with Client(bounded, other) as client:
        statuses = [status for status, _ in asyncio.run(main(client))]
        assert {*statuses} == {299, 429}


def test_match_body_bypasses_the_first_model() -> None:
    matching = model(
        first,
        name="processes",
        routes=[ROUTE],
        instances=Processes(1, abandoned_after=0.1),
        fallback=Fallback("second", after=3, match_body=(b"odd", b"\x00\xff")),
    )

    async def main(client: Client) -> None:
        busy = asyncio.create_task(asyncio.to_thread(post, client, "wait"))
        await asyncio.sleep(0.2)
        assert not busy.done()
        assert await asyncio.to_thread(post, client, "an odd body") == details("passed on", "an odd body")
        assert not busy.done()
        assert (await busy)[0] == 299

    with Client(matching, other) as client:
        asyncio.run(main(client))


def test_in_flight_counts_requests_of_a_peer() -> None:
    @model(routes=["GET /count"])
    def count(request: Request, ctx: Context) -> Response:
        return Response(str(ctx.models["processes"].in_flight + ctx.models["processes", "1"].in_flight))

    @model(routes=["GET /missing"])
    def missing(request: Request, ctx: Context) -> Response:
        return Response(str(ctx.models["missing-model"].in_flight))

    async def main(client: Client) -> None:
        assert (await asyncio.to_thread(client.get, "/count")).body == b"0"
        busy = asyncio.create_task(asyncio.to_thread(post, client, "wait"))
        await asyncio.to_thread(until, lambda: client.get("/count").body == b"2")
        await busy
        await asyncio.to_thread(until, lambda: client.get("/count").body == b"0")

    with Client(processes, count, missing) as client:
        asyncio.run(main(client))
        missing_response = client.get("/missing")
        assert (missing_response.status, missing_response.error()) == (500, "model 'missing' failed: NotFound")


def test_missing_fallback_model_keeps_the_first_response() -> None:
    with Client(threads) as client:
        assert post(client, "pass", "/threads/a") == (421, "from the first")
        response = client.post("/threads/a", b"raise", headers=HEADERS)
        assert (response.status, response.error()) == (429, "no more")


def test_fallback_is_not_chained() -> None:
    circular = model(first, name="second", routes=["POST /second"], fallback=Fallback("threads"))
    with Client(threads, circular) as client:
        assert post(client, "pass", "/threads/a") == (421, "from the first")


def test_process_fallback_receives_the_reason() -> None:
    with Client(threads, model(second, name="second", instances=Processes(1))) as client:
        assert post(client, "raise", "/threads/a")[1].startswith("Overloaded: no more | POST /threads/a")
        assert post(client, "pass", "/threads/a")[1].startswith("passed on | POST")


def test_refused_is_none_without_a_fallback() -> None:
    assert Request().refused is None
    with Client(other) as client:
        summary = client.post("/v2/models/second/infer", b'{"inputs": []}', headers=HEADERS)
        assert summary.body.decode().startswith("passed on | ")


@pytest.mark.parametrize("match_body", [b"a", "a", [b"a"], (b"",), ("a",)])
def test_invalid_match_body_is_rejected(match_body: Any) -> None:
    with pytest.raises(ValueError, match=r"^Fallback: match_body must be a tuple of bytes that are not empty, not "):
        Fallback("m", match_body=match_body)


@pytest.mark.parametrize("after", [0, -1, float("nan"), float("inf"), True, "5"])
def test_invalid_after_is_rejected(after: Any) -> None:
    with pytest.raises(ValueError, match=r"^Fallback: after must be a number of seconds above 0, or None, not "):
        Fallback("m", after=after)


def test_fallback_is_rejected_for_other_models() -> None:
    def chunks(request: Request) -> Any:
        yield "a"

    x = Tensor("x", "float32", [1])
    for make, reason in [
        (lambda: model(first, name="m", fallback=TO_SECOND), "fallback= is for a model with routes="),
        (
            lambda: model(chunks, name="m", routes=["GET /a"], fallback=TO_SECOND),
            "does not go with an answer in pieces",
        ),
        (lambda: model(lambda x: x, name="m", inputs=[x], outputs=[x], fallback=TO_SECOND), "takes `request: penstock"),
        (lambda: model(first, name="m", routes=["GET /a"], fallback="second"), "fallback must be"),
    ]:
        with pytest.raises(SignatureError, match=reason):
            make()  # type: ignore[no-untyped-call]
