"""`openai.Rerank`: `/v1/rerank` in the forms of Jina and Cohere, and `/v1/score` in that of vLLM."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from openai_helpers import post

from penstock import Batching, Context, Overloaded, SignatureError, Tensor, model, openai
from penstock.testing import Client

CALLS: list[int] = []
"""Pairs of each call."""


@model(name="rank", batching=Batching(max_size=4))
def batched(query: list[str], document: list[str]) -> list[float]:
    CALLS.append(len(document))
    return [float(text.count(word)) for word, text in zip(query, document, strict=True)]


@model(name="rank")
def single(query: str, document: str) -> float:
    CALLS.append(1)
    return float(document.count(query))


@model(
    name="rank",
    inputs=[Tensor("query", str, [1]), Tensor("documents", str, [-1])],
    outputs=[Tensor("scores", np.float32, [-1])],
)
def several(query, documents):
    CALLS.append(len(documents))
    return np.array([text.count(query[0]) for text in documents], np.float32)


@model(
    name="rank",
    inputs=[Tensor("hint", str, [1], optional=True), Tensor("d", str, [1]), Tensor("q", str, [1])],
    outputs=[Tensor("extra", np.int64, [1]), Tensor("score", np.float32, [1])],
    batching=Batching(max_size=4),
)
def named(hint, d, q):
    scores = np.array([[text.count(word)] for text, word in zip(d[:, 0], q[:, 0], strict=True)])
    return scores.astype(np.int64) * 0, scores.astype(np.float32) + np.float32(0.1)


DOCUMENTS = ["b", "aab", "", "a", "aaaa"]


@pytest.fixture(autouse=True)
def _no_calls() -> None:
    CALLS.clear()


@pytest.fixture
def client() -> Iterator[Client]:
    """A client of the batched model, whose texts have as many tokens as letters."""
    with Client(batched, openai.routes(openai.Rerank(batched, tokens=len))) as opened:
        yield opened


@pytest.mark.parametrize(
    ("served", "calls"), [(batched, [4, 1]), (single, [1] * 5), (several, [5])], ids=["batched", "single", "several"]
)
@pytest.mark.parametrize("path", ["/v1/rerank", "/rerank", "/v2/rerank"])
def test_documents_in_the_order_of_their_scores(served: Any, calls: list[int], path: str) -> None:
    with Client(served, openai.routes(openai.Rerank(served))) as client:
        response = post(client, path, {"model": "rank", "query": "a", "documents": DOCUMENTS})
        document = response.json()
    assert response.status == 200
    assert [(one["index"], one["relevance_score"]) for one in document["results"]] == [
        (4, 4.0),
        (1, 2.0),
        (3, 1.0),
        (0, 0.0),
        (2, 0.0),
    ]
    assert document["meta"]["api_version"]["version"] == ("2" if "v2" in path else "1")
    assert sum(CALLS) == 5
    assert len(CALLS) >= len(calls)
    assert all("document" not in one for one in document["results"])


def test_documents_as_objects_are_returned_with_usage(client: Client) -> None:
    asked = {
        "model": "rank",
        "query": "a",
        "documents": [{"text": "aa"}, "a", {"text": "b"}],
        "top_n": 2,
        "return_documents": True,
        "rank_fields": ["text"],
    }
    document = post(client, "/v1/rerank", asked).json()
    assert document["results"] == [
        {"index": 0, "relevance_score": 2.0, "document": {"text": "aa"}},
        {"index": 1, "relevance_score": 1.0, "document": {"text": "a"}},
    ]
    # The query counts for each document, as the model reads it with each.
    assert document["usage"] == {"prompt_tokens": 7, "total_tokens": 7}
    assert document["meta"]["tokens"] == {"input_tokens": 7}
    assert (document["object"], document["model"]) == ("list", "rank")


def test_inputs_and_output_by_name_and_short_numbers() -> None:
    rerank = openai.Rerank(named, name="best", query="q", document="d", output="score")
    with Client(named, openai.routes(rerank)) as client:
        response = post(client, "/v1/rerank", {"model": "best", "query": "a", "documents": ["a", "b"]})
    assert b'"relevance_score":1.1' in response.body
    assert b'"relevance_score":0.1' in response.body


def test_scores_are_not_rounded() -> None:
    @model(name="rank")
    def exact(query: str, document: str) -> float:
        return 1 / 3

    with Client(exact, openai.routes(openai.Rerank(exact))) as client:
        document = post(client, "/v1/score", {"model": "rank", "text_1": "a", "text_2": "b"}).json()
    assert document["data"][0]["score"] == 1 / 3


@pytest.mark.parametrize(
    ("asked", "scores"),
    [
        ({"text_1": "a", "text_2": ["aa", "b"]}, [2.0, 0.0]),
        ({"text_1": ["a", "b"], "text_2": ["aa", "bbb"]}, [2.0, 3.0]),
        ({"text_1": "a", "text_2": "a"}, [1.0]),
        ({"queries": "a", "documents": ["aa"] * 9}, [2.0] * 9),
    ],
)
@pytest.mark.parametrize("served", [batched, single, several], ids=["batched", "single", "several"])
def test_scores_of_pairs(served: Any, asked: dict[str, Any], scores: list[float]) -> None:
    with Client(served, openai.routes(openai.Rerank(served))) as client:
        for path in ("/v1/score", "/score"):
            document = post(client, path, {"model": "rank", **asked}).json()
            assert [one["score"] for one in document["data"]] == scores
            assert [one["index"] for one in document["data"]] == list(range(len(scores)))
    assert (document["object"], document["data"][0]["object"]) == ("list", "score")


@pytest.mark.parametrize(
    ("path", "changes", "param", "text"),
    [
        ("rerank", {"model": "other"}, "model", "The model 'other' does not exist"),
        ("rerank", {"query": None}, "query", "'query' is missing"),
        ("rerank", {"query": 1}, "query", "'query' must be a string"),
        ("rerank", {"documents": None}, "documents", "'documents' is missing"),
        ("rerank", {"documents": []}, "documents", "'documents' must be a list of one document at least"),
        ("rerank", {"documents": "a"}, "documents", "'documents' must be a list of one document at least"),
        ("rerank", {"documents": ["a", 1]}, "documents[1]", "must be a string or an object with a 'text'"),
        ("rerank", {"documents": [{"title": "a"}]}, "documents[0]", "must be a string or an object with a 'text'"),
        ("rerank", {"documents": ["a"] * 10_001}, "documents", "has 10001 documents, expected 10000 at most"),
        ("rerank", {"top_n": 0}, "top_n", "'top_n' must be 1 or more, not 0"),
        ("rerank", {"top_n": "1"}, "top_n", "'top_n' must be an integer"),
        ("rerank", {"return_documents": 1}, "return_documents", "'return_documents' must be a boolean"),
        ("rerank", {"rank_fields": ["title"]}, "rank_fields", "'rank_fields' other than [\"text\"] is not supported"),
        ("rerank", {"max_tokens_per_doc": [1]}, "max_tokens_per_doc", "a parameter is a number, a string or a boolean"),
        ("score", {"documents": None}, "text_1", "'text_1' is missing"),
        ("score", {"text_1": "a", "documents": None}, "text_2", "'text_2' is missing"),
        ("score", {"text_1": ["a", "b"], "text_2": ["a"]}, "text_2", "'text_1' has 2 texts and 'text_2' 1"),
        ("score", {"queries": ["a", "b"], "documents": ["a"] * 3}, "documents", "or one 'queries'"),
        ("score", {"text_1": [1], "text_2": "a"}, "text_1", "'text_1' must be text here"),
    ],
)
def test_refusals_name_the_member(client: Client, path: str, changes: dict[str, Any], param: str, text: str) -> None:
    asked = {"model": "rank", "documents": ["a"], **({"query": "a"} if path == "rerank" else {}), **changes}
    response = post(client, f"/v1/{path}", asked)
    error = response.json()["error"]
    assert response.status == (404 if param == "model" else 400)
    assert (error["type"], error["param"]) == ("invalid_request_error", param)
    assert text in error["message"]


def test_errors_of_the_model() -> None:
    @model(name="rank")
    def failing(query: str, document: str) -> float:
        if document == "nan":
            return float("nan")
        raise Overloaded("later")

    with Client(failing, openai.routes(openai.Rerank(failing))) as client:
        busy = post(client, "/v1/rerank", {"model": "rank", "query": "a", "documents": ["a"]})
        nan = post(client, "/v1/score", {"model": "rank", "text_1": "a", "text_2": "nan"})
    assert (busy.status, busy.json()["error"]["code"]) == (429, "rate_limit_exceeded")
    assert nan.status == 500
    assert "NaN or infinity" in nan.json()["error"]["message"]


def test_wrong_number_of_scores_is_an_error_of_the_model() -> None:
    @model(
        name="rank",
        inputs=[Tensor("query", str, [1]), Tensor("documents", str, [-1])],
        outputs=[Tensor("scores", np.float32, [-1])],
    )
    def short(query, documents):
        return np.zeros(len(documents) - 1, np.float32)

    with Client(short, openai.routes(openai.Rerank(short))) as client:
        response = post(client, "/v1/rerank", {"model": "rank", "query": "a", "documents": ["a", "b"]})
    assert response.status == 500
    assert "gave 1 scores for 2 documents" in response.json()["error"]["message"]


def test_other_prefix_has_no_paths_without_it() -> None:
    with Client(batched, openai.routes(openai.Rerank(batched), prefix="/api")) as client:
        asked = {"model": "rank", "query": "a", "documents": ["a"]}
        assert post(client, "/api/rerank", asked).status == 200
        assert [post(client, path, asked).status for path in ("/rerank", "/v2/rerank", "/v1/rerank")] == [404] * 3


def test_other_members_are_parameters_of_the_model() -> None:
    seen: list[Any] = []

    @model(name="rank")
    def read(query: str, document: str, ctx: Context) -> float:
        seen.append(dict(ctx.parameters))
        return 0.0

    with Client(read, openai.routes(openai.Rerank(read))) as client:
        post(client, "/v2/rerank", {"model": "rank", "query": "a", "documents": ["a"], "max_tokens_per_doc": 7})
    assert seen == [{"max_tokens_per_doc": 7}]


ONE_TEXT = model(lambda text: 1.0, name="m", inputs=[Tensor("text", str, [1])], outputs=[Tensor("y", float, [])])


@pytest.mark.parametrize(
    ("served", "options", "text"),
    [
        (ONE_TEXT, {}, "its document: none will do"),
        (named, {"query": "q", "document": "d"}, "its output: several will do, so name one"),
        (named, {"query": "x"}, "its query: 'x' does not fit"),
        (named, {"query": "hint", "document": "q", "output": "score"}, "input 'd' is needed too; make it optional"),
        (7, {}, "Rerank takes a model or a function, not 7"),
    ],
)
def test_unfit_models_are_refused(served: Any, options: dict[str, Any], text: str) -> None:
    with pytest.raises(SignatureError) as raised:
        openai.Rerank(served, **options)
    assert text in str(raised.value)
