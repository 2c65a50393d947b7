"""CloudEvents to V1 and V2 (R7)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from kserve_serving import serving

from penstock.compat.kserve._request.cloud_events import STRUCTURED
from penstock.compat.kserve.model import Model

HEADERS = {"ce_specversion": "1.0", "ce_id": "1", "ce_source": "s", "ce_type": "t"}
EVENT = {"specversion": "1.0", "id": "1", "source": "s", "type": "t", "time": "2020-01-01T00:00:00Z"}


class Echo(Model):
    def __init__(self) -> None:
        super().__init__("m")
        self.load()

    def predict(self, payload: Any, headers: Any = None) -> Any:
        return {"predictions": repr(payload) if isinstance(payload, bytes) else payload}


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CE_MERGE", "CE_TYPE", "CE_SOURCE"):
        monkeypatch.delenv(name, raising=False)


def test_r7_binary_events_get_binary_events() -> None:
    with serving(Echo()) as served:
        response = served.predict({"instances": ["é"]}, **HEADERS, ce_mine="x")
    assert response.status_code == 200, response.text
    assert response.text == '{"predictions": {"instances": ["\\u00e9"]}}'
    headers = {name.lower(): value for name, value in response.headers.items()}
    assert headers["content-type"] == "application/json"
    assert (headers["ce-specversion"], headers["ce-source"], headers["ce-type"]) == (
        *("1.0", "io.kserve.inference.m"),
        "io.kserve.inference.response",
    )
    assert headers["ce-id"] != "1"
    assert "ce-time" in headers
    assert "ce-mine" not in headers


def test_r7_structured_events_get_structured_events() -> None:
    with serving(Echo()) as served:
        response = served.predict({**EVENT, "mine": "x", "data": {"instances": [1]}}, content_type=STRUCTURED)
    event = response.json()
    assert response.headers["content-type"] == STRUCTURED
    assert event["data"] == {"predictions": {"instances": [1]}}
    assert list(event) == ["specversion", "id", "source", "type", "time", "data"]


def test_r7_events_sent_as_plain_json_get_plain_responses() -> None:
    with serving(Echo()) as served:
        response = served.predict({**EVENT, "data": {"instances": [1]}})
    assert response.json() == {"predictions": {"instances": [1]}}


def test_r7_structured_events_without_a_time_are_plain_json() -> None:
    body = {name: value for name, value in EVENT.items() if name != "time"} | {"data": [1]}
    with serving(Echo()) as served:
        response = served.predict(body, content_type=STRUCTURED)
    assert response.json()["data"] == {"predictions": body}


def test_r7_incomplete_event_headers_are_not_an_event() -> None:
    with serving(Echo()) as served:
        response = served.predict({"instances": []}, ce_specversion="1.0", ce_id="1")
    assert response.text == '{"predictions":{"instances":[]}}'
    assert "ce-id" not in response.headers


def test_r7_event_data_without_json_type_stays_bytes() -> None:
    with serving(Echo()) as served:
        response = served.predict(b"\x00", content_type="application/json", **HEADERS)
        refused = served.predict(b"\x00", ce_content_type="application/json", **HEADERS)
        typed = served.predict(b"[1]", ce_contenttype="application/json", **HEADERS)
    assert response.json() == {"predictions": "b'\\x00'"}
    assert refused.status_code == 400
    assert refused.json()["error"].startswith("Failed to decode or parse binary json cloudevent: ")
    assert typed.json() == {"predictions": [1]}


def test_r7_unknown_specversions_are_refused() -> None:
    with serving(Echo()) as served:
        response = served.predict({"instances": []}, **{**HEADERS, "ce_specversion": "9"})
    assert (response.status_code, response.json()) == (
        400,
        {"error": "Cloud Event Exceptions: Found invalid specversion 9"},
    )


def test_r7_ce_merge_copies_request_attributes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CE_MERGE", "true")
    monkeypatch.setenv("CE_TYPE", "my.type")
    monkeypatch.setenv("CE_SOURCE", "my.source")
    with serving(Echo()) as served:
        binary = served.predict({"instances": []}, ce_mine="x", **HEADERS)
        structured = served.predict({**EVENT, "mine": "x", "data": []}, content_type=STRUCTURED).json()
    assert (binary.headers["ce-mine"], binary.headers["ce-type"], binary.headers["ce-source"]) == (
        *("x", "my.type"),
        "my.source",
    )
    assert (structured["mine"], structured["type"], structured["source"]) == ("x", "my.type", "my.source")
    assert structured["id"] != "1"
    assert structured["time"] != EVENT["time"]


def test_r7_v2_events_get_events() -> None:
    class Tensors(Model):
        def predict(self, payload: Any, headers: Any = None) -> Any:
            return {"id": payload.id, "outputs": [{"name": "y", "shape": [1], "datatype": "INT64", "data": [3]}]}

    model = Tensors("m")
    model.load()
    with serving(model) as served:
        response = served.infer(**HEADERS)
    assert response.headers["ce-source"] == "io.kserve.inference.m"
    assert json.loads(response.content)["outputs"][0]["data"] == [3]
