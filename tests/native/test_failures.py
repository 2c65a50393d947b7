"""Misbehaving servers: errors, retries, hedging and deadlines of the client."""

from __future__ import annotations

import socket
import threading
import time
from typing import Any

import numpy as np
import pytest
from observe import free_ports

from misbehaving import GOOD, Misbehaving, refusal
from penstock import AsyncClient, Client, InternalError, Overloaded, Timeout, TooLarge, Unavailable
from waiting import until

X = np.ones(1, np.int32)


@pytest.mark.parametrize("scheme", ["http", "grpc"])
def test_refused_connection_is_unavailable(scheme: str) -> None:
    (port,) = free_ports(1)
    with Client(f"{scheme}://127.0.0.1:{port}", retries=2, backoff=0.01) as client:
        with pytest.raises(Unavailable, match=f"cannot connect to {scheme}://127.0.0.1:{port}: .*refused") as raised:
            client.infer("m", x=X)
        assert raised.value.status is None
        with pytest.raises(Unavailable):
            client.live()


def test_missing_socket_is_unavailable() -> None:
    with Client("unix:/nonexistent/a.sock") as client, pytest.raises(Unavailable, match="cannot connect to http"):
        client.infer("m", x=X)


def test_retries_reach_a_server_that_starts_later() -> None:
    (port,) = free_ports(1)
    results: list[Any] = []

    def infer_until_up() -> None:
        with Client(f"http://127.0.0.1:{port}", retries=1000, backoff=0.02, max_backoff=0.02) as client:
            results.append(client.infer("m", x=X).value.item())

    thread = threading.Thread(target=infer_until_up)
    thread.start()
    time.sleep(0.1)
    with socket.create_server(("127.0.0.1", port)) as listener:
        connection, _ = listener.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(GOOD)
            thread.join(20)
    assert results == [7]


def test_inference_is_not_retried_after_a_lost_connection() -> None:
    with Misbehaving(lambda _: None) as server, Client(server.url, retries=5, backoff=0.01) as client:
        with pytest.raises(Unavailable, match="the connection was lost while an answer was awaited"):
            client.infer("m", x=X)
        assert server.requests == 1


def test_health_check_is_retried_after_a_lost_connection() -> None:
    live = b'HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n{"live":true}'
    with Misbehaving(lambda number: live if number == 2 else None) as server:
        with Client(server.url, retries=5, backoff=0.01) as client:
            assert client.live()
        assert server.requests == 3


@pytest.mark.parametrize("status", [429, 503])
def test_overloaded_response_with_retry_after_is_retried(status: int) -> None:
    def respond(number: int) -> bytes:
        return GOOD if number == 2 else refusal(status, b"Retry-After: 0")

    with Misbehaving(respond) as server:
        with Client(server.url, retries=2, backoff=0.01) as client:
            assert client.infer("m", x=X).value.item() == 7
        assert (server.requests, server.connections) == (3, 1)


@pytest.mark.parametrize(
    ("retries", "headers", "attempts"), [(0, [b"Retry-After: 0"], 1), (3, [], 1), (2, [b"Retry-After: 0"], 3)]
)
def test_overloaded_response_is_not_retried_otherwise(retries: int, headers: list[bytes], attempts: int) -> None:
    with Misbehaving(lambda _: refusal(429, *headers)) as server:
        with Client(server.url, retries=retries, backoff=0.01) as client:
            with pytest.raises(Overloaded, match="no") as raised:
                client.infer("m", x=X)
            assert raised.value.status == 429
            assert raised.value.retry_after == (0 if headers else None)
        assert server.requests == attempts


def test_retry_does_not_exceed_the_deadline() -> None:
    with Misbehaving(lambda _: refusal(429, b"Retry-After: 60")) as server:
        with Client(server.url, retries=3, timeout=0.5, max_backoff=60) as client:
            start = time.monotonic()
            with pytest.raises(Overloaded):
                client.infer("m", x=X)
            assert time.monotonic() - start < 5
        assert server.requests == 1


def test_closed_idle_connection_is_replaced() -> None:
    responses = [GOOD[:9] + b"200 OK\r\nConnection: keep-alive\r\n" + GOOD.split(b"\r\n", 1)[1]] * 3

    def respond(number: int) -> bytes:
        return responses[number]

    with Misbehaving(respond) as server, Client(server.url) as client:
        client.infer("m", x=X)
        client.infer("m", x=X)
        assert server.connections == 1

    closing = Misbehaving(lambda _: GOOD)
    with closing as server, Client(server.url) as client:
        client.infer("m", x=X)
        until(lambda: server.requests == 1)
    # A server that closes after each response without `Connection: close`.
    served = closing_server()
    with Client(served[0]) as client:
        for _ in range(3):
            assert client.infer("m", x=X).value.item() == 7
            served[1].acquire(timeout=20)


def closing_server() -> tuple[str, threading.Semaphore]:
    """A server that closes each connection after one response; the semaphore counts closes."""
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
    ("response", "error", "message"),
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
def test_malformed_responses_are_errors(response: bytes, error: type[Exception], message: str) -> None:
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        for _ in range(2):
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(response)
                connection.shutdown(socket.SHUT_WR)

    threading.Thread(target=serve, daemon=True).start()
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    with listener, Client(url) as client:
        with pytest.raises(error, match=message):
            client.infer("m", x=X)
        with pytest.raises(error, match=message):
            Client(url, hedge=60).infer("m", x=X)


def test_response_size_is_bounded() -> None:
    with (
        Misbehaving(lambda _: GOOD) as server,
        Client(server.url, max_answer_bytes=20) as client,
        pytest.raises(TooLarge, match="has more than 20 bytes, the limit 'max_answer_bytes'"),
    ):
        client.infer("m", x=X)


@pytest.mark.parametrize("scheme", ["http", "grpc"])
def test_unresponsive_server_times_out(scheme: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"{scheme}://127.0.0.1:{listener.getsockname()[1]}"
        for client in (Client(url, timeout=0.3), Client(url, timeout=0.3, hedge=0.1)):
            start = time.monotonic()
            with client, pytest.raises(Timeout, match="the deadline passed"):
                client.infer("m", x=X)
            assert 0.29 < time.monotonic() - start < 10


def test_slow_model_times_out_and_the_client_stays_usable(client: Client) -> None:
    with pytest.raises(Timeout):
        client.infer("slow", seconds=np.float64(1), timeout=0.1)
    assert client.infer("slow", seconds=np.float64(0)).value.item() == 0


def test_hedged_second_attempt_wins() -> None:
    gate = threading.Event()

    def respond(number: int) -> bytes:
        if number == 0:
            gate.wait(20)
        return GOOD

    with Misbehaving(respond) as server:
        with Client(server.url, hedge=0.05) as client:
            assert client.infer("m", x=X).value.item() == 7
            assert server.requests == 2
        gate.set()
        assert server.hung_up.acquire(timeout=20), "the first attempt was cancelled"


def test_hedging_is_skipped_if_unneeded_or_unsafe() -> None:
    with Misbehaving(lambda _: GOOD) as server, Client(server.url, hedge=30) as client:
        assert client.infer("m", x=X).value.item() == 7
        assert server.requests == 1

    def late(_: int) -> bytes:
        time.sleep(0.2)
        return GOOD

    with Misbehaving(late) as server, Client(server.url, hedge=0.01) as client:
        client.sequence("m", 1).infer(x=X)
        assert server.requests == 1


def test_failed_attempt_waits_for_the_hedged_one() -> None:
    def respond(number: int) -> bytes | None:
        time.sleep(0.2)
        return None if number == 0 else GOOD

    with Misbehaving(respond) as server, Client(server.url, hedge=0.05) as client:
        assert client.infer("m", x=X).value.item() == 7


def test_early_rejection_of_a_large_request_is_read() -> None:
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
        with pytest.raises(Exception, match="no") as raised:
            client.infer("m", x=np.zeros(8_000_000, np.float32))
        assert raised.value.status == 413  # type: ignore[attr-defined]


def test_async_client_does_not_retry_a_lost_inference() -> None:
    import asyncio

    async def main() -> None:
        with Misbehaving(lambda _: None) as server:
            async with AsyncClient(server.url, retries=3, backoff=0.01) as client:
                with pytest.raises(Unavailable):
                    await client.infer("m", x=X)
            assert server.requests == 1

    asyncio.run(main())
