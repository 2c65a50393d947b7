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
def test_exceptions_are_sent_without_traceback(kind: str, caplog: pytest.LogCaptureFixture) -> None:
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
def test_penstock_errors_set_the_status(kind: str, error: Exception, status: int) -> None:
    with bound(failing(error)[kind]) as client:
        with pytest.raises(type(error), match=f"^{error}$"):
            client.infer("m", {"x": rows(1)})
        assert client.last_response is not None
        assert client.last_response.status == status


def test_exception_fails_all_requests_of_a_batch() -> None:
    def infer(requests: list[Any]) -> Any:
        if len(requests) > 1:
            raise ValueError("bad batch")
        return [{"y": request["x"]} for request in requests]

    shared = SharedCall(infer)
    with bound(shared, max_batch_size=8) as client:
        responses = shared.infer(client, [{"x": rows(0)}, {"x": rows(1)}, {"x": rows(2)}])
        assert [str(one) for one in responses[1:]] == [f"{PREFIX}ValueError: bad batch"] * 2
        # The model keeps serving.
        assert client.infer("m", {"x": rows(3)})["y"].tolist() == [[3]]


@pytest.mark.parametrize("kind", ["plain", "awaited", "batched"])
def test_unrecoverable_error_is_reported_to_the_server(kind: str) -> None:
    reported: list[BaseException] = []
    error = PyTritonUnrecoverableError("broken")
    with bound(failing(error)[kind], unrecoverable=reported.append) as client, pytest.raises(HandlerError) as caught:
        client.infer("m", {"x": rows(1)})
    assert str(caught.value) == f"{PREFIX}PyTritonUnrecoverableError: broken"
    assert reported == [error]


def test_failing_stream_sends_earlier_responses_and_the_error() -> None:
    reported: list[BaseException] = []

    def plain(requests: list[Any]) -> Iterator[Any]:
        yield [{"y": request["x"]} for request in requests]
        raise PyTritonUnrecoverableError("midway")

    async def awaited(requests: list[Any]) -> AsyncIterator[Any]:
        for chunk in plain(requests):
            yield chunk

    for callable_ in (plain, awaited):
        with bound(callable_, decoupled=True, unrecoverable=reported.append) as client:
            body = client.post("/v2/models/m/generate_stream", '{"x": [1]}').body.decode()
        first, second = (json.loads(line[6:]) for line in body.splitlines() if line)
        assert first["y"] == 1.0
        assert second["error"] == f"{PREFIX}PyTritonUnrecoverableError: midway"
    assert len(reported) == 2


def test_error_names_the_failed_instance() -> None:
    gate = threading.Barrier(2, timeout=20)

    def infer(requests: list[Any]) -> Any:
        gate.wait()
        raise ValueError("both")

    with bound([infer, infer], max_batch_size=1) as client:
        futures = at_once([lambda: client.infer("m", {"x": rows(1)})] * 2)
        texts = sorted(str(future.exception()) for future in futures)
    assert texts == [PREFIX.replace("m_0_0", f"m_0_{index}") + "ValueError: both" for index in (0, 1)]


def test_exceptions_have_a_common_base_and_a_message() -> None:
    names = [name for name in exceptions.__all__ if name != "PyTritonError"]
    assert len(names) == 6
    for name in names:
        error = getattr(exceptions, name)("what")
        assert isinstance(error, exceptions.PyTritonError)
        assert (error.message, str(error)) == ("what", "what")
