"""OpenAI's types without vLLM and pydantic: parsing and dumping (R8)."""

from __future__ import annotations

import json
from typing import Any

import pydantic
import pytest

from penstock.compat.kserve.protocol.rest.openai import types
from penstock.compat.kserve.protocol.rest.openai.types import (
    ChatCompletionRequest,
    Completion,
    CompletionChoice,
    CompletionChunk,
    CompletionRequest,
    CreateChatCompletionRequest,
    CreateCompletionRequest,
    Embedding,
    EmbeddingRequest,
    EmbeddingResponseData,
    Error,
    ErrorResponse,
    RerankRequest,
    UsageInfo,
    ValidationError,
    openapi,
)

# As KServe 0.21 exports them, then those of 0.13.
NEW = """
    ChatCompletion ChatCompletionChoice ChatCompletionChunk CompletionChunk CompletionChunkChoice ChatMessage
    ChatCompletionLogProb ChatCompletionLogProbs ChoiceDelta ChunkChoice Completion CompletionChoice
    ChatCompletionRequest CompletionRequest ChatCompletionContentPartParam CustomChatCompletionMessageParam
    ChatCompletionMessageParam ChatCompletionToolMessageParam ChatCompletionContentPartTextParam
    ChatCompletionAssistantMessageParam ConversationMessage Error ErrorResponse CompletionLogProbs UsageInfo
    ChatCompletionLogProbsContent Embedding EmbeddingCompletionRequest EmbeddingRequest EmbeddingResponseData Model
    ModelList RerankRequest Rerank
"""
OLD = """
    ChatCompletion ChatCompletionChoice ChatCompletionChoiceLogprobs ChatCompletionChunk
    ChatCompletionRequestAssistantMessage ChatCompletionRequestFunctionMessage ChatCompletionRequestMessage
    ChatCompletionRequestSystemMessage ChatCompletionRequestToolMessage ChatCompletionRequestUserMessage
    ChatCompletionResponseMessage ChatCompletionTokenLogprob ChoiceDelta ChunkChoice Completion CompletionChoice
    CreateChatCompletionRequest CreateCompletionRequest ErrorResponse Logprobs TopLogprob CompletionUsage
"""
OF_OPENAPI = """
    ChatCompletionRequestUserMessage ChatCompletionResponseMessage ChatCompletionStreamResponseDelta Choice Choice1
    Choice3 CreateChatCompletionRequest CreateChatCompletionResponse CreateChatCompletionStreamResponse
    CreateCompletionRequest CreateCompletionResponse CompletionUsage Error ErrorResponse ListModelsResponse Logprobs
    Logprobs2 Model TopLogprob
"""


def test_r8_type_names_of_both_versions_exist() -> None:
    assert not [name for name in {*NEW.split(), *OLD.split()} if not hasattr(types, name)]
    assert not [name for name in OF_OPENAPI.split() if not hasattr(openapi, name)]


def test_r8_responses_are_json_with_nulls() -> None:
    choice = CompletionChoice(index=0, text="é", finish_reason="stop", logprobs=None)
    completion = Completion(id="i", created=5, model="m", choices=[choice], usage=UsageInfo(prompt_tokens=1))
    expected = {
        "id": "i", "object": "text_completion", "created": 5, "model": "m",
        "choices": [{"index": 0, "text": "é", "logprobs": None, "finish_reason": "stop"}],
        "system_fingerprint": None,
        "usage": {"prompt_tokens": 1, "total_tokens": 0, "completion_tokens": 0},
    }  # fmt: skip
    assert json.loads(completion.model_dump_json()) == completion.model_dump() == expected
    assert "é" in completion.model_dump_json()
    assert Completion.model_validate_json(completion.model_dump_json()) == completion
    short = completion.model_dump(exclude_none=True, exclude_unset=True)
    assert short == {
        "id": "i", "created": 5, "model": "m",
        "choices": [{"index": 0, "text": "é", "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 1},
    }  # fmt: skip


def test_r8_ids_and_times_are_created() -> None:
    first, second = (CompletionChunk(model="m", choices=[]) for _ in range(2))
    assert first.id.startswith("cmpl-")
    assert first.id != second.id
    assert first.created > 1_700_000_000


def test_r8_requests_retain_unknown_members() -> None:
    request = CompletionRequest.model_validate({"model": "m", "prompt": "p", "top_k": 3})
    assert (request.top_k, request.model_extra) == (3, {"top_k": 3})
    assert request.model_dump(exclude_unset=True) == {"model": "m", "prompt": "p", "top_k": 3}
    assert (request.max_tokens, request.n, request.temperature, request.stop) == (16, 1, None, [])


@pytest.mark.parametrize("kind", [CreateCompletionRequest, CreateChatCompletionRequest])
def test_r8_requests_of_0_13_have_their_defaults(kind: Any) -> None:
    body = {"model": "m", "prompt": "p", "messages": [{"role": "user", "content": "p"}]}
    request = kind.model_validate(body)
    assert (request.temperature, request.top_p, request.stop, request.n) == (1.0, 1.0, None, 1)


def test_r8_one_request_class_serves_both_versions() -> None:
    new = CompletionRequest(model="m", prompt="p")
    assert new.params is new
    assert new.context is None
    params = CreateCompletionRequest(model="m", prompt="p", max_tokens=3)
    old = CompletionRequest(request_id="r", params=params, context={"headers": {}})
    assert (old.params, old.request_id, old.context) == (params, "r", {"headers": {}})
    # Code for the later form works too.
    assert (old.prompt, old.max_tokens, old.stream) == ("p", 3, False)
    assert json.loads(old.model_dump_json(exclude_unset=True)) == {"model": "m", "prompt": "p", "max_tokens": 3}
    with pytest.raises(AttributeError, match="nothing"):
        old.nothing  # noqa: B018 - attribute access is the test


def test_r8_messages_are_dicts_with_attributes() -> None:
    messages = [{"role": "system", "content": "be brief"}, {"role": "user", "content": [{"type": "text", "text": "x"}]}]
    request = ChatCompletionRequest(model="m", messages=messages)
    first, second = request.messages
    assert (first["role"], first.role, first.content, first.name) == ("system", "system", "be brief", None)
    assert isinstance(second, types.ChatCompletionRequestUserMessage)
    assert second.root.content[0]["text"] == "x"
    assert request.model_dump(include={"messages"}) == {"messages": messages}
    with pytest.raises(AttributeError):
        first.nothing  # noqa: B018 - attribute access is the test


@pytest.mark.parametrize(
    ("kind", "body", "location", "message"),
    [
        (CreateCompletionRequest, {"prompt": "p"}, ["model"], "Field required"),
        (CreateCompletionRequest, {"model": "m"}, ["prompt"], "Field required"),
        (CreateCompletionRequest, {"model": "m", "prompt": "p", "n": 1000}, ["n"],
         "Input should be less than or equal to 128"),
        (CreateCompletionRequest, {"model": "m", "prompt": "p", "temperature": -1}, ["temperature"],
         "Input should be greater than or equal to 0"),
        (CompletionRequest, {"prompt": "p", "max_tokens": "3"}, ["max_tokens"], "Input should be a valid integer"),
        (CompletionRequest, {"prompt": "p", "stream": 1}, ["stream"], "Input should be a valid boolean"),
        (CompletionRequest, {"prompt": 3}, ["prompt"], "Input should be a valid string"),
        (CompletionRequest, {"prompt": "p", "logit_bias": {"a": "b"}}, ["logit_bias", "a"],
         "Input should be a valid number"),
        (ChatCompletionRequest, {"model": "m"}, ["messages"], "Field required"),
        (ChatCompletionRequest, {"messages": "hi"}, ["messages"], "Input should be a valid list"),
        (ChatCompletionRequest, {"messages": ["hi"]}, ["messages", 0], "Input should be a valid dictionary"),
        (ChatCompletionRequest, {"messages": [{"content": "hi"}]}, ["messages", 0, "role"], "Field required"),
        (EmbeddingRequest, {"input": "a", "encoding_format": "hex"}, ["encoding_format"],
         "Input should be 'float' or 'base64'"),
        (EmbeddingRequest, [], [], "Input should be a valid dictionary"),
        (RerankRequest, {"query": "q"}, ["documents"], "Field required"),
    ],
)  # fmt: skip
def test_r8_validation_errors_have_a_location(kind: Any, body: Any, location: list[Any], message: str) -> None:
    with pytest.raises(ValidationError) as caught:
        kind.model_validate(body)
    (error,) = caught.value.errors()
    assert (error["loc"], error["msg"]) == (location, message)


def test_r8_pydantic_objects_are_accepted() -> None:
    class Choice(pydantic.BaseModel):
        index: int
        text: str

    class Mine(pydantic.BaseModel):
        model: str
        choices: list[Choice]

    mine = Mine(model="m", choices=[Choice(index=0, text="t")])
    assert Completion.model_validate(mine).choices[0].text == "t"
    assert Completion(model="m", choices=[Choice(index=0, text="t")]).choices[0].finish_reason is None


def test_r8_members_can_be_changed() -> None:
    request = CompletionRequest(model="m", prompt="p")
    request.prompt = "q"
    request.seed = 3
    assert request.model_dump(exclude_unset=True) == {"model": "m", "prompt": "q", "seed": 3}
    other = request.model_copy(update={"prompt": "r"})
    assert (other.prompt, request.prompt) == ("r", "q")


def test_r8_model_construct_does_not_validate() -> None:
    chunk = CompletionChunk.model_construct(model="m", choices=[{"anything": 1}])
    assert chunk.model_dump(include={"choices", "usage"}) == {"choices": [{"anything": 1}], "usage": None}


def test_r8_error_and_embedding_types() -> None:
    error = ErrorResponse(error=Error(code="400", message="m", param=None, type="t"))
    assert error.model_dump() == {"error": {"code": "400", "message": "m", "param": None, "type": "t"}}
    data = [EmbeddingResponseData(index=0, embedding=[1.0, 2]), EmbeddingResponseData(index=1, embedding="AAA=")]
    assert [one.embedding for one in Embedding(model="m", data=data).data] == [[1.0, 2.0], "AAA="]


def test_r8_members_have_the_order_of_0_13() -> None:
    choice = CompletionChoice(text="t", index=0, more=1)
    assert list(choice.model_dump()) == ["finish_reason", "index", "logprobs", "text", "more"]
    completion = Completion.model_construct(usage=None, model="m", choices=[], id="i")
    expected = ["id", "choices", "created", "model", "system_fingerprint", "object", "usage"]
    assert list(completion.model_dump()) == expected
