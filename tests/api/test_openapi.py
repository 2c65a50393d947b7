"""/openapi.json: a valid document that agrees with the server and whose examples work."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import jsonschema
import msgpack
import numpy as np
import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from models import counting, documents, protocol, v1
from penstock import Batching, SignatureError, Tensor, model
from penstock.testing import Client

PROTOCOL = Path(__file__).parents[2] / "docs" / "protocol.md"
FAILING = {"boom", "typed_err", "nonutf8", "wrong_dtype", "wrong_shape"}
"""Fixture models that fail on every request."""

MODEL_CALLS = ("/infer", "/infer_stream", "/generate", "/generate_stream", ":predict", ":explain")

Document = dict[str, Any]


@model(
    name="a b{ü}",
    inputs=[Tensor("x", np.uint8, [2, 3]), Tensor("scale", np.float32, [], optional=True)],
    outputs=[Tensor("y", np.uint8, [2, 3])],
)
def escaped_name(x: Any, scale: Any = None) -> Any:
    return x


@model(
    inputs=[Tensor("x", np.int8, [1], optional=True)],
    outputs=[Tensor("y", np.int8, [1])],
    batching=Batching(max_size=4, oversize="split"),
    max_queue=2,
)
def sparse(x: Any = None) -> Any:
    return x


@model(inputs=[Tensor("x", np.float32, [20, 20])], outputs=[Tensor("y", np.float32, [])])
def large(x: Any) -> Any:
    return x.sum()


MODELS = (
    *protocol.MODELS,
    *documents.MODELS,
    *(one.with_options(name=f"v1_{one.name}") for one in v1.MODELS),
    escaped_name,
    sparse,
    large,
    counting.counting,
)


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    # Some models wait at a gate, which only other tests need.
    protocol.GATE.opened.set()
    with Client(*MODELS, shared_memory="local") as client:
        yield client
    protocol.GATE.reset()


@pytest.fixture(scope="module")
def document(client: Client) -> Document:
    return dict(client.get("/openapi.json").json())


def infer_operations(document: Document) -> Iterator[tuple[str, Document]]:
    """Each V2 inference path with its operation."""
    yield from ((path, operation) for path, operation in model_operations(document) if path.endswith("/infer"))


def model_operations(document: Document) -> Iterator[tuple[str, Document]]:
    """Each path that sends a request to a model, with its operation."""
    for path, item in document["paths"].items():
        if path.endswith(MODEL_CALLS):
            yield path, item["post"]


def example(operation: Document) -> Any:
    examples = operation["requestBody"]["content"]["application/json"].get("examples")
    return examples and examples["request"]["value"]


def checker(document: Document, schema: Document) -> jsonschema.Draft202012Validator:
    """A validator of a schema whose references resolve within the document."""
    return jsonschema.Draft202012Validator({"components": document["components"], **schema})


def test_document_is_valid(document: Document) -> None:
    OpenAPIV31SpecValidator(document).validate()
    schemas = document["components"]["schemas"]
    assert len(schemas) > 60
    for schema in schemas.values():
        jsonschema.Draft202012Validator.check_schema(schema)


def _plain_template(path: re.Match[str]) -> str:
    return "/models/{model}" + "/versions/{version}" * bool(path[1])


def test_documented_routes_match_the_protocol(document: Document) -> None:
    known = rf"/(v1|v2)/models/(?!\{{)[^/:]+(/versions/\d+)?({'|'.join(MODEL_CALLS)})"
    described = set()
    for documented, item in document["paths"].items():
        path = re.sub(r"^/models/[^/]+(/versions/\d+)?$", _plain_template, documented)
        match = re.fullmatch(known, path)
        template = f"/{match[1]}/models/{{model}}{'/versions/{version}' * bool(match[2])}{match[3]}" if match else path
        described |= {(method.upper(), template) for method in item}
    table = re.findall(r"^\| `(GET|POST|DELETE) (/[^`]*)` \|", PROTOCOL.read_text(), re.MULTILINE)
    # A client that reads the events of the page at /live never ends.
    assert described == set(table) - {("GET", "/live"), ("GET", "/live/events")}


def test_each_model_version_has_its_own_path(document: Document) -> None:
    paths = {unquote(path) for path, _ in model_operations(document)}
    for one in MODELS:
        # Streaming models have no unary call.
        call = "infer_stream" if one.streams else "infer"
        assert {f"/v2/models/{one.name}/{call}", f"/v2/models/{one.name}/versions/{one.version}/{call}"} <= paths
    assert "/v1/models/counting:predict" in paths
    assert document["paths"]["/v2/models/ver/infer"]["post"]["x-penstock"]["version"] == "2"


def test_examples_succeed_and_responses_match_schemas(client: Client, document: Document) -> None:
    valid_responses, without_example = set(), set()
    for path, operation in model_operations(document):
        name, body = unquote(path).split("/models/")[1].split("/")[0].split(":")[0], example(operation)
        if body is None:
            without_example.add(name)
            continue
        request = operation["requestBody"]["content"]["application/json"]["schema"]
        checker(document, request).validate(body)
        if name in FAILING:
            continue
        response = client.post(path, json.dumps(body))
        assert response.status == 200, (path, body, response.body)
        content = operation["responses"]["200"]["content"]
        if path.endswith("_stream"):
            schema = content["text/event-stream"]["x-event-data"]
            texts = [line.removeprefix("data: ") for line in response.body.decode().splitlines() if line]
        else:
            schema, texts = content["application/json"]["schema"], [response.body.decode()]
        for text in texts:
            checker(document, schema).validate(json.loads(text))
        valid_responses.add(name)
    assert without_example == {"large"}
    assert valid_responses == {one.name for one in MODELS} - FAILING - without_example


def test_other_routes_match_their_schemas(client: Client, document: Document) -> None:
    for path, item in document["paths"].items():
        operation = item.get("get")
        if operation is None or "{region}" in path:
            continue
        response = client.get(path.replace("{model}", "add").replace("{version}", "1"))
        if path == "/debug/batching":
            assert response.status == 501, "off by default"
            continue
        if path == "/debug/slow":
            assert response.status == 501, "off by default"
            continue
        if path == "/debug/stacks":
            assert response.status in (200, 503), "only a server of sockets registers the signal"
            continue
        assert response.status == 200, (path, response.body)
        [(media_type, content)] = operation["responses"]["200"]["content"].items()
        assert response.headers["content-type"] == media_type, path
        if media_type == "application/json":
            checker(document, content["schema"]).validate(response.json())


def test_error_responses_match_their_schema(client: Client, document: Document) -> None:
    responses = document["paths"]["/v2/models/add/infer"]["post"]["responses"]
    assert " ".join(responses) == "200 400 401 403 404 413 414 415 429 431 500 501 503 504"
    error = checker(document, {"$ref": "#/components/schemas/Error"})
    for path, body, headers, status in [
        ("add", "{", {}, 400),
        ("zzz", "{}", {}, 404),
        ("add", "{}", {"Content-Encoding": "lzma"}, 415),
        ("boom", json.dumps(example(document["paths"]["/v2/models/boom/infer"]["post"])), {}, 500),
    ]:
        response = client.post(f"/v2/models/{path}/infer", body, headers=headers)
        assert response.status == status
        assert str(status) in responses
        error.validate(response.json())


FORMATS = {
    "application/x-npy",
    "application/x-npz",
    "application/msgpack",
    "application/vnd.apache.arrow.stream",
    "application/x-safetensors",
}


def formats(content: Document) -> set[str]:
    return content.keys() & FORMATS


def test_formats_are_listed_where_supported(document: Document) -> None:
    def formats_of(path: str) -> tuple[set[str], set[str]]:
        operation = document["paths"][path]["post"]
        return formats(operation["requestBody"]["content"]), formats(operation["responses"]["200"]["content"])

    npy, arrow, safetensors = "application/x-npy", "application/vnd.apache.arrow.stream", "application/x-safetensors"
    assert formats_of("/v2/models/scalar/infer") == (FORMATS, FORMATS)
    # npy holds one array; a response may select one of several outputs.
    assert formats_of("/v2/models/add/infer") == (FORMATS - {npy}, FORMATS)
    assert formats_of("/v2/models/ident_BYTES/infer") == (FORMATS - {safetensors}, FORMATS - {safetensors})
    assert formats_of("/v2/models/ident_BF16/infer") == (FORMATS - {arrow}, FORMATS - {arrow})
    assert formats_of("/v2/models/add/generate") == (set(), set())
    content = document["paths"]["/v2/models/add/infer"]["post"]["requestBody"]["content"]
    assert content["application/x-npz"]["schema"]["description"] == (
        "Arrays by name as `numpy.savez` writes them: `a` FP32 [-1, 4], `b` FP32 [-1, 4]."
    )


def test_responses_support_exactly_the_listed_formats(client: Client, document: Document) -> None:
    checked_formats = set()
    for path, operation in infer_operations(document):
        body = example(operation)
        if unquote(path).split("/")[3] in FAILING or body is None:
            continue
        for media_type in sorted(FORMATS):
            results = []
            for output in operation["x-penstock"]["outputs"]:
                selected = {**body, "outputs": [{"name": output["name"]}]}
                response = client.post(path, json.dumps(selected), headers={"Accept": media_type})
                supported = response.status == 200
                assert supported or "accept another format" in response.error()
                assert response.headers["content-type"] == (media_type if supported else "application/json")
                results.append(supported)
            assert any(results) is (media_type in operation["responses"]["200"]["content"]), (path, media_type)
            checked_formats.add(media_type)
    assert checked_formats == FORMATS


def test_msgpack_matches_its_schemas(client: Client, document: Document) -> None:
    valid_responses = 0
    for path, operation in infer_operations(document):
        body = example(operation)
        if unquote(path).split("/")[3] in FAILING or body is None:
            continue
        content = operation["requestBody"]["content"]["application/msgpack"]
        checker(document, content["schema"]).validate(body)
        response = client.post(path, msgpack.packb(body), headers={"Content-Type": "application/msgpack"})
        assert response.status == 200, (path, response.body)
        schema = operation["responses"]["200"]["content"]["application/msgpack"]["schema"]
        checker(document, schema).validate(msgpack.unpackb(response.body))
        valid_responses += 1
    assert valid_responses > 20


@pytest.mark.parametrize(
    ("change", "rejected"),
    [
        ({}, False),
        ({"data": [[1, 2, 3], [4, 5, 6]]}, False),
        ({"data": [1, 2, 3, 4, 5]}, True),
        ({"data": [1, 2, 3, 4, 5, 256]}, True),
        ({"data": [1, 2, 3, 4, 5, -1]}, True),
        ({"data": [1, 2, 3, 4, 5, 0.5]}, True),
        ({"data": [[1, 2], [3, 4], [5, 6]]}, True),
        ({"data": ["1", 2, 3, 4, 5, 6]}, True),
        ({"shape": [3, 2]}, True),
        ({"shape": [6]}, True),
        ({"datatype": "UINT16"}, True),
        ({"name": "y"}, True),
        ({"parameters": {"anything": 1}}, False),
        ({"parameters": {"anything": None}}, True),
        ({"parameters": {"triton_x": 1}}, True),
        ({"parameters": {"binary_data_size": 6}}, True),
        ({"unknown": [1]}, False),
    ],
)
def test_schema_and_server_accept_the_same_inputs(
    client: Client, document: Document, change: Document, rejected: bool
) -> None:
    tensor = {"name": "x", "datatype": "UINT8", "shape": [2, 3], "data": [1, 2, 3, 4, 5, 255], **change}
    body = {"inputs": [tensor]}
    operation = document["paths"]["/v2/models/a%20b%7B%C3%BC%7D/infer"]["post"]
    schema = operation["requestBody"]["content"]["application/json"]["schema"]
    assert checker(document, schema).is_valid(body) is not rejected
    assert client.post("/v2/models/a%20b%7B%C3%BC%7D/infer", json.dumps(body)).status == (400 if rejected else 200)


def test_inputs_are_required_once_in_any_order(client: Client, document: Document) -> None:
    schema = document["paths"]["/v2/models/add/infer"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    a, b = ({"name": name, "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]} for name in "ab")
    for inputs, status in [([a, b], 200), ([b, a], 200), ([a], 400), ([a, a], 400), ([a, b, a], 400)]:
        assert checker(document, schema).is_valid({"inputs": inputs}) is (status == 200)
        assert client.post("/v2/models/add/infer", json.dumps({"inputs": inputs})).status == status


def test_row_bounds_match_the_model(document: Document) -> None:
    def rows(name: str) -> Any:
        items = document["components"]["schemas"][f"{name}.1.Request"]["properties"]["inputs"]["items"]
        first = items["oneOf"][0] if "oneOf" in items else items
        return first["properties"]["shape"]["prefixItems"][0]

    assert rows("add") == {"type": "integer", "minimum": 0, "maximum": 8}
    assert rows("sparse")["maximum"] == 4 * 2


def test_structured_inputs_have_their_own_schemas(client: Client, document: Document) -> None:
    def schema(name: str) -> jsonschema.Draft202012Validator:
        return checker(document, {"$ref": f"#/components/schemas/{name}"})

    user = {"name": "Ada", "age": 36, "address": {"city": "London"}}
    for change, valid in [
        ({}, True),
        ({"level": "old", "tags": ["a"], "color": "blue"}, True),
        ({"address": {"city": "London", "zip": None}}, True),
        ({"age": "36"}, False),
        ({"age": 0.5}, False),
        ({"address": {}}, False),
        ({"level": "odd"}, False),
        ({"color": "green"}, False),
        ({"unknown": 1}, False),
    ]:
        changed = {**user, **change}
        assert schema("greet.1.input.user").is_valid(changed) is valid
        data = [json.dumps(changed)]
        body = {"inputs": [{"name": "user", "datatype": "BYTES", "shape": [], "data": data}]}
        assert client.post("/v2/models/greet/infer", json.dumps(body)).status == (200 if valid else 400)
    assert schema("chain.1.input.node").is_valid({"value": 1.5, "next": {"value": 2, "next": None}})
    assert not schema("chain.1.input.node").is_valid({"value": 1.5, "next": {"next": None}})
    assert schema("movie.1.input.film").is_valid({"title": "M", "scores": {"a": 0.5}})
    assert not schema("movie.1.input.film").is_valid({"title": "M", "scores": {"a": "0.5"}})
    assert schema("ask.1.input.question").is_valid({"text": "?", "leaf": {"weight": 2, "below": [{"weight": 3}]}})
    assert not schema("ask.1.input.question").is_valid({"text": "?", "leaf": {"weight": 2, "below": [{"weight": 1}]}})
    assert schema("greet.1.output.output").is_valid({"text": "Hello", "score": 1})


def test_descriptions_are_the_authors_text(document: Document) -> None:
    def description(name: str) -> str:
        return str(document["paths"][f"/v2/models/{name}/infer"]["post"]["description"])

    assert description("greet") == "Greets a user, louder if asked to."
    assert description("movie") == "What a film is worth."
    assert description("ask") == "Answers `question`, not <b>markup</b>."
    assert description("chain") == ""


def test_each_model_has_its_own_document(client: Client) -> None:
    model_document = client.get("/v2/models/ver/docs/dataplane.json").json()
    selected = [path for path, _ in infer_operations(model_document)]
    assert len(model_document["paths"]["/v1/models/ver:predict"]) == 1
    assert selected == ["/v2/models/ver/infer", "/v2/models/ver/versions/1/infer", "/v2/models/ver/versions/2/infer"]
    assert model_document["components"]["parameters"]["Version"]["schema"]["enum"] == ["1", "2"]
    assert client.get("/v2/docs/dataplane.json").body == client.get("/openapi.json").body
    for path in ("/v2/models/zzz/docs", "/v2/models/zzz/docs/dataplane.json"):
        rejected = client.get(path)
        assert (rejected.status, rejected.error()) == (404, "unknown model 'zzz'")


def test_document_reflects_server_settings(document: Document) -> None:
    settings = {"strict_json": True, "dialect": "triton", "max_body_bytes": 1000, "server_name": "mine"}
    with Client(protocol.add, escaped_name, timing_headers=True, **settings) as client:
        changed = client.get("/openapi.json").json()
    assert changed["info"]["title"] == "mine"
    responses = changed["paths"]["/v2/models/add/infer"]["post"]["responses"]
    # A client's own limit is 429 in every dialect: another server has the same.
    assert "queue" not in changed["components"]["responses"]["Refused429"]["description"]
    assert "504" not in responses
    assert "x-penstock-batch-size" in responses["200"]["headers"]
    assert "1000 bytes" in changed["components"]["responses"]["Refused413"]["description"]
    outputs = changed["components"]["schemas"]["add.1.Answer"]["properties"]["outputs"]["items"]["oneOf"][0]
    assert outputs["properties"]["data"]["items"]["type"] == ["number", "null"]
    assert "x-penstock-batch-size" not in json.dumps(document["paths"]["/v2/models/add/infer"])


@pytest.mark.parametrize("path", ["/docs", "/v2/docs", "/v2/models/add/docs"])
def test_docs_page_forbids_external_resources(client: Client, path: str) -> None:
    response = client.get(path)
    assert response.status == 200
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    policy = dict(part.strip().split(" ", 1) for part in response.headers["content-security-policy"].split(";"))
    assert policy.pop("style-src").startswith("'sha256-")
    assert policy.pop("script-src").startswith("'sha256-")
    none = dict.fromkeys(["default-src", "base-uri", "form-action", "frame-ancestors"], "'none'")
    assert policy == {**none, "connect-src": "'self'"}
    assert response.headers["x-content-type-options"] == "nosniff"
    assert len(response.body) < 80_000


@pytest.mark.parametrize(
    ("accept", "is_browser"),
    [("text/html,application/xhtml+xml,*/*;q=0.8", True), ("*/*", False), ("application/json, text/html;q=0.9", False)],
)
def test_browsers_are_sent_from_the_root_to_the_page(client: Client, accept: str, *, is_browser: bool) -> None:
    response = client.get("/", headers={"accept": accept})
    assert response.headers["vary"] == "accept"
    assert response.headers.get("location") == ("docs" if is_browser else None)
    assert (response.status, response.json()) == (302 if is_browser else 200, {"status": "alive"})


def test_docs_can_be_disabled() -> None:
    with Client(protocol.add, docs=False) as client:
        for path in ("/docs", "/openapi.json", "/v2/docs", "/v2/docs/dataplane.json", "/v2/models/add/docs"):
            response = client.get(path)
            assert (response.status, response.error().partition(":")[0]) == (404, "Not Found")
            assert "docs" not in response.error()
        root = client.get("/", headers={"accept": "text/html"})
        assert (root.status, root.json()) == (200, {"status": "alive"})
        assert client.get("/v2/models/add").status == 200


def test_invalid_description_is_rejected() -> None:
    with pytest.raises(SignatureError, match="model 'odd': description must be text, not 1"):
        model(lambda: None, name="odd", inputs=[], outputs=[], description=1)  # type: ignore[call-overload]
