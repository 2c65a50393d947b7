"""`openai.Embeddings`, asked by OpenAI's own client."""

from __future__ import annotations

import base64
from typing import Annotated, Any

import numpy as np
import pytest
from asking_openai import Ask, post
from openai import APIStatusError, BadRequestError, InternalServerError, NotFoundError, OpenAI, RateLimitError

from penstock import Batching, Context, InvalidInput, Overloaded, Server, SignatureError, Tensor, model, openai
from penstock.testing import Client
from waiting import PATIENCE

TEXT = Tensor("text", str, [1])
VECTOR = Tensor("vector", np.float32, [3])


def vector_of(text: str) -> list[float]:
    return [len(text) + 0.1, float(text.count("a")), 0.5]


@model(name="embed", inputs=[TEXT], outputs=[VECTOR], batching=Batching(max_size=4))
def batched(text):
    return np.array([vector_of(one) for one in text[:, 0]], np.float32)


@model(name="embed", inputs=[TEXT], outputs=[VECTOR])
def single(text):
    return np.array(vector_of(text[0]), np.float32)


@model(name="embed", inputs=[Tensor("text", "BYTES", [-1])], outputs=[Tensor("vector", np.float32, [-1, 3])])
def several(text):
    return np.array([vector_of(one.decode()) for one in text], np.float32)


@model(name="embed")
def annotated(text: str) -> Annotated[np.ndarray, Tensor(datatype=np.float64, shape=[-1])]:
    return np.array(vector_of(text))


@model(name="embed", inputs=[TEXT], outputs=[VECTOR])
async def waiting(text):
    return np.array(vector_of(text[0]), np.float32)


MODELS = [batched, single, several, annotated, waiting]


@pytest.mark.parametrize("served", MODELS, ids=["batched", "single", "several", "annotated", "async"])
@pytest.mark.parametrize("texts", [["banana"], ["a", "bb", "ccc", "aaaa", "é", ""]], ids=len)
def test_each_text_has_its_vector_in_order(client_of: Ask, served: Any, texts: list[str]) -> None:
    client = client_of(served, openai.routes(openai.Embeddings(served)))
    for encoding in ("float", "base64"):
        answer = client.embeddings.create(model="embed", input=texts, encoding_format=encoding)
        found = [one.embedding for one in answer.data]
        if encoding == "base64":
            found = [np.frombuffer(base64.b64decode(str(one)), "<f4").tolist() for one in found]
        np.testing.assert_allclose(found, [vector_of(text) for text in texts], rtol=1e-6)
        assert [one.index for one in answer.data] == list(range(len(texts)))
    assert (answer.object, answer.model, answer.data[0].object) == ("list", "embed", "embedding")
    # Without an encoding the client asks for base64, and takes it apart itself.
    answer = client.embeddings.create(model="embed", input=texts[0])
    np.testing.assert_allclose(answer.data[0].embedding, vector_of(texts[0]), rtol=1e-6)


def test_numbers_are_as_short_as_the_models_own() -> None:
    with Client(batched, openai.routes(openai.Embeddings(batched))) as client:
        answer = post(client, "/v1/embeddings", {"model": "embed", "input": "a"})
    assert b'"embedding":[1.1,1.0,0.5]' in answer.body


def test_the_texts_of_a_request_share_batches(client_of: Ask) -> None:
    sizes: list[int] = []

    @model(name="embed", inputs=[TEXT], outputs=[VECTOR], batching=Batching(max_size=4, hold=False))
    def counts(text):
        sizes.append(len(text))
        return np.zeros((len(text), 3), np.float32)

    client = client_of(counts, openai.routes(openai.Embeddings(counts)))
    answer = client.embeddings.create(model="embed", input=["a"] * 10)
    assert len(answer.data) == 10
    assert sorted(sizes) == [2, 4, 4]


def test_one_request_of_many_texts_does_not_overflow_the_queue(client_of: Ask) -> None:
    narrow = single.with_options(max_queue=4)
    client = client_of(narrow, openai.routes(openai.Embeddings(narrow)))
    assert len(client.embeddings.create(model="embed", input=["a"] * 200).data) == 200


def test_tokens_are_counted_by_who_knows_them(client_of: Ask) -> None:
    @model(
        name="counting",
        inputs=[TEXT],
        outputs=[VECTOR, Tensor("count", np.int32, [1])],
        batching=Batching(max_size=4),
    )
    def counting(text):
        words = np.array([[len(one.split())] for one in text[:, 0]], np.int32)
        return np.zeros((len(text), 3), np.float32), words

    client = client_of(
        batched,
        counting,
        openai.routes(
            openai.Embeddings(batched, name="by-function", tokens=lambda text: len(text.split())),
            openai.Embeddings(counting, name="by-output", tokens="count"),
            openai.Embeddings(batched, name="nobody"),
        ),
    )
    for name, count in (("by-function", 6), ("by-output", 6), ("nobody", 0)):
        usage = client.embeddings.create(model=name, input=["a b", "c", "d e f"]).usage
        assert (usage.prompt_tokens, usage.total_tokens) == (count, count), name


def test_dimensions_are_the_first_ones_of_length_one(client_of: Ask) -> None:
    client = client_of(
        batched,
        openai.routes(openai.Embeddings(batched), openai.Embeddings(batched, name="short", shorten=True)),
    )
    answer = client.embeddings.create(model="short", input="banana", dimensions=2)
    expected = np.array(vector_of("banana")[:2], np.float32)
    np.testing.assert_allclose(answer.data[0].embedding, expected / np.linalg.norm(expected), rtol=1e-6)
    whole = client.embeddings.create(model="short", input="banana", dimensions=3)
    np.testing.assert_allclose(whole.data[0].embedding, vector_of("banana"), rtol=1e-6)
    with pytest.raises(BadRequestError, match="'dimensions' is 4, model 'short' has 3"):
        client.embeddings.create(model="short", input="banana", dimensions=4)
    with pytest.raises(BadRequestError, match="Model 'embed' has 3 dimensions, which cannot be chosen"):
        client.embeddings.create(model="embed", input="banana", dimensions=2)


@pytest.mark.parametrize(
    ("said", "param", "message"),
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
def test_what_is_wrong_is_said_in_openais_form(said: dict[str, Any], param: str, message: str) -> None:
    with Client(batched, openai.routes(openai.Embeddings(batched))) as client:
        answer = post(client, "/v1/embeddings", {"model": "embed", **said})
    error = {"message": message, "type": "invalid_request_error", "param": param, "code": None}
    assert (answer.status, answer.json()) == (400, {"error": error})


@pytest.mark.parametrize("body", [b"{nope", b"[]", b"\xff", b"", b"[" * 100_000])
def test_a_body_that_is_no_object_is_refused(body: bytes) -> None:
    with Client(batched, openai.routes(openai.Embeddings(batched))) as client:
        answer = client.post("/v1/embeddings", body)
    assert answer.status == 400
    assert answer.json()["error"]["type"] == "invalid_request_error"


def test_what_the_model_raises_has_its_status(client_of: Ask) -> None:
    raised: list[Exception] = []

    @model(name="embed", inputs=[TEXT], outputs=[VECTOR])
    def fails(text):
        raise raised[-1]

    client = client_of(fails, openai.routes(openai.Embeddings(fails)))
    cases: list[tuple[Exception, type[APIStatusError], str]] = [
        (InvalidInput("not in English"), BadRequestError, "not in English"),
        (Overloaded("later"), RateLimitError, "later"),
        (KeyError("secret"), InternalServerError, "model 'embed' failed: KeyError"),
    ]
    for error, kind, message in cases:
        raised.append(error)
        with pytest.raises(kind) as told:
            client.embeddings.create(model="embed", input="a")
        assert told.value.body["message"] == message
    assert told.value.type == "server_error"


def test_a_vector_that_json_cannot_carry_is_an_error_of_the_model(client_of: Ask) -> None:
    @model(name="embed", inputs=[TEXT], outputs=[VECTOR])
    def infinite(text):
        return np.array([np.inf, np.nan, 0], np.float32)

    client = client_of(infinite, openai.routes(openai.Embeddings(infinite)))
    with pytest.raises(InternalServerError, match="NaN or infinity"):
        client.embeddings.create(model="embed", input="a", encoding_format="float")
    found = client.embeddings.create(model="embed", input="a").data[0].embedding
    assert found[0] == np.inf


def test_parameters_reach_the_model(client_of: Ask) -> None:
    seen: list[dict[str, Any]] = []

    @model(name="embed", inputs=[TEXT], outputs=[VECTOR])
    def looks(text, ctx: Context):
        seen.append(ctx.parameters)
        return np.zeros(3, np.float32)

    client = client_of(looks, openai.routes(openai.Embeddings(looks)))
    client.embeddings.create(model="embed", input="a", user="anna", extra_body={"kind": "query", "depth": 2})
    assert seen == [{"user": "anna", "kind": "query", "depth": 2}]


def test_models_are_listed_and_looked_up(client_of: Ask) -> None:
    client = client_of(
        batched,
        openai.routes(
            openai.Embeddings(batched, name="org/embed"), openai.Embeddings(batched, name="second"), owned_by="us"
        ),
    )
    assert [(one.id, one.object, one.owned_by) for one in client.models.list()] == [
        ("org/embed", "model", "us"),
        ("second", "model", "us"),
    ]
    assert client.models.retrieve("org/embed").created > 1_700_000_000
    with pytest.raises(NotFoundError) as told:
        client.models.retrieve("third")
    assert told.value.code == "model_not_found"
    with pytest.raises(NotFoundError, match="The model 'third' does not exist"):
        client.embeddings.create(model="third", input="a")


def test_a_prefix_stands_before_the_paths(client_of: Ask) -> None:
    routes = openai.routes(openai.Embeddings(batched), prefix="/openai/v1/")
    client = client_of(batched, routes, base="/openai/v1")
    assert len(client.embeddings.create(model="embed", input="a").data) == 1


def test_what_cannot_be_embeddings_is_refused_at_once() -> None:
    numbers = model(name="numbers", inputs=[Tensor("x", np.float32, [1])], outputs=[VECTOR])(lambda x: x)
    matrix = model(name="matrix", inputs=[TEXT], outputs=[Tensor("m", np.float32, [-1, 3])])(lambda text: text)
    two = model(name="two", inputs=[TEXT], outputs=[VECTOR, Tensor("other", np.float32, [2])])(lambda text: text)
    more = model(name="more", inputs=[TEXT, Tensor("x", np.float32, [1])], outputs=[VECTOR])(lambda text, x: x)
    for served, text in (
        (numbers, r"Embeddings\('numbers'\): its input: none will do: Tensor\('x', 'FP32', \[1\]\)"),
        (matrix, r"Embeddings\('matrix'\): its output: none will do"),
        (two, r"Embeddings\('two'\): its output: several will do, so name one"),
        (more, r"Embeddings\('more'\): input 'x' is needed too; make it optional=True"),
        (3, "Embeddings takes a model or a function, not 3"),
    ):
        with pytest.raises(SignatureError, match=text):
            openai.Embeddings(served)
    assert openai.Embeddings(two, output="other").name == "two"
    with pytest.raises(SignatureError, match="'nothing' does not fit, expected one of"):
        openai.Embeddings(two, output="nothing")
    with pytest.raises(SignatureError, match="there is nothing to serve"):
        openai.routes()
    with pytest.raises(SignatureError, match=r"takes Embeddings, Completions and Chat, not Model"):
        openai.routes(batched)
    with pytest.raises(SignatureError, match="embeddings has two models of the name 'embed'; pass name="):
        openai.routes(openai.Embeddings(batched), openai.Embeddings(single))


def test_a_model_that_is_not_served_beside_them_is_missed_at_the_start() -> None:
    with pytest.raises(SignatureError, match="calls 'embed', which is not served; give it to the server too"):
        Client(openai.routes(openai.Embeddings(batched)))


def test_the_routes_themselves_take_no_tensors() -> None:
    with Client(batched, openai.routes(openai.Embeddings(batched))) as client:
        answer = client.post("/v2/models/openai/infer", b'{"inputs": []}')
    text = "model 'openai' answers HTTP requests to OpenAI's paths only"
    assert (answer.status, answer.json()) == (400, {"error": text})


def test_v1s_inference_stays_beside_them() -> None:
    with Client(annotated, openai.routes(openai.Embeddings(annotated))) as client:
        answer = client.post("/v1/models/embed:predict", b'{"instances": ["a"]}')
        assert (answer.status, answer.json()) == (200, {"predictions": [vector_of("a")]})
        assert client.get("/v1/models").json()["object"] == "list"
        elsewhere = openai.routes(openai.Embeddings(annotated), prefix="/openai/v1")
    with Client(annotated, elsewhere) as client:
        assert client.get("/v1/models/embed").json() == {"name": "embed", "ready": True}
        assert client.get("/openai/v1/models/embed").json()["id"] == "embed"


def test_routes_come_and_go_with_their_model() -> None:
    with Server(batched, http="127.0.0.1:0", grpc=None) as server:
        client = OpenAI(base_url=f"{server.http_url}/v1", api_key="-", max_retries=0, timeout=PATIENCE)
        with client:
            for _ in range(2):
                server.add(openai.routes(openai.Embeddings(batched)))
                assert len(client.embeddings.create(model="embed", input="a").data) == 1
                server.remove("openai")
                with pytest.raises(NotFoundError):
                    client.embeddings.create(model="embed", input="a")


def test_an_overload_says_when_to_come_back(client_of: Ask) -> None:
    @model(name="embed", inputs=[TEXT], outputs=[VECTOR])
    def full(text):
        error = Overloaded("later")
        error.retry_after = 1.5
        raise error

    client = client_of(full, openai.routes(openai.Embeddings(full)))
    with pytest.raises(RateLimitError) as told:
        client.embeddings.create(model="embed", input="a")
    assert (told.value.code, told.value.response.headers["retry-after"]) == ("rate_limit_exceeded", "2")
