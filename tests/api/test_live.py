"""Events of the page at /live: figures of models, errors with tracebacks, requests, instances, access."""

from __future__ import annotations

import asyncio
import os
import re
import socket
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

from http_by_hand import Connection, HttpResponse, get, infer, is_closed, metric_at
from live_events import Viewer
from models import in_processes, token_models
from penstock import Batching, Context, InvalidInput, Server, Tensor, model
from penstock.testing import Client
from waiting import Gate, at_once, until

ONE: dict[str, Any] = {"inputs": [Tensor("x", np.float32, [1])], "outputs": [Tensor("y", np.float32, [1])]}
ROW = np.ones((1, 1), np.float32)
GATE = {"x": ROW}


def twice(x: Any) -> Any:
    return x * 2


def reject(x: Any) -> Any:
    if x[0] < 0:
        raise InvalidInput("x is negative")
    return divide(x)


def divide(x: Any) -> Any:
    raise ZeroDivisionError(f"cannot divide by <b>{x[0]:g}</b>")


@pytest.fixture
def server() -> Iterator[Server]:
    models = (
        model(twice, name="double", batching=Batching(max_size=8), **ONE),
        model(reject, name="failing", **ONE),
    )
    with Server(*models, http="127.0.0.1:0", grpc=None) as server:
        yield server


def send(server: Server, name: str, count: int = 1, value: float = 1, **members: Any) -> list[int]:
    shape = (1, 1) if name == "double" else (1,)
    return [
        infer(server.http_url, name, {"x": np.full(shape, value, np.float32)}, **members).status for _ in range(count)
    ]


def test_first_event_is_the_state_and_later_ones_are_changes(server: Server) -> None:
    with Viewer(server.http_url) as viewer:
        first = viewer.next()
        assert first is not None
        assert first["event"] == "state"
        assert viewer.response.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert set(viewer.state) == {"server", "models", "others", "errors", "requests"}
        assert set(viewer.state["models"]) == {"double/1", "failing/1"}
        assert viewer.state["server"]["pid"] == os.getpid()
        assert viewer.state["server"]["phase"] == "ready"
        assert viewer.state["server"]["rss"] > 0
        second = viewer.next()
        assert second is not None
        assert second["event"] == "delta"
        assert int(second["id"]) == int(first["id"]) + 1
        assert len(second["data"]) < len(first["data"]) / 4
        with Viewer(server.http_url) as other:
            other.next()
            assert other.kinds == ["state"]
            viewer.until(lambda state: state["server"]["viewers"] == 2)


def test_figures_of_a_model_follow_its_requests(server: Server) -> None:
    with Viewer(server.http_url) as viewer:
        viewer.next()
        idle = viewer.model("double")
        assert (idle["state"], idle["requests"], idle["rate"]) == ("ready", 0, 0)
        assert idle.get("p50") is None
        assert send(server, "double", 40) == [200] * 40
        viewer.until(lambda _: viewer.model("double")["requests"] == 40)
        busy = viewer.model("double")
    assert 0 < busy["p50"] <= busy["p99"] < 60_000
    assert len(busy["time"]) == 4
    assert all(part >= 0 for part in busy["time"])
    assert sum(busy["batches"]["sizes"]) == sum(busy["batches"]["reasons"].values()) == 40
    assert busy["batches"]["sizes"][0] == 40, "each batch has one row"
    assert (busy["batches"]["mean"], busy["batches"]["max"]) == (1, 8)
    assert busy["queue"]["max_requests"] > 0
    assert busy["instances"]["0"]["batches"] == 40
    assert metric_at(server.http_url, "penstock_requests_total", model="double", outcome="ok") == 40


def test_errors_have_kinds_counts_and_tracebacks(server: Server) -> None:
    # Failures of handlers are kept without a viewer, too.
    assert send(server, "failing", 3, value=2.5) == [500] * 3
    with Viewer(server.http_url) as viewer:
        viewer.next()
        (error,) = viewer.errors()
        assert (error["count"], error["kind"], error["status"], error["model"]) == (3, "handler", 500, "failing")
        assert error["message"] == "model 'failing' failed: ZeroDivisionError"
        traceback = error["traceback"]
        assert traceback.startswith("Traceback (most recent call last):")
        assert traceback.endswith("ZeroDivisionError: cannot divide by <b>2.5</b>")
        assert ", in divide" in traceback
        assert f"{os.sep}penstock{os.sep}_handler" not in traceback, "Penstock's own frames are left out"
        assert viewer.model("failing")["errors"]["handler"][0] == 3
        assert send(server, "failing", id="again", value=2.5) == [500]
        viewer.until(lambda _: viewer.errors()[0]["count"] == 4)
        assert viewer.errors()[0]["id"] == "again"
        assert viewer.kinds[1:] == ["delta"] * (len(viewer.kinds) - 1)


def test_tracebacks_do_not_reach_clients(server: Server) -> None:
    response = infer(server.http_url, "failing", {"x": ROW[0]})
    assert response.error() == "model 'failing' failed: ZeroDivisionError"


def test_refusals_are_listed_while_someone_watches(server: Server) -> None:
    assert send(server, "failing", value=-1) == [400]
    with Viewer(server.http_url) as viewer:
        viewer.next()
        assert viewer.errors() == []
        assert send(server, "failing", value=-1) == [400]
        assert infer(server.http_url, "unknown", {"x": ROW}).status == 404
        viewer.until(lambda _: len(viewer.errors()) == 2)
        refused, unknown = viewer.errors()
    assert (refused["kind"], refused["message"]) == ("invalid_input", "x is negative")
    assert refused.get("traceback") is None
    assert (unknown["kind"], unknown.get("model")) == ("not_found", None)


def test_errors_are_bounded(server: Server) -> None:
    for value in range(30):
        send(server, "failing", value=value)
    with Viewer(server.http_url) as viewer:
        viewer.next()
        ends = [error["traceback"].splitlines()[-1] for error in viewer.errors()]
    assert ends == [f"ZeroDivisionError: cannot divide by <b>{value}</b>" for value in range(10, 30)]


def test_last_and_slowest_requests_are_listed(server: Server) -> None:
    with Viewer(server.http_url) as viewer:
        viewer.next()
        send(server, "double", id="r-1")
        send(server, "failing", id="r-2")
        viewer.until(lambda state: len(state["requests"]["last"]) == 2)
        first, second = viewer.state["requests"]["last"].values()
        assert (first["id"], first["status"], first["outcome"], first["rows"]) == ("r-1", 200, "ok", 1)
        assert (second["id"], second["status"], second["outcome"]) == ("r-2", 500, "handler")
        assert first["ms"] >= first["queue"] + first["handler"] > 0
        assert len(viewer.state["requests"]["slowest"]) == 2
        send(server, "double", 50)
        viewer.until(lambda _: viewer.model("double")["requests"] == 51)
        viewer.next()
        assert len(viewer.state["requests"]["last"]) == 20
        assert len(viewer.state["requests"]["slowest"]) == 10


def test_instances_queue_and_requests_in_flight_are_shown() -> None:
    gate = Gate()

    def wait(x: Any) -> Any:
        gate.enter()
        return x

    served = model(wait, name="slow", batching=Batching(max_size=2), max_queue=7, instances=2, **ONE)
    with Server(served, http="127.0.0.1:0", grpc=None) as server, Viewer(server.http_url) as viewer:
        viewer.next()
        assert {one["state"] for one in viewer.model("slow")["instances"].values()} == {"idle"}
        futures = at_once([lambda: infer(server.http_url, "slow", GATE)])
        gate.await_entered()
        states = viewer.until(lambda _: busy_states(viewer))
        assert states == ["busy", "idle"]
        futures += at_once([lambda: infer(server.http_url, "slow", GATE)] * 4)
        until(lambda: metric_at(server.http_url, "penstock_in_flight") == 5)
        viewer.until(lambda _: viewer.model("slow")["in_flight"] == 5)
        shown = viewer.model("slow")
        assert shown["queue"]["max_requests"] == 7
        assert shown["queue"]["requests"] == metric_at(server.http_url, "penstock_queue_depth")
        gate.open()
        assert [future.result().status for future in futures] == [200] * 5
        viewer.until(lambda _: viewer.model("slow")["in_flight"] == 0 and not busy_states(viewer))
        assert sum(one["batches"] for one in viewer.model("slow")["instances"].values()) >= 3


def test_generated_tokens_are_shown_once_a_model_records_some() -> None:
    with (
        Server(token_models.served("plain"), http="127.0.0.1:0", grpc=None) as server,
        Viewer(server.http_url) as viewer,
    ):
        viewer.next()
        assert viewer.state["models"]["plain/2"].get("tokens") is None
        infer(server.http_url, "plain", {"x": np.ones(1, np.float32)})
        viewer.until(lambda _: viewer.state["models"]["plain/2"].get("tokens"))


def busy_states(viewer: Viewer) -> list[str]:
    """The states of the model `slow`, sorted, if one of them is busy."""
    states = sorted(one["state"] for one in viewer.model("slow")["instances"].values())
    return states if "busy" in states else []


def test_event_loop_shows_its_calls() -> None:
    events = list[asyncio.Event]()

    async def wait(x: Any, ctx: Context) -> Any:
        events.append(asyncio.Event())
        await events[-1].wait()
        return x

    served = model(wait, name="slow", **ONE)
    with Server(served, http="127.0.0.1:0", grpc=None) as server, Viewer(server.http_url) as viewer:
        viewer.next()
        connections = [Connection(server.http_url) for _ in range(3)]
        calls = [partial(one.send_request, "POST", "/v2/models/slow/infer", BODY) for one in connections]
        futures = at_once(calls)
        until(lambda: len(events) == 3)
        viewer.until(lambda _: viewer.model("slow")["instances"]["0"]["running"] == 3)
        for connection in connections:
            connection.sock.shutdown(socket.SHUT_RDWR)
        for future in futures:
            future.exception()
        viewer.until(lambda _: viewer.model("slow")["instances"]["0"]["running"] == 0)


BODY = b'{"inputs": [{"name": "x", "datatype": "FP32", "shape": [1], "data": [1]}]}'


def test_processes_have_numbers_restarts_and_tracebacks() -> None:
    with Server(in_processes.fragile, http="127.0.0.1:0", grpc=None) as server, Viewer(server.http_url) as viewer:
        viewer.next()
        before = viewer.model(in_processes.fragile.name)["instances"]["0"]
        assert before["pid"] != os.getpid()
        assert before["rss"] > 0
        assert before["restarts"] == 0
        first = before["pid"]
        assert infer(server.http_url, in_processes.fragile.name, {"x": np.array([8], np.float32)}).status == 500
        viewer.until(lambda _: viewer.errors())
        assert "RuntimeError: a secret of the handler" in viewer.errors()[0]["traceback"]
        assert infer(server.http_url, in_processes.fragile.name, {"x": np.array([1], np.float32)}).status == 500

        def restarted(_: Any) -> Any:
            one = viewer.model(in_processes.fragile.name)["instances"]["0"]
            return one if one["restarts"] == 1 and one.get("pid") and one["state"] == "idle" else None

        after = viewer.until(restarted)
    assert after["reason"] == "exited"
    assert after["pid"] != first


def test_at_most_eight_viewers_are_served(server: Server) -> None:
    viewers = [Viewer(server.http_url) for _ in range(8)]
    try:
        assert all(viewer.next() for viewer in viewers)
        with Viewer(server.http_url) as ninth:
            assert ninth.refusal is not None
            assert ninth.refusal.status == 503
            text = "8 viewers watch this server at /live already, and no more are served: close one"
            assert ninth.refusal.error() == text
            assert "retry-after" in ninth.refusal.headers
        assert get(server.http_url, "/live").status == 200
        viewers.pop().__exit__()

        def is_served() -> bool:
            with Viewer(server.http_url) as viewer:
                return viewer.refusal is None

        until(is_served, "the place of a viewer that left")
    finally:
        for viewer in viewers:
            viewer.__exit__()


def test_live_page_can_be_off() -> None:
    served = model(twice, name="m", **ONE)
    with Server(served, http="127.0.0.1:0", grpc=None, live="off") as server:
        for path in ("/live", "/live/events"):
            response = get(server.http_url, path)
            assert response.status == 404
            assert response.error().startswith("Not Found")


@pytest.mark.parametrize("header", ["Forwarded", "Via", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-IP"])
def test_forwarded_requests_are_not_local(server: Server, header: str) -> None:
    for path in ("/live", "/live/events"):
        with Connection(server.http_url) as connection:
            refused = connection.send_request("GET", path, headers={header: "for=10.0.0.1"})
        assert refused.status == 403
        assert f"a proxy forwarded the request, by the header '{header.lower()}'" in refused.error()


def test_local_page_is_for_loopback_peers_of_any_listener() -> None:
    served = model(twice, name="m", **ONE)
    with Server(served, http="0.0.0.0:0", grpc=None) as server:
        assert server.http_address is not None
        port = server.http_address.rpartition(":")[2]
        local = f"http://127.0.0.1:{port}"
        assert get(local, "/live").status == 200
        with Viewer(local) as viewer:
            assert viewer.next()
        with Connection(local) as connection:
            rebound = connection.send_request("GET", "/live/events", headers={"Host": f"evil.example:{port}"})
        assert rebound.status == 403
        assert "'Host'" in rebound.error()
        if (own := address_of_this_machine()) is not None:
            for path in ("/live", "/live/events"):
                refused = get(f"http://{own}:{port}", path)
                assert refused.status == 403
                assert "the client is on another one" in refused.error()
            assert get(f"http://{own}:{port}", "/v2").status == 200


def address_of_this_machine() -> str | None:
    """An address of this machine that is not a loopback one, if it has any."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            sock.connect(("192.0.2.1", 9))
        except OSError:
            return None
        address = str(sock.getsockname()[0])
        return None if address.startswith("127.") else address


def test_live_on_is_for_all_that_may_read_statistics() -> None:
    served = model(twice, name="m", **ONE)
    rules = "statistics:admin=hush"
    with Server(served, http="127.0.0.1:0", grpc=None, live="on", restricted_access=rules) as server:
        assert get(server.http_url, "/live").status == 200, "the page has no figures"
        with Viewer(server.http_url) as viewer:
            assert viewer.refusal is not None
            assert viewer.refusal.error() == "This API is restricted, expecting header 'admin'"
        with Viewer(server.http_url, {"admin": "hush", "X-Forwarded-For": "10.0.0.1"}) as viewer:
            assert viewer.next()


def test_pages_of_other_origins_cannot_watch(server: Server) -> None:
    for site, mode, status in (
        ("cross-site", "no-cors", 403),
        ("same-site", "cors", 403),
        ("cross-site", "navigate", 200),
    ):
        with Connection(server.http_url) as connection:
            headers = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": mode}
            assert connection.send_request("GET", "/live", headers=headers).status == status


def test_page_is_restricted_by_its_policy(server: Server) -> None:
    response = get(server.http_url, "/live")
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    assert len(response.body) < 60_000
    policy = response.headers["content-security-policy"]
    assert re.fullmatch(
        r"default-src 'none'; style-src 'sha256-[\w+/=]+'; script-src 'sha256-[\w+/=]+'; connect-src 'self'; "
        r"base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        policy,
    )
    head = send_head(server)
    assert (head.status, head.body) == (200, b"")


def send_head(server: Server) -> HttpResponse:
    with Connection(server.http_url) as connection:
        return connection.send_request("HEAD", "/live")


def test_stopping_server_ends_the_events(server: Server) -> None:
    with Viewer(server.http_url) as viewer:
        viewer.next()
        sock = viewer.connection.sock
        server.stop()
        while viewer.next():
            pass
        assert sock is None or is_closed(sock)


def test_call_in_process_has_the_page_and_no_events() -> None:
    with Client(model(twice, name="m", **ONE)) as client:
        assert client.get("/live").status == 200
        assert client.get("/live/events").status == 501
