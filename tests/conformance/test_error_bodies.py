"""Bodies of refusals over REST: always the protocol's error object."""

from __future__ import annotations

import json

import pytest

from .transports import Rest

ADD = "/v2/models/add"
EMPTY = b'{"inputs":[]}'

REFUSED: list[tuple[int, str, str, bytes, dict[str, str]]] = [
    (400, "POST", f"{ADD}/infer", b"", {}),
    (400, "POST", f"{ADD}/infer", b"{", {}),
    (400, "POST", f"{ADD}/infer", EMPTY, {}),
    (400, "POST", f"{ADD}/infer", b"abc", {"Content-Type": "application/x-npy"}),
    (400, "POST", f"{ADD}/infer", b"abc", {"Content-Type": "application/msgpack"}),
    (400, "POST", f"{ADD}/infer", b"abc", {"Content-Type": "application/x-www-form-urlencoded"}),
    (400, "POST", f"{ADD}/generate", b"[]", {}),
    (400, "POST", f"{ADD}/generate_stream", b"", {}),
    (400, "POST", "/v1/models/add:predict", b"{", {}),
    (400, "POST", "/v2/repository/index", b"[]", {}),
    (400, "POST", "/v2/logging", b"[]", {}),
    (400, "POST", "/v2/trace/setting", b"5", {}),
    (400, "POST", "/v2/cudasharedmemory/region/r/register", b"{}", {}),
    (404, "GET", "/nope", b"", {}),
    (404, "GET", "/v2/models/none", b"", {}),
    (404, "GET", "/v2/models/none/ready", b"", {}),
    (404, "GET", f"{ADD}/versions/abc", b"", {}),
    (404, "GET", f"{ADD}/versions/9/stats", b"", {}),
    (404, "GET", "/v1/models/none", b"", {}),
    (404, "POST", "/v1/models/none:predict", b"{}", {}),
    (404, "POST", "/v2/models/none/infer", EMPTY, {}),
    (405, "GET", f"{ADD}/infer", b"", {}),
    (405, "DELETE", ADD, b"", {}),
    (405, "PUT", "/v2/health/live", b"", {}),
    (405, "POST", "/metrics", b"", {}),
    (414, "GET", f"/v2/{'x' * 20_000}", b"", {}),
    (415, "POST", f"{ADD}/infer", EMPTY, {"Content-Encoding": "compress"}),
    (431, "GET", "/v2", b"", {"X-Long": "x" * 70_000}),
    (500, "POST", "/v2/models/boom/infer", b"", {}),
    (501, "POST", "/v2/repository/west/index", b"", {}),
    (501, "GET", "/v2/systemsharedmemory/status", b"", {}),
]
X = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1], "data": [1]}]}).encode()


@pytest.mark.trap("T8", "T9")
@pytest.mark.parametrize(
    ("status", "method", "path", "body", "headers"),
    [pytest.param(*row, id=f"{row[0]}-{row[1]}-{row[2][:40]}-{number}") for number, row in enumerate(REFUSED)],
)
def test_every_refusal_is_an_error_object(
    rest: Rest, status: int, method: str, path: str, body: bytes, headers: dict[str, str]
) -> None:
    rest.request(method, path, X if "boom" in path else body, headers).refusal(status)


@pytest.mark.trap("T8")
@pytest.mark.parametrize("path", ["/nope", "/v2/models/none"])
def test_head_refusal_has_content_length_but_no_body(rest: Rest, path: str) -> None:
    reply = rest.request("HEAD", path)
    assert (reply.status, reply.body) == (404, b"")
    assert int(reply.headers["content-length"]) == len(rest.request("GET", path).body)
