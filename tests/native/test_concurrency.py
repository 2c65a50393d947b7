"""Client under threads, tasks, forks, signals and interpreter shutdown."""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from native_models import STARTED
from penstock import AsyncClient, Client, InvalidInput, Timeout


def infer_doubles(client: Client, value: int) -> bool:
    x = np.full((1, 3), value, np.float32)
    return bool((client.infer("double", x=x).y == value * 2).all())


def test_many_threads_share_a_client(client: Client) -> None:
    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(lambda value: infer_doubles(client, value), range(800)))


def test_many_tasks_share_a_client(url: str) -> None:
    async def main() -> None:
        async with AsyncClient(url) as client:

            async def infer_once(value: int) -> bool:
                result = await client.infer("double", x=np.full((1, 3), value, np.float32))
                return bool((result.y == value * 2).all())

            assert all(await asyncio.gather(*(infer_once(value) for value in range(500))))
            assert await client.live()
            assert (await client.metadata("double"))["name"] == "double"
            assert (await client.infer("upper", text="a")).text == "A"
            with pytest.raises(InvalidInput):
                await client.infer("double", x=np.zeros(3, np.int8))
            with pytest.raises(Timeout):
                await client.infer("slow", seconds=np.float64(1), timeout=0.1)
            sequence = client.sequence("double", 3)
            await sequence.infer(x=np.zeros((1, 3), np.float32), end=True)
            with pytest.raises(ValueError, match="sequence 3 has ended"):
                await sequence.infer(x=np.zeros((1, 3), np.float32))

    asyncio.run(main())


def test_async_client_works_on_consecutive_event_loops(url: str) -> None:
    async def main(client: AsyncClient) -> Any:
        return (await client.infer("upper", text="a")).text

    client = AsyncClient(url)
    assert [asyncio.run(main(client)) for _ in range(3)] == ["A"] * 3


def test_cancelled_task_closes_its_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        disconnected = threading.Event()
        received = threading.Event()

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                received.set()
                if connection.recv(1) == b"":
                    disconnected.set()

        threading.Thread(target=serve, daemon=True).start()

        async def main() -> None:
            async with AsyncClient(f"http://127.0.0.1:{listener.getsockname()[1]}") as client:
                task = asyncio.create_task(client.infer("m", x=np.ones(1, np.int32)))
                await asyncio.to_thread(received.wait, 20)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                assert await asyncio.to_thread(disconnected.wait, 20)

        asyncio.run(main())


def test_sequences_flag_their_first_and_last_request(client: Client) -> None:
    x = np.zeros((1, 3), np.float32)
    with client.sequence("double", 42) as sequence:
        assert sequence._parameters({"k": 1}, False) == {
            "k": 1,
            "sequence_id": 42,
            "sequence_start": True,
            "sequence_end": False,
        }
        sequence.infer(x=x)
        assert sequence._parameters(None, True)["sequence_start"] is False
        sequence.infer(x=x, end=True)
        assert sequence.ended
        with pytest.raises(ValueError, match="sequence 42 has ended: begin another"):
            sequence.infer(x=x)


def test_blocking_call_releases_the_gil(client: Client) -> None:
    iterations = 0
    completed = threading.Event()

    def count() -> None:
        nonlocal iterations
        while not completed.is_set():
            iterations += 1
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    client.infer("slow", seconds=np.float64(0.3))
    completed.set()
    thread.join()
    assert iterations > 20


SCRIPT = """
    import os, signal, sys, threading
    import numpy as np
    from penstock import AsyncClient, Client
    url = sys.argv[1]
"""


def run(script: str, url: str, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    code = textwrap.dedent(SCRIPT) + textwrap.dedent(script)
    command = [sys.executable, "-c", code, url]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)


def test_forked_child_opens_new_connections(url: str) -> None:
    completed = run(
        """
        import asyncio
        x = np.ones((1, 3), np.float32)
        client, shared = Client(url), AsyncClient(url)
        async def infer_sum():
            return (await shared.infer("double", x=x)).y.sum()
        assert client.infer("double", x=x).y.sum() == 6 and asyncio.run(infer_sum()) == 6
        child = os.fork()
        if child == 0:
            ok = client.infer("double", x=x).y.sum() == 6 and asyncio.run(infer_sum()) == 6
            os._exit(0 if ok else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert client.infer("double", x=x).y.sum() == 6 and asyncio.run(infer_sum()) == 6
        """,
        url,
    )
    assert (completed.returncode, completed.stderr) == (0, "")


def test_interpreter_exits_with_open_streams(url: str) -> None:
    before = STARTED.value
    completed = run(
        """
        import asyncio
        stream = Client(url).stream("endless", n=np.int32(1))
        next(stream)
        async def main():
            global chunks
            chunks = AsyncClient(url).stream("endless", n=np.int32(1))
            await chunks.__anext__()
        asyncio.run(main())
        threading.Thread(target=lambda: list(Client(url).stream("endless", n=np.int32(1))), daemon=True).start()
        """,
        url,
    )
    assert (completed.returncode, completed.stderr) == (0, "")
    assert STARTED.value > before


@pytest.mark.parametrize("options", ["", ", hedge=0.1"])
def test_ctrl_c_interrupts_a_call(url: str, options: str) -> None:
    completed = run(
        f"""
        client = Client(url{options})
        client.infer("upper", text="a")
        threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        try:
            client.infer("slow", seconds=np.float64(5))
        except KeyboardInterrupt:
            print("ended")
        print(client.infer("upper", text="a").text)
        """,
        url,
    )
    assert (completed.stdout, completed.returncode) == ("ended\nA\n", 0), completed.stderr


def test_non_raising_signals_do_not_interrupt_a_call(client: Client) -> None:
    previous = signal.signal(signal.SIGALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
    try:
        assert client.infer("slow", seconds=np.float64(0.3)).value.item() == 0.3
        values = np.ones(5_000_000, np.float32)
        assert client.infer("large", x=values).y.sum() == 10_000_000
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
