"""`fallback=`: requests to a model's routes that another model answers."""

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
    """Does as its body says."""
    what = (request.body or b"").decode()
    if what == "pass":
        return Response(b"of the first", status=421)
    if what == "raise":
        raise Overloaded("no more")
    if what == "wait":
        time.sleep(20)
    if what == "die":
        os._exit(3)
    return Response(f"first: {what}")


async def second(request: Request) -> Response:
    """Tells what it got, and why."""
    why = request.refused
    said = "passed on" if why is None else f"{type(why).__name__}: {why}"
    assert why is None or isinstance(why, PenstockError)
    shown = f"{request.method} {request.path}?{request.query} {request.route} {request.path_params} {request.body!r}"
    return Response(f"{said} | {shown} {request.headers['x-own']} {request.id}", status=299)


ROUTE = "POST /first/{name}"
AFTER = Fallback("second", after=0.5)
threads = model(first, name="threads", routes=["POST /threads/{name}"], fallback=AFTER)
processes = model(first, name="processes", routes=[ROUTE], instances=Processes(1, abandoned_after=0.1), fallback=AFTER)
other = model(second, name="second")
HEADERS = {"X-Own": "7", "x-request-id": "id1"}


def asked(client: Client, body: str, where: str = "/first/a%20b?x=1") -> tuple[int, str]:
    answer = client.post(where, body.encode(), headers=HEADERS)
    return answer.status, answer.body.decode()


def shown(why: str, body: str) -> tuple[int, str]:
    return 299, f"{why} | POST /first/a%20b?x=1 {ROUTE} {{'name': 'a b'}} {body.encode()!r} 7 id1"


def test_the_first_answers_where_it_can() -> None:
    with Client(processes, other) as client:
        assert asked(client, "a") == (200, "first: a")


def test_what_it_passes_on_and_what_fails_is_the_seconds() -> None:
    with Client(processes, other) as client:
        assert asked(client, "pass") == shown("passed on", "pass")
        assert asked(client, "raise") == shown("Overloaded: no more", "raise")
        late = "Timeout: model 'processes' did not answer within the deadline"
        assert asked(client, "wait") == shown(late, "wait")
        # The process that computed for too long was stopped, and another comes.
        until(lambda: asked(client, "a") == (200, "first: a"))
        status, text = asked(client, "die")
        assert (status, text.partition(":")[0]) == (299, "HandlerError")
        until(lambda: asked(client, "a") == (200, "first: a"))
        outcomes = [line for line in client.get("/metrics").body.decode().splitlines() if 'model="second"' in line]
        assert any('outcome="ok"' in line for line in outcomes), outcomes


def test_what_is_refused_before_it_is_read_falls_to_nobody() -> None:
    narrow = model(
        first, name="threads", routes=["POST /threads/{name}"], max_queue=1, fallback=Fallback("second", after=2)
    )

    async def main(client: Client) -> list[tuple[int, str]]:
        slow = [asyncio.to_thread(asked, client, "wait", "/threads/a") for _ in range(4)]
        return await asyncio.gather(*slow)

    with Client(narrow, other) as client:
        statuses = [status for status, _ in asyncio.run(main(client))]
        assert {*statuses} == {299, 429}


def test_what_is_marked_does_not_wait_for_the_first() -> None:
    marked = model(
        first,
        name="processes",
        routes=[ROUTE],
        instances=Processes(1, abandoned_after=0.1),
        fallback=Fallback("second", after=3, match_body=(b"odd", b"\x00\xff")),
    )

    async def main(client: Client) -> None:
        busy = asyncio.create_task(asyncio.to_thread(asked, client, "wait"))
        await asyncio.sleep(0.2)
        assert not busy.done()
        assert await asyncio.to_thread(asked, client, "an odd one") == shown("passed on", "an odd one")
        assert not busy.done()
        assert (await busy)[0] == 299

    with Client(marked, other) as client:
        asyncio.run(main(client))


def test_a_caller_sees_how_many_requests_a_model_has() -> None:
    @model(routes=["GET /count"])
    def count(request: Request, ctx: Context) -> Response:
        return Response(str(ctx.models["processes"].in_flight + ctx.models["processes", "1"].in_flight))

    @model(routes=["GET /nobody"])
    def nobody(request: Request, ctx: Context) -> Response:
        return Response(str(ctx.models["nobody's"].in_flight))

    async def main(client: Client) -> None:
        assert (await asyncio.to_thread(client.get, "/count")).body == b"0"
        busy = asyncio.create_task(asyncio.to_thread(asked, client, "wait"))
        await asyncio.to_thread(until, lambda: client.get("/count").body == b"2")
        await busy
        await asyncio.to_thread(until, lambda: client.get("/count").body == b"0")

    with Client(processes, count, nobody) as client:
        asyncio.run(main(client))
        assert client.get("/nobody").status == 404


def test_without_the_second_its_own_answer_stands() -> None:
    with Client(threads) as client:
        assert asked(client, "pass", "/threads/a") == (421, "of the first")
        answer = client.post("/threads/a", b"raise", headers=HEADERS)
        assert (answer.status, answer.error()) == (429, "no more")


def test_it_falls_once() -> None:
    again = model(first, name="second", routes=["POST /second"], fallback=Fallback("threads"))
    with Client(threads, again) as client:
        assert asked(client, "pass", "/threads/a") == (421, "of the first")


def test_a_fallback_in_a_process_knows_why() -> None:
    with Client(threads, model(second, name="second", instances=Processes(1))) as client:
        assert asked(client, "raise", "/threads/a")[1].startswith("Overloaded: no more | POST /threads/a")
        assert asked(client, "pass", "/threads/a")[1].startswith("passed on | POST")


def test_nothing_is_refused_otherwise() -> None:
    assert Request().refused is None
    with Client(other) as client:
        said = client.post("/v2/models/second/infer", b'{"inputs": []}', headers=HEADERS)
        assert said.body.decode().startswith("passed on | ")


@pytest.mark.parametrize("match_body", [b"a", "a", [b"a"], (b"",), ("a",)])
def test_match_body_that_is_not_valid(match_body: Any) -> None:
    with pytest.raises(ValueError, match=r"^Fallback: match_body must be a tuple of bytes that are not empty, not "):
        Fallback("m", match_body=match_body)


@pytest.mark.parametrize("after", [0, -1, float("nan"), float("inf"), True, "5"])
def test_a_time_that_is_none(after: Any) -> None:
    with pytest.raises(ValueError, match=r"^Fallback: after must be a number of seconds above 0, or None, not "):
        Fallback("m", after=after)


def test_what_it_does_not_go_with() -> None:
    def pieces(request: Request) -> Any:
        yield "a"

    x = Tensor("x", "float32", [1])
    for make, why in [
        (lambda: model(first, name="m", fallback=AFTER), "fallback= is for a model with routes="),
        (lambda: model(pieces, name="m", routes=["GET /a"], fallback=AFTER), "does not go with an answer in pieces"),
        (lambda: model(lambda x: x, name="m", inputs=[x], outputs=[x], fallback=AFTER), "takes `request: penstock"),
        (lambda: model(first, name="m", routes=["GET /a"], fallback="second"), "fallback must be"),
    ]:
        with pytest.raises(SignatureError, match=why):
            make()  # type: ignore[no-untyped-call]
