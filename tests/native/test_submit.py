"""`Client.submit`: calls that return `concurrent.futures` futures."""

from __future__ import annotations

import asyncio
import os
import threading
from concurrent.futures import CancelledError, Future, wait
from typing import Any

import numpy as np
import pytest

from penstock import Client, Context, InvalidInput, NotFound, PenstockError, Server, Tensor, Timeout, model
from penstock.client import Pending
from waiting import PATIENCE, Gate, until


def row(value: float) -> np.ndarray[Any, Any]:
    return np.full((1, 3), value, np.float32)


def future_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "penstock-futures"]


def test_concurrent_submissions_share_one_thread(client: Client) -> None:
    futures = [client.submit("double", x=row(value)) for value in range(300)]
    assert [future.result(PATIENCE)["y"][0, 0] for future in futures] == [2.0 * value for value in range(300)]
    assert len(future_threads()) == 1


def test_submit_supports_all_arguments_of_infer(client: Client) -> None:
    future = client.submit("arithmetic", {"a": np.ones(2, np.float32)}, b=np.ones(2, np.float32), outputs=["sum"])
    result = future.result(PATIENCE)
    assert list(result) == ["sum"]
    assert result.value.tolist() == [2, 2]
    assert client.submit("upper", text="a").result(PATIENCE).text == "A"
    assert client.submit("upper", text="a", request_id="7").result(PATIENCE).id == "7"


def test_call_errors_are_in_the_future_and_argument_errors_are_raised(client: Client) -> None:
    with pytest.raises(NotFound):
        client.submit("nothing", x=row(1)).result(PATIENCE)
    assert isinstance(client.submit("slow", seconds=np.float64(1), timeout=0.05).exception(PATIENCE), Timeout)
    with pytest.raises(InvalidInput, match="complex"):
        client.submit("double", x=np.zeros((1, 3), np.complex64))


def test_closed_client_rejects_submissions(url: str) -> None:
    client = Client(url)
    future = client.submit("double", x=row(1))
    client.close()
    assert client.closed
    assert future.result(PATIENCE).y[0, 0] == 2
    with pytest.raises(PenstockError, match="is closed"):
        client.submit("double", x=row(1))


@pytest.mark.parametrize("scheme", ["http", "grpc"])
def test_cancelled_future_cancels_the_request(scheme: str) -> None:
    gate, cancelled, called_back = Gate(), threading.Event(), threading.Event()

    @model(inputs=[Tensor("x", np.float32, [1])], outputs=[Tensor("y", np.float32, [1])])
    def held(x: Any, ctx: Context) -> Any:
        gate.enter()
        until(lambda: ctx.cancelled, "the cancellation")
        cancelled.set()
        return x

    with Server(held, http="127.0.0.1:0", grpc="127.0.0.1:0") as server:
        url = server.http_url if scheme == "http" else f"grpc://{server.grpc_address}"
        with Client(url) as client:
            future = client.submit("held", x=np.ones(1, np.float32))
            future.add_done_callback(lambda _: called_back.set())
            gate.await_entered()
            assert not future.done()
            assert future.cancel()
            assert future.cancel()
            assert called_back.wait(PATIENCE)
            with pytest.raises(CancelledError):
                future.result()
            gate.open()
            assert cancelled.wait(PATIENCE)


def test_callbacks_may_wait_for_other_calls(client: Client) -> None:
    results: list[float] = []

    def infer_again(future: Future[Any]) -> None:
        # On the thread that completes futures, this would deadlock.
        results.append(client.submit("double", x=future.result().y).result(PATIENCE).y[0, 0])

    for _ in range(8):
        client.submit("double", x=row(1)).add_done_callback(infer_again)
    until(lambda: len(results) == 8, "the callbacks")
    assert results == [4.0] * 8
    done = client.submit("double", x=row(1))
    wait([done], PATIENCE)
    done.add_done_callback(lambda future: results.append(-1.0))
    assert results[-1] == -1.0


def test_event_loop_may_await_futures(client: Client) -> None:
    async def main() -> list[float]:
        futures = [asyncio.wrap_future(client.submit("double", x=row(value))) for value in range(20)]
        return [result.y[0, 0] for result in await asyncio.gather(*futures)]

    assert asyncio.run(main()) == [2.0 * value for value in range(20)]


def test_failed_callback_is_logged(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    def fail(_: Any) -> None:
        raise ValueError("no")

    client.submit("slow", seconds=np.float64(0.05)).add_done_callback(fail)
    until(lambda: "a callback of a future failed" in caplog.text, "the log record")
    assert client.submit("double", x=row(1)).result(PATIENCE).y[0, 0] == 2


def test_submit_accepts_a_custom_future(client: Client) -> None:
    class Number(Pending[float]):
        def set_result(self, result: Any) -> None:
            super().set_result(float(result.value[0, 0]))

    custom = Number()
    assert client.submit("double", x=row(4), into=custom) is custom
    assert custom.result(PATIENCE) == 8.0


def test_future_whose_set_result_fails_is_logged(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Pending[Any]):
        def set_result(self, result: Any) -> None:
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        client.submit("double", x=row(1), into=Broken()).result(PATIENCE)
    assert "could not be resolved" in caplog.text
    assert client.submit("double", x=row(1)).result(PATIENCE).y[0, 0] == 2


def test_forked_child_can_submit(client: Client) -> None:
    assert client.submit("double", x=row(1)).result(PATIENCE).y[0, 0] == 2
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = 0 if client.submit("double", x=row(3)).result(PATIENCE).y[0, 0] == 6 else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert client.submit("double", x=row(1)).result(PATIENCE).y[0, 0] == 2
