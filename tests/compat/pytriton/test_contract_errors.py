"""1.9: errors for clients and for the server when a callable fails."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from bound import SharedCall, bound, rows

from penstock import HandlerError, InvalidInput, Overloaded
from penstock.compat.pytriton import exceptions
from penstock.compat.pytriton.decorators import batch
from penstock.compat.pytriton.exceptions import PyTritonUnrecoverableError
from waiting import at_once

PREFIX = "Failed to process the request(s) for model 'm_0_0', message: TritonModelException: Model execute error: "


def failing(error: BaseException) -> dict[str, Any]:
    """Returns callables of each kind that raise the error."""

    def plain(requests: list[Any]) -> Any:
        raise error

    async def awaited(requests: list[Any]) -> Any:
        raise error

    @batch
    def batched(x: Any) -> Any:
        raise error

    return {"plain": plain, "awaited": awaited, "batched": batched}


@pytest.mark.parametrize("kind", ["plain", "awaited", "batched"])
def test_clients_get_an_exception_without_its_traceback(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    with bound(failing(KeyError("no such key"))[kind]) as client:
        with pytest.raises(HandlerError) as caught:
            client.infer("m", {"x": rows(1)})
        assert client.last_response is not None
        assert client.last_response.status == 500
    assert str(caught.value) == f"{PREFIX}KeyError: 'no such key'"
    assert "Traceback" in caplog.text
    assert __file__ in caplog.text


@pytest.mark.parametrize("kind", ["plain", "awaited", "batched"])
@pytest.mark.parametrize(("error", "status"), [(InvalidInput("no"), 400), (Overloaded("later"), 429)])
def test_a_callable_may_choose_its_status(kind: str, error: Exception, status: int) -> None:
    with bound(failing(error)[kind]) as client:
        with pytest.raises(type(error), match=f"^{error}$"):
            client.infer("m", {"x": rows(1)})
        assert client.last_response is not None
        assert client.last_response.status == status


def test_all_requests_of_a_batch_fail_together() -> None:
    def infer(requests: list[Any]) -> Any:
        if len(requests) > 1:
            raise ValueError("one of you")
        return [{"y": request["x"]} for request in requests]

    shared = SharedCall(infer)
    with bound(shared, max_batch_size=8) as client:
        responses = shared.infer(client, [{"x": rows(0)}, {"x": rows(1)}, {"x": rows(2)}])
        assert [str(answer) for answer in responses[1:]] == [f"{PREFIX}ValueError: one of you"] * 2
        # The model keeps serving.
        assert client.infer("m", {"x": rows(3)})["y"].tolist() == [[3]]


@pytest.mark.parametrize("kind", ["plain", "awaited", "batched"])
def test_an_unrecoverable_error_is_reported_to_the_server(kind: str) -> None:
    reported: list[BaseException] = []
    error = PyTritonUnrecoverableError("gone for good")
    with bound(failing(error)[kind], unrecoverable=reported.append) as client, pytest.raises(HandlerError) as caught:
        client.infer("m", {"x": rows(1)})
    assert str(caught.value) == f"{PREFIX}PyTritonUnrecoverableError: gone for good"
    assert reported == [error]


def test_a_failing_stream_sends_earlier_responses_and_the_error() -> None:
    reported: list[BaseException] = []

    def plain(requests: list[Any]) -> Iterator[Any]:
        yield [{"y": request["x"]} for request in requests]
        raise PyTritonUnrecoverableError("half way")

    async def awaited(requests: list[Any]) -> AsyncIterator[Any]:
        for piece in plain(requests):
            yield piece

    for callable_ in (plain, awaited):
        with bound(callable_, decoupled=True, unrecoverable=reported.append) as client:
            answered = client.post("/v2/models/m/generate_stream", '{"x": [1]}').body.decode()
        first, second = (json.loads(line[6:]) for line in answered.splitlines() if line)
        assert first["y"] == 1.0
        assert second["error"] == f"{PREFIX}PyTritonUnrecoverableError: half way"
    assert len(reported) == 2


def test_the_instance_that_failed_is_named() -> None:
    gate = threading.Barrier(2, timeout=20)

    def infer(requests: list[Any]) -> Any:
        gate.wait()
        raise ValueError("both")

    with bound([infer, infer], max_batch_size=1) as client:
        futures = at_once([lambda: client.infer("m", {"x": rows(1)})] * 2)
        texts = sorted(str(future.exception()) for future in futures)
    assert texts == [PREFIX.replace("m_0_0", f"m_0_{index}") + "ValueError: both" for index in (0, 1)]


def test_the_exceptions_are_one_tree_with_messages() -> None:
    names = [name for name in exceptions.__all__ if name != "PyTritonError"]
    assert len(names) == 6
    for name in names:
        error = getattr(exceptions, name)("what")
        assert isinstance(error, exceptions.PyTritonError)
        assert (error.message, str(error)) == ("what", "what")
