"""Arguments of models: bodies of all content types, headers, events; and response headers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from kserve_serving import serving

from penstock.compat.kserve import dialect
from penstock.compat.kserve._request.bind import BindOptions
from penstock.compat.kserve.model import InferenceVerb, Model


class Echo(Model):
    """Returns its arguments."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__("m", *arguments)
        self.seen: list[Any] = []
        self.load()

    def predict(self, payload: Any, headers: Any = None) -> Any:
        self.seen.append((payload, headers))
        return {"predictions": payload if isinstance(payload, (dict, list)) else repr(payload)}

    async def explain(self, payload: Any, headers: Any = None) -> Any:
        return {"explanations": payload["instances"]}


@pytest.fixture(autouse=True)
def _dialect() -> Iterator[None]:
    before = dialect.current()
    yield
    dialect.use(before)


BODY = b'{"instances": [1]}'
READ, RAW = {"predictions": {"instances": [1]}}, {"predictions": repr(BODY)}


@pytest.mark.parametrize(
    ("media", "loose", "exact"),
    [
        ("application/json", READ, READ),
        ("application/ld+json", READ, READ),
        ("application/json; charset=utf-8", READ, RAW),
        ("Application/JSON", READ, RAW),
        ("application/problem+json", READ, RAW),
        ("text/plain", RAW, RAW),
        ("application/x-www-form-urlencoded", RAW, RAW),
        ("application/octet-stream", READ, READ),
    ],
)
def test_json_media_types_with_loose_and_exact_matching(media: str, loose: Any, exact: Any) -> None:
    with serving(Echo()) as served:
        assert served.predict(BODY, content_type=media).json() == loose
    with serving(Echo(), options=BindOptions(exact_content_types=True)) as served:
        assert served.predict(BODY, content_type=media).json() == exact


def test_octet_stream_bodies_stay_bytes_in_dialect_0_13() -> None:
    dialect.use("0.13")
    with serving(Echo()) as served:
        assert served.predict(BODY, content_type="application/octet-stream").json() == RAW


def test_body_without_content_type_is_json() -> None:
    import http.client

    with serving(Echo()) as served:
        connection = http.client.HTTPConnection(served.http.removeprefix("http://"), timeout=20)
        connection.request("POST", "/v1/models/m:predict", BODY)
        assert json.loads(connection.getresponse().read()) == READ
        connection.close()


@pytest.mark.parametrize("path", ["/v1/models/m:predict", "/v1/models/m%3Apredict", "/v1/models/m%3apredict"])
def test_colon_in_paths_may_be_percent_encoded(path: str) -> None:
    with serving(Echo()) as served:
        assert served.post(path, {"instances": [1]}).json() == READ


@pytest.mark.parametrize("path", ["/v1/models/m:explain", "/v1/models/m%3Aexplain"])
def test_s13_async_explain_works_with_sync_predict(path: str) -> None:
    with serving(Echo()) as served:
        assert served.post(path, {"instances": [1]}).json() == {"explanations": [1]}


def test_any_json_value_is_accepted_as_body() -> None:
    model = Echo()
    with serving(model) as served:
        assert served.predict([1, "é"]).json() == {"predictions": [1, "é"]}
    assert model.seen[0][0] == [1, "é"]


def test_request_headers_are_a_dict_of_lowercase_names() -> None:
    model = Echo()
    with serving(model) as served:
        served.predict({"instances": []}, X_Request_Id="r", Authorization="Bearer t")
    headers = model.seen[0][1]
    assert type(headers) is dict
    assert (headers["x-request-id"], headers["authorization"]) == ("r", "Bearer t")


class Headed(Model):
    def __init__(self, own_headers: dict[str, str]) -> None:
        super().__init__("m", return_response_headers=True)
        self.own_headers = own_headers
        self.load()

    def predict(self, payload: Any, headers: Any = None, response_headers: Any = None) -> Any:
        response_headers.update(self.own_headers)
        return payload if isinstance(payload, dict) else {"outputs": []}

    def explain(self, payload: Any, headers: Any = None) -> Any:
        return payload

    def postprocess(self, result: Any, headers: Any = None, response_headers: Any = None) -> Any:
        response_headers["x-post"] = response_headers.get("x-own", "")
        return result


def test_d4_response_headers_omit_hop_by_hop_headers() -> None:
    own_headers = {"x-own": "1", "Content-Length": "9999", "connection": "close", "Transfer-Encoding": "chunked"}
    with serving(Headed(own_headers)) as served:
        v1, v2 = served.predict({"instances": []}), served.infer()
    for response in (v1, v2):
        assert response.status_code == 200, response.text
        assert (response.headers["x-own"], response.headers["x-post"]) == ("1", "1")
        assert response.headers.get("connection", "") != "close"
    assert v1.json() == {"instances": []}


def test_response_headers_may_set_content_type_on_v1() -> None:
    with serving(Headed({"content-type": "application/vnd.m+json"})) as served:
        assert served.predict({"instances": []}).headers["content-type"] == "application/vnd.m+json"
        assert served.infer().headers["content-type"] == "application/json"


def test_explain_does_not_echo_request_headers() -> None:
    with serving(Headed({})) as served:
        response = served.post("/v1/models/m:explain", {"instances": []}, authorization="secret", x_mine="1")
    assert response.status_code == 200
    assert not {"authorization", "x-mine", "host", "user-agent"} & {name.lower() for name in response.headers}


@pytest.mark.parametrize("old", [True, False], ids=["0.13", "0.21"])
@pytest.mark.parametrize("waits", [True, False], ids=["async", "plain"])
def test_s11_models_may_override_call(old: bool, waits: bool) -> None:
    def call(self: Any, body: Any, headers: Any = None, verb: Any = InferenceVerb.PREDICT) -> Any:
        result = {"verb": verb.name, "body": body, "id": headers["x-request-id"]}
        return result if old else (result, {"x-own": "1"})

    async def call_async(self: Any, body: Any, headers: Any = None, verb: Any = InferenceVerb.PREDICT) -> Any:
        return call(self, body, headers, verb)

    model = type("Own", (Model,), {"__call__": call_async if waits else call})("m")
    model.load()
    with serving(model) as served:
        predicted = served.predict([1], x_request_id="r")
        explained = served.post("/v1/models/m:explain", [2], x_request_id="s")
    assert predicted.json() == {"verb": "PREDICT", "body": [1], "id": "r"}
    assert explained.json() == {"verb": "EXPLAIN", "body": [2], "id": "s"}
    assert predicted.headers.get("x-own") == (None if old else "1")
