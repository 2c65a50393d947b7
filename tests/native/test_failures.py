"""Servers that misbehave: what the client says, and how often it asks."""

from __future__ import annotations

import socket
import threading
import time
from typing import Any

import numpy as np
import pytest

from misbehaving import GOOD, Misbehaving, refusal
from penstock import AsyncClient, Client, InternalError, Overloaded, Timeout, TooLarge, Unavailable
from waiting import until

X = np.ones(1, np.int32)


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@pytest.mark.parametrize("scheme", ["http", "grpc"])
def test_nobody_listens(scheme: str) -> None:
    port = closed_port()
    with Client(f"{scheme}://127.0.0.1:{port}", retries=2, backoff=0.01) as client:
        with pytest.raises(Unavailable, match=f"cannot connect to {scheme}://127.0.0.1:{port}: .*refused") as caught:
            client.infer("m", x=X)
        assert caught.value.status is None
        with pytest.raises(Unavailable):
            client.live()


def test_no_such_socket() -> None:
    with Client("unix:/nonexistent/a.sock") as client, pytest.raises(Unavailable, match="cannot connect to http"):
        client.infer("m", x=X)


def test_a_server_that_comes_up_is_found_by_retries() -> None:
    port = closed_port()
    found: list[Any] = []

    def ask() -> None:
        with Client(f"http://127.0.0.1:{port}", retries=1000, backoff=0.02, max_backoff=0.02) as client:
            found.append(client.infer("m", x=X).value.item())

    thread = threading.Thread(target=ask)
    thread.start()
    time.sleep(0.1)
    with socket.create_server(("127.0.0.1", port)) as listener:
        connection, _ = listener.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(GOOD)
            thread.join(20)
    assert found == [7]


def test_a_connection_that_is_lost_after_the_request_is_not_asked_again() -> None:
    with Misbehaving(lambda _: None) as server, Client(server.url, retries=5, backoff=0.01) as client:
        with pytest.raises(Unavailable, match="the connection was lost while an answer was awaited"):
            client.infer("m", x=X)
        assert server.requests == 1


def test_a_question_is_asked_again() -> None:
    live = b'HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n{"live":true}'
    with Misbehaving(lambda number: live if number == 2 else None) as server:
        with Client(server.url, retries=5, backoff=0.01) as client:
            assert client.live()
        assert server.requests == 3


@pytest.mark.parametrize("status", [429, 503])
def test_a_full_server_is_asked_again_if_it_says_when(status: int) -> None:
    def answer(number: int) -> bytes:
        return GOOD if number == 2 else refusal(status, b"Retry-After: 0")

    with Misbehaving(answer) as server:
        with Client(server.url, retries=2, backoff=0.01) as client:
            assert client.infer("m", x=X).value.item() == 7
        assert (server.requests, server.connections) == (3, 1)


@pytest.mark.parametrize(
    ("retries", "headers", "asked"), [(0, [b"Retry-After: 0"], 1), (3, [], 1), (2, [b"Retry-After: 0"], 3)]
)
def test_but_not_otherwise(retries: int, headers: list[bytes], asked: int) -> None:
    with Misbehaving(lambda _: refusal(429, *headers)) as server:
        with Client(server.url, retries=retries, backoff=0.01) as client:
            with pytest.raises(Overloaded, match="no") as caught:
                client.infer("m", x=X)
            assert caught.value.status == 429
            assert caught.value.retry_after == (0 if headers else None)
        assert server.requests == asked


def test_a_retry_does_not_outlast_the_deadline() -> None:
    with Misbehaving(lambda _: refusal(429, b"Retry-After: 60")) as server:
        with Client(server.url, retries=3, timeout=0.5, max_backoff=60) as client:
            start = time.monotonic()
            with pytest.raises(Overloaded):
                client.infer("m", x=X)
            assert time.monotonic() - start < 5
        assert server.requests == 1


def test_an_idle_connection_that_was_closed_is_replaced() -> None:
    answers = [GOOD[:9] + b"200 OK\r\nConnection: keep-alive\r\n" + GOOD.split(b"\r\n", 1)[1]] * 3

    def answer(number: int) -> bytes:
        return answers[number]

    with Misbehaving(answer) as server, Client(server.url) as client:
        client.infer("m", x=X)
        client.infer("m", x=X)
        assert server.connections == 1

    closing = Misbehaving(lambda _: GOOD)
    with closing as server, Client(server.url) as client:
        client.infer("m", x=X)
        until(lambda: server.requests == 1)
    # A server that closes after each answer, without saying so.
    served = closing_server()
    with Client(served[0]) as client:
        for _ in range(3):
            assert client.infer("m", x=X).value.item() == 7
            served[1].acquire(timeout=20)


def closing_server() -> tuple[str, threading.Semaphore]:
    """Answers one request on each connection and closes it; the semaphore counts closes."""
    listener = socket.create_server(("127.0.0.1", 0))
    closed = threading.Semaphore(0)

    def serve() -> None:
        for _ in range(3):
            connection, _ = listener.accept()
            connection.recv(65536)
            connection.sendall(GOOD)
            connection.close()
            closed.release()
        listener.close()

    threading.Thread(target=serve, daemon=True).start()
    return f"http://127.0.0.1:{listener.getsockname()[1]}", closed


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        (GOOD[:-5], Unavailable, "the connection was lost while an answer was awaited: the server closed"),
        (b"SSH-2.0-OpenSSH\r\n\r\n", InternalError, "the server's answer is not HTTP/1.1"),
        (GOOD.replace(b"INT32", b"INT31"), InternalError, "does not follow the protocol: unknown datatype 'INT31'"),
        (GOOD.replace(b"[7]", b"{7}"), InternalError, "does not follow the protocol: its JSON at byte"),
        (
            GOOD.replace(b"Content-Type: application/json", b"Inference-Header-Content-Length: 999"),
            InternalError,
            "shorter than the JSON that it announces",
        ),
    ],
)
def test_answers_that_are_none(answer: bytes, error: type[Exception], message: str) -> None:
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        for _ in range(2):
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(answer)
                connection.shutdown(socket.SHUT_WR)

    threading.Thread(target=serve, daemon=True).start()
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    with listener, Client(url) as client:
        with pytest.raises(error, match=message):
            client.infer("m", x=X)
        with pytest.raises(error, match=message):
            Client(url, hedge=60).infer("m", x=X)


def test_an_endless_answer_is_bounded() -> None:
    with (
        Misbehaving(lambda _: GOOD) as server,
        Client(server.url, max_answer_bytes=20) as client,
        pytest.raises(TooLarge, match="has more than 20 bytes, the limit 'max_answer_bytes'"),
    ):
        client.infer("m", x=X)


@pytest.mark.parametrize("scheme", ["http", "grpc"])
def test_a_server_that_does_not_answer(scheme: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"{scheme}://127.0.0.1:{listener.getsockname()[1]}"
        for client in (Client(url, timeout=0.3), Client(url, timeout=0.3, hedge=0.1)):
            start = time.monotonic()
            with client, pytest.raises(Timeout, match="the deadline passed"):
                client.infer("m", x=X)
            assert 0.29 < time.monotonic() - start < 10


def test_a_slow_model_is_given_up(client: Client) -> None:
    with pytest.raises(Timeout):
        client.infer("slow", seconds=np.float64(1), timeout=0.1)
    assert client.infer("slow", seconds=np.float64(0)).value.item() == 0


def test_the_second_attempt_wins() -> None:
    gate = threading.Event()

    def answer(number: int) -> bytes:
        if number == 0:
            gate.wait(20)
        return GOOD

    with Misbehaving(answer) as server:
        with Client(server.url, hedge=0.05) as client:
            assert client.infer("m", x=X).value.item() == 7
            assert server.requests == 2
        gate.set()
        assert server.hung_up.acquire(timeout=20), "the first attempt was given up"


def test_no_second_attempt_where_none_is_needed_or_allowed() -> None:
    with Misbehaving(lambda _: GOOD) as server, Client(server.url, hedge=30) as client:
        assert client.infer("m", x=X).value.item() == 7
        assert server.requests == 1

    def late(_: int) -> bytes:
        time.sleep(0.2)
        return GOOD

    with Misbehaving(late) as server, Client(server.url, hedge=0.01) as client:
        client.sequence("m", 1).infer(x=X)
        assert server.requests == 1


def test_a_failed_attempt_waits_for_the_other() -> None:
    def answer(number: int) -> bytes | None:
        time.sleep(0.2)
        return None if number == 0 else GOOD

    with Misbehaving(answer) as server, Client(server.url, hedge=0.05) as client:
        assert client.infer("m", x=X).value.item() == 7


def test_early_refusals_of_large_requests_are_read() -> None:
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(1000)
            connection.sendall(refusal(413, b"Connection: close"))
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(1 << 20):
                pass

    threading.Thread(target=serve, daemon=True).start()
    with listener, Client(f"http://127.0.0.1:{listener.getsockname()[1]}") as client:
        with pytest.raises(Exception, match="no") as caught:
            client.infer("m", x=np.zeros(8_000_000, np.float32))
        assert caught.value.status == 413  # type: ignore[attr-defined]


def test_asyncio_too() -> None:
    import asyncio

    async def main() -> None:
        with Misbehaving(lambda _: None) as server:
            async with AsyncClient(server.url, retries=3, backoff=0.01) as client:
                with pytest.raises(Unavailable):
                    await client.infer("m", x=X)
            assert server.requests == 1

    asyncio.run(main())
