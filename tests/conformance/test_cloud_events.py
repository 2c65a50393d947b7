"""CloudEvents on the inference routes of V1 and V2, in binary and structured mode."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from models.v1 import MODELS
from penstock.testing import Client

from .transports import InProcess, Reply

ATTRIBUTES = {"specversion": "1.0", "id": "7", "source": "/here", "type": "io.example.ask"}
STRUCTURED = {"Content-Type": "application/cloudevents+json"}
V1 = {"instances": [[1, 2]]}
V2 = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [1, 2]}]}


@pytest.fixture(scope="module")
def events() -> Iterator[InProcess]:
    with Client(*MODELS, cloud_events=True) as client:
        yield InProcess(client)


def post(transport: InProcess, path: str, document: Any, headers: dict[str, str]) -> Reply:
    return transport.request("POST", path, json.dumps(document).encode(), headers)


def binary(**changed: str | None) -> dict[str, str]:
    attributes = {**ATTRIBUTES, **changed}
    return {f"ce-{name}": value for name, value in attributes.items() if value is not None}


def assert_answers(attributes: dict[str, str], model: str) -> None:
    """Checks the attributes that every response sets."""
    assert attributes["specversion"] == "1.0"
    assert attributes["source"] == f"io.kserve.inference.{model}"
    assert attributes["type"] == "io.kserve.inference.response"
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", attributes["id"])
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", attributes["time"])


def in_headers(reply: Reply) -> dict[str, str]:
    return {name[3:]: value for name, value in reply.headers.items() if name.startswith("ce-")}


@pytest.mark.parametrize(
    ("path", "document"), [("/v1/models/rows:predict", V1), ("/v2/models/rows/infer", V2)], ids=["v1", "v2"]
)
def test_binary_event_gets_a_binary_event_response(events: InProcess, path: str, document: Any) -> None:
    plain = post(events, path, document, {})
    reply = post(events, path, document, binary())
    assert (reply.status, reply.body) == (200, plain.body)
    assert reply.headers["content-type"] == "application/json"
    assert set(in_headers(reply)) == {"specversion", "id", "source", "type", "time"}
    assert_answers(in_headers(reply), "rows")
    assert in_headers(post(events, path, document, binary()))["id"] != in_headers(reply)["id"]
    assert not in_headers(plain)


@pytest.mark.parametrize(
    ("path", "document"), [("/v1/models/rows:predict", V1), ("/v2/models/rows/infer", V2)], ids=["v1", "v2"]
)
def test_structured_event_gets_a_structured_event_response(events: InProcess, path: str, document: Any) -> None:
    plain = json.loads(post(events, path, document, {}).body)
    encoded = base64.b64encode(json.dumps(document).encode()).decode()
    for data in ({"data": document}, {"data_base64": encoded}):
        reply = post(events, path, {**ATTRIBUTES, "time": "2026-01-31T12:00:00Z", **data}, STRUCTURED)
        assert reply.status == 200, reply
        assert reply.headers["content-type"] == "application/cloudevents+json"
        event = json.loads(reply.body)
        assert event.pop("data") == plain
        assert event.pop("datacontenttype") == "application/json"
        assert_answers(event, "rows")


def test_binary_tensors_in_a_structured_response_are_base64(events: InProcess) -> None:
    document = {**V2, "parameters": {"binary_data_output": True}}
    reply = post(events, "/v2/models/rows/infer", {**ATTRIBUTES, "data": document}, STRUCTURED)
    event = json.loads(reply.body)
    assert event["datacontenttype"] == "application/octet-stream"
    data = base64.b64decode(event["data_base64"])
    assert data.endswith(np.array([2, 4], np.float32).tobytes())
    assert json.loads(data[:-8])["model_name"] == "rows"


def test_attributes_reach_the_context_and_values_are_percent_encoded(events: InProcess) -> None:
    path, document = "/v1/models/echo_context:predict", {"instances": ["a"]}
    reply = post(events, path, document, {**binary(), "X-Test": "yes"})
    assert json.loads(reply.body)["predictions"][0]["header"] == "yes"
    with Client(*MODELS, cloud_events=True, cloud_events_merge=True, cloud_events_type='ö "') as client:
        transport = InProcess(client)
        merged = in_headers(post(transport, path, document, binary(subject="%C3%BC%20x", id="a%25")))
        assert merged["subject"] == "%C3%BC%20x"
        assert merged["type"] == "%C3%B6%20%22"
        event = json.loads(post(transport, path, {**ATTRIBUTES, "n": 3, "data": document}, STRUCTURED).body)
        assert event["n"] == 3
        assert event["type"] == 'ö "'
        assert event["id"] != ATTRIBUTES["id"]


def test_request_attributes_are_omitted_without_merge(events: InProcess) -> None:
    path = "/v1/models/rows:predict"
    assert "subject" not in in_headers(post(events, path, V1, binary(subject="s")))
    assert "n" not in json.loads(post(events, path, {**ATTRIBUTES, "n": 3, "data": V1}, STRUCTURED).body)


@pytest.mark.parametrize("name", list(ATTRIBUTES))
def test_missing_attribute_is_named(events: InProcess, name: str) -> None:
    path = "/v1/models/rows:predict"
    expected = f"the event has no attribute '{name}'"
    assert post(events, path, V1, binary(**{name: None})).refusal(400) == expected
    attributes = {key: value for key, value in ATTRIBUTES.items() if key != name}
    assert post(events, path, {**attributes, "data": V1}, STRUCTURED).refusal(400) == expected


def test_invalid_attribute_is_named(events: InProcess) -> None:
    for changed, message in [
        ({"specversion": "9"}, "the event's attribute 'specversion' is '9', expected '1.0'"),
        ({"id": ""}, "the event's attribute 'id' is empty"),
        ({"time": "noon"}, "the event's attribute 'time' is 'noon', expected a time such as 2026-01-31T12:00:00Z"),
    ]:
        assert post(events, "/v2/models/rows/infer", V2, binary(**changed)).refusal(400) == message
        document = {**ATTRIBUTES, **changed, "data": V2}
        assert post(events, "/v2/models/rows/infer", document, STRUCTURED).refusal(400) == message
    no_data = post(events, "/v2/models/rows/infer", ATTRIBUTES, STRUCTURED)
    assert no_data.refusal(400) == "the event has neither 'data' nor 'data_base64'"


def test_refusals_are_not_events(events: InProcess) -> None:
    for headers in (binary(), STRUCTURED):
        document = {**ATTRIBUTES, "data": {}} if headers is STRUCTURED else {}
        reply = post(events, "/v1/models/rows:predict", document, headers)
        assert reply.refusal(400) == "the request has neither 'instances' nor 'inputs'"
        assert not in_headers(reply)


def test_events_are_off_by_default() -> None:
    with Client(*MODELS) as client:
        transport = InProcess(client)
        reply = post(transport, "/v1/models/rows:predict", V1, binary(specversion="9"))
        assert reply.status == 200
        assert not in_headers(reply)
        message = post(transport, "/v1/models/rows:predict", {**ATTRIBUTES, "data": V1}, STRUCTURED).refusal(400)
        assert message == "the request has neither 'instances' nor 'inputs'"
