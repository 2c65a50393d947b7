"""`openai.Embeddings`, called with the official OpenAI client."""

from __future__ import annotations

import base64
from typing import Annotated, Any

import numpy as np
import pytest
from openai import APIStatusError, BadRequestError, InternalServerError, NotFoundError, OpenAI, RateLimitError
from openai_helpers import ServeModels, post

from penstock import Batching, Context, InvalidInput, Overloaded, Server, SignatureError, Tensor, model, openai
from penstock.testing import Client
from waiting import PATIENCE

TEXT = Tensor("text", str, [1])
VECTOR = Tensor("vector", np.float32, [3])


def vector_of(text: str) -> list[float]:
    return [len(text) + 0.1, float(text.count("a")), 0.5]


@model(name="embed", inputs=[TEXT], outputs=[VECTOR], batching=Batching(max_size=4))
def batched(text):
    return np.array([vector_of(item) for item in text[:, 0]], np.float32)


@model(name="embed", inputs=[TEXT], outputs=[VECTOR])
def single(text):
    return np.array(vector_of(text[0]), np.float32)


@model(name="embed", inputs=[Tensor("text", "BYTES", [-1])], outputs=[Tensor("vector", np.float32, [-1, 3])])
def several(text):
    return np.array([vector_of(item.decode()) for item in text], np.float32)


@model(name="embed")
def annotated(text: str) -> Annotated[np.ndarray, Tensor(datatype=np.float64, shape=[-1])]:
    return np.array(vector_of(text))


@model(name="embed", inputs=[TEXT], outputs=[VECTOR])
async def async_single(text):
    return np.array(vector_of(text[0]), np.float32)


MODELS = [batched, single, several, annotated, async_single]


@pytest.mark.parametrize("served", MODELS, ids=["batched", "single", "several", "annotated", "async"])
@pytest.mark.parametrize("texts", [["banana"], ["a", "bb", "ccc", "aaaa", "é", ""]], ids=len)
def test_embeddings_match_their_texts_in_order(client_of: ServeModels, served: Any, texts: list[str]) -> None:
    client = client_of(served, openai.routes(openai.Embeddings(served)))
    for encoding in ("float", "base64"):
        response = client.embeddings.create(model="embed", input=texts, encoding_format=encoding)
        vectors = [item.embedding for item in response.data]
        if encoding == "base64":
            vectors = [np.frombuffer(base64.b64decode(str(item)), "<f4").tolist() for item in vectors]
        np.testing.assert_allclose(vectors, [vector_of(text) for text in texts], rtol=1e-6)
        assert [item.index for item in response.data] == list(range(len(texts)))
    assert (response.object, response.model, response.data[0].object) == ("list", "embed", "embedding")
    # By default the client requests base64 and decodes it.
    response = client.embeddings.create(model="embed", input=texts[0])
    np.testing.assert_allclose(response.data[0].embedding, vector_of(texts[0]), rtol=1e-6)


def test_numbers_have_the_precision_of_the_model() -> None:
    with Client(batched, openai.routes(openai.Embeddings(batched))) as client:
        response = post(client, "/v1/embeddings", {"model": "embed", "input": "a"})
    assert b'"embedding":[1.1,1.0,0.5]' in response.body


def test_texts_of_a_request_share_batches(client_of: ServeModels) -> None:
    sizes: list[int] = []

    @model(name="embed", inputs=[TEXT], outputs=[VECTOR], batching=Batching(max_size=4, hold=False))
    def record_sizes(text):
        sizes.append(len(text))
        return np.zeros((len(text), 3), np.float32)

    client = client_of(record_sizes, openai.routes(openai.Embeddings(record_sizes)))
    response = client.embeddings.create(model="embed", input=["a"] * 10)
    assert len(response.data) == 10
    assert sorted(sizes) == [2, 4, 4]


def test_large_request_does_not_overflow_the_queue(client_of: ServeModels) -> None:
    bounded = single.with_options(max_queue=4)
    client = client_of(bounded, openai.routes(openai.Embeddings(bounded)))
    assert len(client.embeddings.create(model="embed", input=["a"] * 200).data) == 200


def test_tokens_are_counted_by_function_or_output(client_of: ServeModels) -> None:
    @model(
        name="counting",
        inputs=[TEXT],
        outputs=[VECTOR, Tensor("count", np.int32, [1])],
        batching=Batching(max_size=4),
    )
    def counting(text):
        words = np.array([[len(item.split())] for item in text[:, 0]], np.int32)
        return np.zeros((len(text), 3), np.float32), words

    client = client_of(
        batched,
        counting,
        openai.routes(
            openai.Embeddings(batched, name="by-function", tokens=lambda text: len(text.split())),
            openai.Embeddings(counting, name="by-output", tokens="count"),
            openai.Embeddings(batched, name="uncounted"),
        ),
    )
    for name, count in (("by-function", 6), ("by-output", 6), ("uncounted", 0)):
        usage = client.embeddings.create(model=name, input=["a b", "c", "d e f"]).usage
        assert (usage.prompt_tokens, usage.total_tokens) == (count, count), name


def test_dimensions_truncates_and_normalises(client_of: ServeModels) -> None:
    client = client_of(
        batched,
        openai.routes(openai.Embeddings(batched), openai.Embeddings(batched, name="short", shorten=True)),
    )
    response = client.embeddings.create(model="short", input="banana", dimensions=2)
    expected = np.array(vector_of("banana")[:2], np.float32)
    np.testing.assert_allclose(response.data[0].embedding, expected / np.linalg.norm(expected), rtol=1e-6)
    full_length = client.embeddings.create(model="short", input="banana", dimensions=3)
    np.testing.assert_allclose(full_length.data[0].embedding, vector_of("banana"), rtol=1e-6)
    with pytest.raises(BadRequestError, match="'dimensions' is 4, model 'short' has 3"):
        client.embeddings.create(model="short", input="banana", dimensions=4)
    with pytest.raises(BadRequestError, match="Model 'embed' has 3 dimensions, which cannot be chosen"):
        client.embeddings.create(model="embed", input="banana", dimensions=2)


@pytest.mark.parametrize(
    ("members", "param", "message"),
    [
        ({"input": [1, 2]}, "input", "'input' must be text here: a string or a list of strings, not tokens"),
        ({"input": [[1]]}, "input", "'input' must be text here: a string or a list of strings, not tokens"),
        ({"input": []}, "input", "'input' must be a string or a list of strings, of one at least"),
        ({"input": {}}, "input", "'input' must be a string or a list of strings, of one at least"),
        ({}, "input", "'input' is missing"),
        ({"input": ["a"] * 2049}, "input", "'input' has 2049 strings, expected 2048 at most"),
        ({"input": "a", "encoding_format": "hex"}, "encoding_format",
         "'encoding_format' must be 'float' or 'base64', not 'hex'"),
        ({"input": "a", "dimensions": -1}, "dimensions", "'dimensions' must be 1 or more"),
        ({"input": "a", "dimensions": "3"}, "dimensions", "'dimensions' must be an integer"),
        ({"input": "a", "dimensions": True}, "dimensions", "'dimensions' must be an integer"),
        ({"input": "a", "options": {"a": 1}}, "options",
         "'options' is not supported here: a parameter is a number, a string or a boolean"),
        ({"input": "a", "seed": 2**64}, "seed", "'seed' does not fit 64 bits"),
    ],
)  # fmt: skip
def test_invalid_requests_return_openai_errors(members: dict[str, Any], param: str, message: str) -> None:
    with Client(batched, openai.routes(openai.Embeddings(batched))) as client:
        response = post(client, "/v1/embeddings", {"model": "embed", **members})
    error = {"message": message, "type": "invalid_request_error", "param": param, "code": None}
    assert (response.status, response.json()) == (400, {"error": error})


@pytest.mark.parametrize("body", [b"{nope", b"[]", b"\xff", b"", b"[" * 100_000])
def test_non_object_body_is_rejected(body: bytes) -> None:
    with Client(batched, openai.routes(openai.Embeddings(batched))) as client:
        response = client.post("/v1/embeddings", body)
    assert response.status == 400
    assert response.json()["error"]["type"] == "invalid_request_error"


def test_model_errors_keep_their_status(client_of: ServeModels) -> None:
    raised: list[Exception] = []

    @model(name="embed", inputs=[TEXT], outputs=[VECTOR])
    def failing(text):
        raise raised[-1]

    client = client_of(failing, openai.routes(openai.Embeddings(failing)))
    cases: list[tuple[Exception, type[APIStatusError], str]] = [
        (InvalidInput("not in English"), BadRequestError, "not in English"),
        (Overloaded("later"), RateLimitError, "later"),
        (KeyError("secret"), InternalServerError, "model 'embed' failed: KeyError"),
    ]
    for error, error_class, message in cases:
        raised.append(error)
        with pytest.raises(error_class) as caught:
            client.embeddings.create(model="embed", input="a")
        assert caught.value.body["message"] == message
    assert caught.value.type == "server_error"


def test_non_finite_vector_is_a_model_error_in_json(client_of: ServeModels) -> None:
    @model(name="embed", inputs=[TEXT], outputs=[VECTOR])
    def infinite(text):
        return np.array([np.inf, np.nan, 0], np.float32)

    client = client_of(infinite, openai.routes(openai.Embeddings(infinite)))
    with pytest.raises(InternalServerError, match="NaN or infinity"):
        client.embeddings.create(model="embed", input="a", encoding_format="float")
    vectors = client.embeddings.create(model="embed", input="a").data[0].embedding
    assert vectors[0] == np.inf


def test_parameters_reach_the_model(client_of: ServeModels) -> None:
    parameters: list[dict[str, Any]] = []

    @model(name="embed", inputs=[TEXT], outputs=[VECTOR])
    def record_parameters(text, ctx: Context):
        parameters.append(ctx.parameters)
        return np.zeros(3, np.float32)

    client = client_of(record_parameters, openai.routes(openai.Embeddings(record_parameters)))
    client.embeddings.create(model="embed", input="a", user="anna", extra_body={"kind": "query", "depth": 2})
    assert parameters == [{"user": "anna", "kind": "query", "depth": 2}]


def test_models_are_listed_and_retrieved(client_of: ServeModels) -> None:
    client = client_of(
        batched,
        openai.routes(
            openai.Embeddings(batched, name="org/embed"), openai.Embeddings(batched, name="second"), owned_by="us"
        ),
    )
    assert [(item.id, item.object, item.owned_by) for item in client.models.list()] == [
        ("org/embed", "model", "us"),
        ("second", "model", "us"),
    ]
    assert client.models.retrieve("org/embed").created > 1_700_000_000
    with pytest.raises(NotFoundError) as caught:
        client.models.retrieve("third")
    assert caught.value.code == "model_not_found"
    with pytest.raises(NotFoundError, match="The model 'third' does not exist"):
        client.embeddings.create(model="third", input="a")


def test_prefix_precedes_the_paths(client_of: ServeModels) -> None:
    routes = openai.routes(openai.Embeddings(batched), prefix="/openai/v1/")
    client = client_of(batched, routes, base="/openai/v1")
    assert len(client.embeddings.create(model="embed", input="a").data) == 1


def test_unsuitable_models_are_rejected_at_declaration() -> None:
    numbers = model(name="numbers", inputs=[Tensor("x", np.float32, [1])], outputs=[VECTOR])(lambda x: x)
    matrix = model(name="matrix", inputs=[TEXT], outputs=[Tensor("m", np.float32, [-1, 3])])(lambda text: text)
    two = model(name="two", inputs=[TEXT], outputs=[VECTOR, Tensor("other", np.float32, [2])])(lambda text: text)
    two_inputs = model(name="more", inputs=[TEXT, Tensor("x", np.float32, [1])], outputs=[VECTOR])(lambda text, x: x)
    for served, text in (
        (numbers, r"Embeddings\('numbers'\): its input: none will do: Tensor\('x', 'FP32', \[1\]\)"),
        (matrix, r"Embeddings\('matrix'\): its output: none will do"),
        (two, r"Embeddings\('two'\): its output: several will do, so name one"),
        (two_inputs, r"Embeddings\('more'\): input 'x' is needed too; make it optional=True"),
        (3, "Embeddings takes a model or a function, not 3"),
    ):
        with pytest.raises(SignatureError, match=text):
            openai.Embeddings(served)
    assert openai.Embeddings(two, output="other").name == "two"
    with pytest.raises(SignatureError, match="'nothing' does not fit, expected one of"):
        openai.Embeddings(two, output="nothing")
    with pytest.raises(SignatureError, match="there is nothing to serve"):
        openai.routes()
    with pytest.raises(SignatureError, match=r"takes Chat, Completions, Embeddings and their like, not Model"):
        openai.routes(batched)
    with pytest.raises(SignatureError, match="embeddings has two models of the name 'embed'; pass name="):
        openai.routes(openai.Embeddings(batched), openai.Embeddings(single))


def test_unserved_model_is_rejected_at_start() -> None:
    with pytest.raises(SignatureError, match="calls 'embed', which is not served; give it to the server too"):
        Client(openai.routes(openai.Embeddings(batched)))


def test_routes_accept_no_tensors() -> None:
    with Client(batched, openai.routes(openai.Embeddings(batched))) as client:
        response = client.post("/v2/models/openai/infer", b'{"inputs": []}')
    text = "model 'openai' answers HTTP requests to OpenAI's paths only"
    assert (response.status, response.json()) == (400, {"error": text})


def test_v1_inference_remains_available() -> None:
    with Client(annotated, openai.routes(openai.Embeddings(annotated))) as client:
        response = client.post("/v1/models/embed:predict", b'{"instances": ["a"]}')
        assert (response.status, response.json()) == (200, {"predictions": [vector_of("a")]})
        assert client.get("/v1/models").json()["object"] == "list"
        prefixed_routes = openai.routes(openai.Embeddings(annotated), prefix="/openai/v1")
    with Client(annotated, prefixed_routes) as client:
        assert client.get("/v1/models/embed").json() == {"name": "embed", "ready": True}
        assert client.get("/openai/v1/models/embed").json()["id"] == "embed"


def test_routes_are_added_and_removed_with_their_model() -> None:
    with Server(batched, http="127.0.0.1:0", grpc=None) as server:
        client = OpenAI(base_url=f"{server.http_url}/v1", api_key="-", max_retries=0, timeout=PATIENCE)
        with client:
            for _ in range(2):
                server.add(openai.routes(openai.Embeddings(batched)))
                assert len(client.embeddings.create(model="embed", input="a").data) == 1
                server.remove("openai")
                with pytest.raises(NotFoundError):
                    client.embeddings.create(model="embed", input="a")


def test_overload_sets_retry_after(client_of: ServeModels) -> None:
    @model(name="embed", inputs=[TEXT], outputs=[VECTOR])
    def full(text):
        error = Overloaded("later")
        error.retry_after = 1.5
        raise error

    client = client_of(full, openai.routes(openai.Embeddings(full)))
    with pytest.raises(RateLimitError) as caught:
        client.embeddings.create(model="embed", input="a")
    assert (caught.value.code, caught.value.response.headers["retry-after"]) == ("rate_limit_exceeded", "2")
