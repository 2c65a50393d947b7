"""KServe's V1 protocol (case G12), over a socket and in this process."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from typing import Any

import pytest

from models.v1 import MODELS
from penstock import Server, ServerConfig
from penstock.testing import Client

from .transports import InProcess, Reply, Rest, Transport


@pytest.fixture(scope="module")
def served() -> Iterator[dict[str, Transport]]:
    with Server(*MODELS, config=ServerConfig(http="127.0.0.1:0", grpc=None)) as server, Client(*MODELS) as client:
        yield {"rest": Rest(server.http_url), "in-process": InProcess(client)}


@pytest.fixture(params=["rest", "in-process"])
def v1(request: pytest.FixtureRequest, served: dict[str, Transport]) -> Transport:
    return served[request.param]


def post(transport: Transport, call: str, document: Any, headers: dict[str, str] | None = None) -> Reply:
    body = document if isinstance(document, str) else json.dumps(document)
    return transport.request("POST", f"/v1/models/{call}", body.encode(), headers)


def ok(reply: Reply) -> Any:
    assert reply.status == 200, reply
    assert reply.headers["content-type"] == "application/json"
    return json.loads(reply.body)


def test_g12_list_of_instances(v1: Transport) -> None:
    response = ok(post(v1, "rows:predict", {"instances": [[1, 2], [3, 4], [5, 6]]}))
    assert response == {"predictions": [[2, 4], [6, 8], [10, 12]]}


def test_g12_rows_by_name(v1: Transport) -> None:
    rows = [{"a": [1, 2], "b": 7}, {"b": 8, "a": [3, 4]}]
    response = ok(post(v1, "two:predict", {"signature_name": "serving_default", "instances": rows}))
    assert response == {"predictions": [{"total": 3, "b": 7}, {"total": 7, "b": 8}]}
    assert ok(post(v1, "rows:predict", {"instances": [{"x": [1, 2]}]})) == {"predictions": [[2, 4]]}


def test_g12_inputs_as_a_whole(v1: Transport) -> None:
    assert ok(post(v1, "rows:predict", {"inputs": [[1, 2], [3, 4]]})) == {"outputs": [[2, 4], [6, 8]]}
    response = ok(post(v1, "two:predict", {"inputs": {"a": [[1, 2], [3, 4]]}}))
    assert response == {"outputs": {"total": [3, 7], "b": [0, 0]}}


@pytest.mark.parametrize("colon", ["%3A", "%3a"])
def test_g12_encoded_colon(v1: Transport, colon: str) -> None:
    assert ok(post(v1, f"rows{colon}predict", {"instances": [[1, 2]]})) == {"predictions": [[2, 4]]}


@pytest.mark.trap("T57")
def test_t57_version_of_a_model(v1: Transport) -> None:
    """T57: KServe answers 501 to paths with a version."""
    assert ok(post(v1, "versioned:predict", {"instances": [3]})) == {"predictions": [6]}
    assert ok(post(v1, "versioned/versions/1:predict", {"instances": [3]})) == {"predictions": [3]}
    assert ok(v1.request("GET", "/v1/models/versioned/versions/1")) == {"name": "versioned", "ready": True}
    assert "'9'" in post(v1, "versioned/versions/9:predict", {"instances": [3]}).refusal(404)


@pytest.mark.trap("T11")
def test_t11_health_responses_are_json(v1: Transport) -> None:
    """T11: KServe's client reads JSON from every health route."""
    assert ok(v1.request("GET", "/")) == {"status": "alive"}
    assert ok(v1.request("GET", "/v1/models/rows")) == {"name": "rows", "ready": True}
    v1.request("GET", "/v1/models/none").refusal(404)


def test_models_are_listed_once_and_explainers_are_not(v1: Transport) -> None:
    names = ["chunks", "echo_context", "raw", "rows", "total", "two", "user", "versioned"]
    assert ok(v1.request("GET", "/v1/models")) == {"models": names}
    assert ok(v1.request("GET", "/v2/models")) == {"models": names}


@pytest.mark.trap("T58")
def test_t58_unknown_keys_are_ignored_and_types_are_not(v1: Transport) -> None:
    """T58: lenient on keys, strict on types."""
    assert ok(post(v1, "total:predict", {"instances": [[1, 2]], "else": {"a": [None]}})) == {"predictions": [3]}
    assert post(v1, "total:predict", {"instances": {"x": [1]}}).refusal(400) == 'Expected "instances" to be a list'
    assert "FP32 takes numbers" in post(v1, "total:predict", {"instances": [["1"]]}).refusal(400)


def test_without_batching_each_instance_is_one_call(v1: Transport) -> None:
    assert ok(post(v1, "total:predict", {"instances": [[1, 2], [], [3]]})) == {"predictions": [3, 0, 3]}
    assert ok(post(v1, "total:predict", {"inputs": [1, 2]})) == {"outputs": 3}


def test_empty_instances_give_empty_predictions(v1: Transport) -> None:
    for name in ("rows", "total", "user"):
        assert ok(post(v1, f"{name}:predict", {"instances": []})) == {"predictions": []}


def test_documents_are_plain_json(v1: Transport) -> None:
    response = ok(post(v1, "user:predict", {"instances": [{"name": "Zoë", "age": 3}, {"name": "Bo"}]}))
    assert response == {"predictions": [{"hello": "Zoë", "next": 4}, {"hello": "Bo", "next": 1}]}
    assert ok(post(v1, "user:predict", {"inputs": {"name": "Bo"}})) == {"outputs": {"hello": "Bo", "next": 1}}


def test_handler_refusal_names_the_instance(v1: Transport) -> None:
    rows = [{"name": "a"}, {"name": "b", "age": -1}]
    assert post(v1, "user:predict", {"instances": rows}).refusal(400) == "instances[1]: age must not be negative"
    assert post(v1, "user:predict", {"instances": rows[1:]}).refusal(400) == "age must not be negative"
    rows[1] = {"name": "b", "age": "x"}
    refusal = post(v1, "user:predict", {"instances": rows}).refusal(400)
    assert refusal == """instances[1]: input 'user.age': got "x", expected an integer"""


@pytest.mark.trap("T17")
def test_t17_base64_objects_are_bytes(v1: Transport) -> None:
    """T17: TensorFlow Serving's `{"b64": text}`."""
    response = ok(post(v1, "raw:predict", {"instances": [{"b64": "AP8="}, "text", {"x": {"b64": "aGk="}}]}))
    assert response == {
        "predictions": [
            {"y": {"b64": "AP8="}, "y_bytes": {"b64": "AP8="}},
            {"y": "text", "y_bytes": {"b64": "dGV4dA=="}},
            {"y": "hi", "y_bytes": {"b64": "aGk="}},
        ]
    }
    assert "not padded standard base64" in post(v1, "raw:predict", {"instances": [{"b64": "A"}]}).refusal(400)


def test_parameters_and_headers_reach_the_context(v1: Transport) -> None:
    document = {"instances": ["a", "b"], "parameters": {"top": 3, "flag": True}}
    parameters = document["parameters"]
    response = ok(post(v1, "echo_context:predict", document, {"X-Test": "yes"}))
    assert response["predictions"] == [{"word": word, "parameters": parameters, "header": "yes"} for word in "ab"]


def test_explain_calls_the_explain_method(v1: Transport) -> None:
    assert ok(post(v1, "rows:explain", {"instances": [[1, 2]]})) == {"explanations": [[2, 2]]}
    assert ok(post(v1, "rows/versions/1%3Aexplain", {"inputs": [[1, 2]]})) == {"explanations": [[2, 2]]}
    assert ok(post(v1, "user:explain", {"instances": [{"name": "Bo"}]})) == {"explanations": [{"because": "Bo"}]}


def test_missing_explainer_is_reported(v1: Transport) -> None:
    expected = "model 'two' cannot explain: its class has no method 'explain' with an annotated return type"
    assert post(v1, "two:explain", {"instances": []}).refusal(501) == expected
    post(v1, "none:explain", {"instances": []}).refusal(404)


@pytest.mark.parametrize("body", ["", "[]", "{", '{"instances":[[1,2],}', '{"instances":[[NaN,2]}'])
def test_invalid_json_is_an_unrecognized_format(v1: Transport, body: str) -> None:
    message = post(v1, "rows:predict", body).refusal(400)
    assert message.startswith("Unrecognized request format: request JSON at byte ")


def test_every_content_type_is_read_as_json(v1: Transport) -> None:
    for kind in ("application/json; charset=utf-8", "application/x-www-form-urlencoded", "text/plain"):
        response = ok(post(v1, "rows:predict", {"instances": [[1, 2]]}, {"Content-Type": kind}))
        assert response == {"predictions": [[2, 4]]}


def test_wrong_methods_and_verbs_are_refused(v1: Transport) -> None:
    assert v1.request("GET", "/v1/models/rows:predict").refusal(405) == "Method Not Allowed"
    assert v1.request("GET", "/v1/models/rows/versions/1:explain").refusal(405) == "Method Not Allowed"
    assert post(v1, "rows:train", {"instances": []}).refusal(405) == "Method Not Allowed"
    assert post(v1, "none:predict", {"instances": []}).refusal(404) == "unknown model 'none'"


def test_shapes_are_inferred_and_checked(v1: Transport) -> None:
    for rows, message in [
        ([[1, 2], [1, 2, 3]], "instances[1]: input 'x' has shape [3], model 'rows' expects [2]"),
        ([[[1, 2]]], "instances[0]: input 'x' has shape [1, 2], model 'rows' expects [2]"),
        ([[1, [2]]], "instances[0]: input 'x' is ragged at byte 19"),
        ([[1, 2]] * 9, "input 'x' has a batch of 9 rows, model 'rows' accepts at most 8"),
    ]:
        assert message in post(v1, "rows:predict", {"instances": rows}).refusal(400)


def test_head_of_get_routes(served: dict[str, Transport]) -> None:
    for path in ("/", "/v1/models", "/v1/models/rows"):
        reply = served["rest"].request("HEAD", path)
        assert (reply.status, reply.body) == (200, b"")
        assert int(reply.headers["content-length"]) == len(served["rest"].request("GET", path).body)


def test_streaming_model_answers_with_exactly_one_chunk(v1: Transport) -> None:
    assert ok(post(v1, "chunks:predict", {"instances": [1, 1]})) == {"predictions": [0, 0]}
    expected = "exactly 1 answer is expected here, model 'chunks' gave {}: call generate_stream"
    assert post(v1, "chunks:predict", {"instances": [0]}).refusal(500) == expected.format("none")
    assert post(v1, "chunks:predict", {"instances": [3]}).refusal(500) == expected.format("more")
    assert post(v1, "chunks:predict", {"instances": [1, 2]}).refusal(500) == expected.format("more")


def test_compressed_bodies_are_accepted(v1: Transport) -> None:
    body = gzip.compress(json.dumps({"instances": [[1, 2]] * 8}).encode())
    headers = {"Content-Encoding": "gzip"}
    assert len(ok(v1.request("POST", "/v1/models/rows:predict", body, headers))["predictions"]) == 8
    v1.request("POST", "/v1/models/rows:predict", body, {"Content-Encoding": "odd"}).refusal(415)
