"""Requests and responses: single calls, batches, errors."""

from __future__ import annotations

import json
import socket
from typing import Any

import pytest
from modelbit_http import HttpClient
from modelbit_repository import Files

DEPLOYMENTS = {
    "doubler": Files("def doubler(half):\n    return half * 2\n", "doubler"),
    "echo": Files("def echo(*values):\n    return list(values)\n", "echo"),
    "one": Files("def one(value):\n    return value\n", "one"),
    "three": Files("def three(a, b, c=1):\n    return a + b * c\n", "three"),
    "fails": Files(
        "COUNT = 0\n"
        "def fails(value):\n"
        "    global COUNT\n"
        "    if value == 'count':\n        return COUNT\n"
        "    COUNT += 1\n"
        "    if value == 'exit':\n        raise SystemExit(3)\n"
        "    return 1 / value\n",
        "fails",
    ),
    "concurrent": Files(
        "import asyncio\n"
        "AT_ONCE = MOST = 0\n"
        "async def concurrent(value):\n"
        "    global AT_ONCE, MOST\n"
        "    AT_ONCE += 1\n"
        "    MOST = max(MOST, AT_ONCE)\n"
        "    await asyncio.sleep(0.05)\n"
        "    AT_ONCE -= 1\n"
        "    return [value, MOST]\n",
        "concurrent",
    ),
}
SETTINGS = {"max_body_bytes": 20_000_000}


def test_m01_batch_returns_a_row_for_each_id(served: HttpClient) -> None:
    response = served.raw("/v1/doubler/latest", b'{"data": [[1, 10], [2, 11], [3, 12]]}')
    assert response.body == b'{"data":[[1,20],[2,22],[3,24]]}'
    assert response.headers["content-type"] == "application/json"


@pytest.mark.parametrize("data", [21, 2.5, True, "text", None, {"a": [1]}, {}])
def test_m02_single_call_with_one_argument(served: HttpClient, data: Any) -> None:
    assert served.call("one", data).data == data


def test_m02_list_holds_the_arguments_of_one_call(served: HttpClient) -> None:
    assert served.call("echo", [1, "b", {"c": 2}, [3]]).data == [1, "b", {"c": 2}, [3]]
    assert served.call("three", [1, 2, 3]).data == 7
    assert served.call("three", [1, 2]).data == 3


def test_m02_header_makes_a_list_one_argument(served: HttpClient) -> None:
    assert served.call("one", [[20, 3]], {"X-Single": "true"}).data == [[20, 3]]
    assert served.call("one", [[20, 3]]).data == [[20, 3]], "without it: a row with the id 20"
    assert served.call("one", [1, 2], {"X-Single": "true"}).data == [1, 2]


def test_m03_dicts_and_several_arguments_in_a_batch(served: HttpClient) -> None:
    assert served.call("one", [[1, {"a": 2}], [2, {"a": 3}]]).data == [[1, {"a": 2}], [2, {"a": 3}]]
    assert served.call("three", [[1, 1, 2, 3], [2, 4, 5, 6]]).data == [[1, 7], [2, 34]]
    assert served.call("echo", [[1], [2]]).data == [[1, []], [2, []]], "rows without arguments"


def test_m04_ids_keep_type_and_order(served: HttpClient) -> None:
    ids = [9, "1", 1, 1.5, None, "b", True, 1]
    response = served.call("one", [[one, place] for place, one in enumerate(ids)]).data
    assert response == [[one, place] for place, one in enumerate(ids)]
    assert [type(row[0]) for row in response] == [type(one) for one in ids]


@pytest.mark.parametrize("headers", [{}, {"Content-Type": "application/x-www-form-urlencoded"}, {"Content-Type": "x"}])
def test_m07_content_type_of_the_body_is_ignored(served: HttpClient, headers: dict[str, str]) -> None:
    assert served.raw("/v1/doubler/latest", b' {"data": 4}', headers).data == 8


def test_m09_exception_is_sent_to_the_client(served: HttpClient) -> None:
    before = served.call("fails", "count").data
    response = served.call("fails", 0)
    assert (response.status, response.error) == (400, "ZeroDivisionError: division by zero")
    assert served.call("fails", "count").data == before + 1
    batch = served.call("fails", [["a", 1], ["b", 0]])
    assert (batch.status, batch.error) == (400, 'row id "b": ZeroDivisionError: division by zero')
    assert served.call("fails", "exit").error == "SystemExit: 3"
    assert "retry-after" not in response.headers


def test_m10_wrong_number_of_arguments_is_rejected(served: HttpClient) -> None:
    assert served.call("doubler", [1, 2]).error == "got 2, but function doubler takes 1 argument (half)"
    assert served.call("three", [1]).error == "got 1, but function three takes 2 to 3 arguments (a, b, c)"
    assert served.call("three", [[1, 1, 2], ["x", 1]]).error == (
        'row id "x": got 1, but function three takes 2 to 3 arguments (a, b, c); the first value of each row is its id'
    )
    assert served.call("doubler", [[20]]).error == (
        "row id 20: got 0, but function doubler takes 1 argument (half); the first value of each row is its id"
    )


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "the body is not JSON"),
        (b"{", "the body is not JSON"),
        (b"[1]", 'the body must be an object with the key "data", not [1]'),
        (b'{"input": 1}', 'the body must be an object with the key "data", not {"input": 1}'),
        (b'{"data": {"data": 3}}', '"data" is nested twice: send {"data": ...}, not {"data": {"data": ...}}'),
        (b'{"data": [[1, 2], 3]}', "row 1 of data is 3, expected a list [id, argument, ...] like the first row"),
        (b'{"data": [[1, 2], []]}', "row 1 of data is empty, expected [id, argument, ...]"),
        (b'{"data": [[[1], 2]]}', "row 0 of data has the id [1], expected a number, a text or null"),
        (b'{"data": 1, "timeout_seconds": 0}', "timeout_seconds is 0, expected a number above 0, up to 300"),
        (
            b'{"data": 1, "timeout_seconds": 301}',
            "timeout_seconds is 301, expected a number above 0, up to 300, or 900",
        ),
        (b'{"data": 1, "timeout_seconds": "1"}', 'timeout_seconds is "1", expected a number'),
        (b'{"data": 1, "timeout\\u005fseconds": -1}', "timeout_seconds is -1, expected a number"),
        (b'{"data": 1, "response_format": "csv"}', 'response_format is "csv", expected "links", or nothing'),
        (b'{"data": 1, "response_webhook": "https://x"}', "response_webhook: webhooks are disabled"),
    ],
)
def test_m10_invalid_bodies_are_rejected(served: HttpClient, body: bytes, message: str) -> None:
    response = served.raw("/v1/doubler/latest", body)
    assert response.status == 400
    assert response.error.startswith(message)


def test_m10_error_of_a_row_names_its_id(served: HttpClient) -> None:
    assert served.call("three", [[7, 1, 2], [8, 1, "b"]]).error.startswith("row id 8: TypeError: ")


def test_m18_async_functions_compute_rows_concurrently(served: HttpClient) -> None:
    assert served.call("concurrent", "a").data == ["a", 1]
    response = served.call("concurrent", [[place, place] for place in range(10)]).data
    assert [row[1][0] for row in response] == [*range(10)]
    assert max(row[1][1] for row in response) == 10


def test_m26_body_too_large_is_rejected(served: HttpClient) -> None:
    with socket.create_connection(("127.0.0.1", int(served.url.rpartition(":")[2])), timeout=30) as connection:
        # The body is not read, so a client that sends all of it first may not get to the response.
        connection.sendall(b"POST /v1/one/latest HTTP/1.1\r\nHost: localhost\r\nContent-Length: 25000000\r\n\r\n")
        response = b"".join(iter(lambda: connection.recv(65536), b""))
    head, _, body = response.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 413")
    assert b"retry-after" not in head.lower()
    assert "20000000" in json.loads(body)["error"]


def test_m27_per_row_errors_keep_other_results(served: HttpClient) -> None:
    response = served.call("fails", [[1, 2], [2, 0], [3, 4]], per_row_errors=True).data
    assert response == [[1, 0.5], [2, {"error": "ZeroDivisionError: division by zero"}], [3, 0.25]]


def test_m28_empty_batch_is_an_empty_list(served: HttpClient) -> None:
    assert served.raw("/v1/doubler/latest", b'{"data": []}').body == b'{"data":[]}'
