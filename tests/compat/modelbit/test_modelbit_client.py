"""M-12: Penstock's `get_inference`, against a recording server."""

from __future__ import annotations

import inspect
import time
from typing import Any

import numpy as np
import pandas as pd
import pytest
from modelbit_receiver import Posted, echo_rows, run_receiver

from penstock.compat.modelbit import UserFacingError, get_inference
from penstock.compat.modelbit._client import http_retry

OFFICIAL = [
    *("deployment", "data", "region", "outpost", "workspace", "branch", "version", "api_key", "timeout_seconds"),
    *("batch_size", "batch_bytes", "batch_concurrency"),
    *("response_format", "response_webhook", "response_webhook_ignore_timeout"),
]


def test_m12_parameters_equal_the_vendors() -> None:
    assert [*inspect.signature(get_inference).parameters] == [*OFFICIAL, "base_url"]


def test_m12_path_and_headers_of_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    with run_receiver(lambda _, __: (200, {"data": 1})) as receiver:
        monkeypatch.setenv("MB_BASE_URL", receiver.url)
        get_inference("f", {"a": np.int64(1)}, branch="a/b", version=3, api_key="key", timeout_seconds=9)
        get_inference("f", 1)
    first, second = receiver.requests
    assert (first.path, first.headers["authorization"]) == ("/v1/f/a~b/3", "key")
    assert first.body == {"data": {"a": 1}, "timeout_seconds": 9}
    assert (second.path, second.body, "authorization" in second.headers) == ("/v1/f/main/latest", {"data": 1}, False)


def test_m12_batches_are_split_by_rows() -> None:
    with run_receiver(echo_rows) as receiver:
        rows = [[place, place * 2] for place in range(25)]
        response = get_inference("f", rows, base_url=receiver.url, batch_size=10, batch_concurrency=2)
    assert response == {"data": rows}
    assert sorted(len(one.body["data"]) for one in receiver.requests) == [5, 10, 10]
    assert receiver.most_at_once <= 2


def test_m12_batches_are_split_by_bytes() -> None:
    with run_receiver(echo_rows) as receiver:
        rows = [[place, "x" * 100] for place in range(16)]
        response = get_inference("f", rows, base_url=receiver.url, batch_bytes=600)
        assert response == {"data": rows}
        assert len(receiver.requests) == 4
        with pytest.raises(UserFacingError, match="A row is larger than batch_bytes"):
            get_inference("f", [[1, "x" * 700]], base_url=receiver.url, batch_bytes=600)


def test_m12_chunks_are_sent_concurrently() -> None:
    def slow(_: int, request: Posted) -> tuple[int, Any]:
        time.sleep(0.1)
        return 200, {"data": request.body["data"]}

    with run_receiver(slow) as receiver:
        get_inference("f", [[place] for place in range(9)], base_url=receiver.url, batch_size=1)
    assert receiver.most_at_once == 3


def test_m12_data_frames_are_sent_as_rows() -> None:
    frame = pd.DataFrame({"a": [1, 2], "b": [0.5, float("nan")]}, index=["x", "y"])
    with run_receiver(lambda _, request: (200, {"data": request.body["data"]})) as receiver:
        response = get_inference("f", frame, base_url=receiver.url)
    assert response == {"data": [["x", {"a": 1, "b": 0.5}], ["y", {"a": 2, "b": None}]]}


@pytest.mark.parametrize("status", [429, 503])
def test_m12_busy_responses_are_retried(status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_retry, "PAUSE", 0.001)
    with run_receiver(lambda number, _: (status, {"error": "busy"}) if number < 4 else (200, {"data": 1})) as receiver:
        assert get_inference("f", 1, base_url=receiver.url) == {"data": 1}
        assert len(receiver.requests) == 4
    with run_receiver(lambda _, __: (status, {"error": "busy"})) as receiver:
        with pytest.raises(UserFacingError, match="busy"):
            get_inference("f", 1, base_url=receiver.url)
        assert len(receiver.requests) == 6


def test_m12_retry_after_delays_the_retry(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    monkeypatch.setattr(http_retry.time, "sleep", waited.append)
    with run_receiver(lambda number, _: (503, {"error": "busy"}) if number == 1 else (200, {"data": 1})) as receiver:
        receiver.headers["Retry-After"] = "7"
        get_inference("f", 1, base_url=receiver.url)
    assert waited == [7.0]


@pytest.mark.parametrize("status", [400, 408, 500, 502, 504])
def test_m12_statuses_without_a_retry(status: int) -> None:
    with run_receiver(lambda _, __: (status, {"error": "a\nlast line"})) as receiver:
        with pytest.raises(UserFacingError, match="last line"):
            get_inference("f", 1, base_url=receiver.url)
        assert len(receiver.requests) == 1


def test_m12_failed_connection_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_retry, "PAUSE", 0.001)
    with pytest.raises(UserFacingError, match=r"Unable to connect to 'http://127.0.0.1:1/v1/f/main/latest'"):
        get_inference("f", 1, base_url="http://127.0.0.1:1")


def test_m12_chunks_after_a_failure_are_not_sent() -> None:
    def fail(number: int, request: Posted) -> tuple[int, Any]:
        time.sleep(0.02)
        return (400, {"error": "no"}) if number == 2 else (200, {"data": request.body["data"]})

    with run_receiver(fail) as receiver:
        with pytest.raises(UserFacingError, match="no"):
            get_inference("f", [[place] for place in range(100)], base_url=receiver.url, batch_size=1)
        assert len(receiver.requests) < 20


def test_m20_split_batches_return_links_and_batch_ids() -> None:
    rows = [[1], [2]]
    with run_receiver(lambda number, _: (200, {"data": f"http://link/{number}"})) as receiver:
        response = get_inference("f", rows, base_url=receiver.url, batch_size=1, response_format="links")
        assert sorted(response["data"]) == ["http://link/1", "http://link/2"]
        assert get_inference("f", rows, base_url=receiver.url, response_format="links") == {"data": "http://link/3"}
    with run_receiver(lambda number, _: (200, {"batchId": number})) as receiver:
        hook = {"response_webhook": "https://x", "response_webhook_ignore_timeout": True}
        response = get_inference("f", rows, base_url=receiver.url, batch_size=1, **hook)  # type: ignore[arg-type]
        assert sorted(response["batchIds"]) == [1, 2]
        assert receiver.requests[0].body == {"data": [receiver.requests[0].body["data"][0]], **hook}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"data": {"data": 1}}, "double-nested"),
        ({"deployment": "a b"}, "Invalid 'deployment' value"),
        ({"branch": "a?b"}, "Invalid 'branch' value"),
        ({"api_key": "a\nb"}, "Invalid 'api_key' value"),
        ({"timeout_seconds": 0}, "Invalid 'timeout_seconds' value"),
        ({"batch_size": True}, "Invalid 'batch_size' value"),
        ({"response_format": "csv"}, "Invalid 'response_format' value"),
        ({"response_webhook_ignore_timeout": True}, "'response_webhook_ignore_timeout' must be a bool"),
        ({"base_url": "localhost"}, "Invalid 'base_url' value"),
        ({"base_url": None}, "Missing 'region' value"),
        ({"base_url": None, "region": "us-east-1"}, "Missing 'workspace' value"),
    ],
)
def test_m12_invalid_arguments_are_rejected(
    arguments: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("MB_BASE_URL", "MB_WORKSPACE_NAME", "MB_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(UserFacingError) as raised:
        get_inference(**{"deployment": "f", "data": 1, "base_url": "http://127.0.0.1:1", **arguments})
    assert message in str(raised.value)


def test_m12_default_hosts_are_the_vendors() -> None:
    from penstock.compat.modelbit._client.inference import _host

    assert _host(None, "us-east-2.aws", None, "acme") == "https://acme.us-east-2.aws.modelbit.com"
    assert _host(None, "us-east-2.aws", "out", "acme") == "https://acme.out.us-east-2.aws.modelbit.com"
    assert _host(None, "localhost:5000", None, "acme") == "http://acme.localhost:5000"
