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


def test_r7_a_binary_event_gets_a_binary_event() -> None:
    with serving(Echo()) as served:
        answer = served.predict({"instances": ["é"]}, **HEADERS, ce_mine="x")
    assert answer.status_code == 200, answer.text
    assert answer.text == '{"predictions": {"instances": ["\\u00e9"]}}'
    said = {name.lower(): value for name, value in answer.headers.items()}
    assert said["content-type"] == "application/json"
    assert (said["ce-specversion"], said["ce-source"], said["ce-type"]) == (
        *("1.0", "io.kserve.inference.m"),
        "io.kserve.inference.response",
    )
    assert said["ce-id"] != "1"
    assert "ce-time" in said
    assert "ce-mine" not in said


def test_r7_a_structured_event_gets_a_structured_event() -> None:
    with serving(Echo()) as served:
        answer = served.predict({**EVENT, "mine": "x", "data": {"instances": [1]}}, content_type=STRUCTURED)
    said = answer.json()
    assert answer.headers["content-type"] == STRUCTURED
    assert said["data"] == {"predictions": {"instances": [1]}}
    assert list(said) == ["specversion", "id", "source", "type", "time", "data"]


def test_r7_an_event_in_plain_json_gets_a_plain_response() -> None:
    with serving(Echo()) as served:
        answer = served.predict({**EVENT, "data": {"instances": [1]}})
    assert answer.json() == {"predictions": {"instances": [1]}}


def test_r7_an_event_without_a_time_is_plain() -> None:
    body = {name: value for name, value in EVENT.items() if name != "time"} | {"data": [1]}
    with serving(Echo()) as served:
        answer = served.predict(body, content_type=STRUCTURED)
    assert answer.json()["data"] == {"predictions": body}


def test_r7_some_headers_of_an_event_make_none() -> None:
    with serving(Echo()) as served:
        answer = served.predict({"instances": []}, ce_specversion="1.0", ce_id="1")
    assert answer.text == '{"predictions":{"instances":[]}}'
    assert "ce-id" not in answer.headers


def test_r7_data_that_are_no_json_stay_bytes() -> None:
    with serving(Echo()) as served:
        answer = served.predict(b"\x00", content_type="application/json", **HEADERS)
        refused = served.predict(b"\x00", ce_content_type="application/json", **HEADERS)
        typed = served.predict(b"[1]", ce_contenttype="application/json", **HEADERS)
    assert answer.json() == {"predictions": "b'\\x00'"}
    assert refused.status_code == 400
    assert refused.json()["error"].startswith("Failed to decode or parse binary json cloudevent: ")
    assert typed.json() == {"predictions": [1]}


def test_r7_an_unknown_version_is_refused() -> None:
    with serving(Echo()) as served:
        answer = served.predict({"instances": []}, **{**HEADERS, "ce_specversion": "9"})
    assert (answer.status_code, answer.json()) == (
        400,
        {"error": "Cloud Event Exceptions: Found invalid specversion 9"},
    )


def test_r7_attributes_are_merged_if_the_environment_asks(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_r7_a_v2_event_gets_an_event() -> None:
    class Tensors(Model):
        def predict(self, payload: Any, headers: Any = None) -> Any:
            return {"id": payload.id, "outputs": [{"name": "y", "shape": [1], "datatype": "INT64", "data": [3]}]}

    model = Tensors("m")
    model.load()
    with serving(model) as served:
        answer = served.infer(**HEADERS)
    assert answer.headers["ce-source"] == "io.kserve.inference.m"
    assert json.loads(answer.content)["outputs"][0]["data"] == [3]
