"""`OpenAIChatAdapterModel`: chats of scripts of either version of KServe that implement completions (R8)."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from penstock.compat.kserve.errors import InvalidInput
from penstock.compat.kserve.protocol.rest.openai import (
    ChatCompletionRequest,
    ChatPrompt,
    CompletionRequest,
    OpenAIChatAdapterModel,
    OpenAIEncoderModel,
    OpenAIGenerativeModel,
    OpenAIModel,
)
from penstock.compat.kserve.protocol.rest.openai.errors import OpenAIError, create_error_response
from penstock.compat.kserve.protocol.rest.openai.openai_model import AsyncMappingIterator
from penstock.compat.kserve.protocol.rest.openai.types import (
    Completion,
    CompletionChoice,
    CompletionChunk,
    CompletionLogProbs,
    CreateChatCompletionRequest,
    CreateCompletionRequest,
    UsageInfo,
)

MESSAGES = [{"role": "user", "content": "hi there"}]


def completion(text: str, reason: str | None = "stop", logprobs: Any = None) -> Completion:
    choice = CompletionChoice(index=0, text=text, finish_reason=reason, logprobs=logprobs)
    usage = UsageInfo(prompt_tokens=1, completion_tokens=2, total_tokens=3)
    return Completion(id="i", created=5, model="m", choices=[choice], usage=usage)


class New(OpenAIChatAdapterModel):
    """A script's model for KServe 0.14 and later."""

    def __init__(self) -> None:
        super().__init__("m")
        self.seen: Any = None

    def apply_chat_template(self, request: Any) -> ChatPrompt:
        return ChatPrompt(prompt=" ".join(one["content"] for one in request.messages))

    async def create_completion(self, request: Any, raw_request: Any = None, context: Any = None) -> Any:
        self.seen = request, raw_request, context
        if not request.stream:
            return completion(request.prompt.upper())

        async def words() -> Any:
            for word in request.prompt.split():
                yield f"data: {completion(word, None).model_dump_json()}\n\n"
            yield "data: [DONE]\n\n"

        return words()


class Old(OpenAIChatAdapterModel):
    """A script's model for KServe 0.13."""

    def __init__(self) -> None:
        super().__init__("m")
        self.seen: Any = None

    def apply_chat_template(self, messages: Any) -> ChatPrompt:
        return ChatPrompt(prompt=" ".join(one.content for one in messages), response_role="robot")

    async def create_completion(self, request: Any) -> Any:
        self.seen = request
        if not request.params.stream:
            return completion(request.params.prompt.upper())

        async def words() -> Any:
            for word in request.params.prompt.split():
                yield completion(word, None)

        return words()


def chat(model: Any, **more: Any) -> Any:
    request = ChatCompletionRequest(model="m", messages=MESSAGES, **more)
    return asyncio.run(collected(model, request))


async def collected(model: Any, request: Any) -> Any:
    response = await model.create_chat_completion(request, "raw", {"headers": {}})
    return [chunk async for chunk in response] if hasattr(response, "__aiter__") else response


def test_r8_chat_is_a_completion_of_its_prompt() -> None:
    model = New()
    response = chat(model, temperature=0.5, max_tokens=3)
    assert (response.object, response.id, response.created, response.usage.total_tokens) == (
        "chat.completion",
        "i",
        5,
        3,
    )
    assert (response.choices[0].message.role, response.choices[0].message.content) == ("assistant", "HI THERE")
    assert response.choices[0].finish_reason == "stop"
    request, raw, context = model.seen
    assert isinstance(request, CompletionRequest)
    assert (request.prompt, request.temperature, request.max_tokens) == ("hi there", 0.5, 3)
    assert (raw, context) == ("raw", {"headers": {}})


def test_r8_streamed_chat_sends_an_event_per_chunk() -> None:
    *events, done = chat(New(), stream=True)
    assert done == "data: [DONE]\n\n"
    chunks = [json.loads(event.removeprefix("data: ")) for event in events]
    assert [one["choices"][0]["delta"]["content"] for one in chunks] == ["hi", "there"]
    assert {one["object"] for one in chunks} == {"chat.completion.chunk"}


def test_r8_chat_of_0_13_has_params_and_context() -> None:
    model = Old()
    params = CreateChatCompletionRequest(model="m", messages=MESSAGES, user="anna")
    request = ChatCompletionRequest(params=params, request_id="r", context={"headers": {"a": "b"}})
    response = asyncio.run(collected(model, request))
    assert (response.choices[0].message.role, response.choices[0].message.content) == ("robot", "HI THERE")
    seen = model.seen
    assert isinstance(seen.params, CreateCompletionRequest)
    assert (seen.params.prompt, seen.params.user, seen.params.temperature) == ("hi there", "anna", 1.0)
    assert (seen.request_id, seen.context) == ("r", {"headers": {"a": "b"}})


def test_r8_stream_of_0_13_yields_objects() -> None:
    params = CreateChatCompletionRequest(model="m", messages=MESSAGES, stream=True)
    chunks = asyncio.run(collected(Old(), ChatCompletionRequest(params=params)))
    assert [one.choices[0].delta.content for one in chunks] == ["hi", "there"]


@pytest.mark.parametrize("model", [New(), Old()], ids=["new", "old"])
def test_r8_only_one_choice_is_supported(model: Any) -> None:
    with pytest.raises(InvalidInput, match="n != 1 is not supported"):
        chat(model, n=2)


def test_r8_log_probabilities_are_converted() -> None:
    logprobs = CompletionLogProbs(
        tokens=["é", "x"], token_logprobs=[-0.5, None], top_logprobs=[{"é": -0.5, "e": -1.0}, None], text_offset=[0, 1]
    )

    class Likely(New):
        async def create_completion(self, request: Any, raw_request: Any = None, context: Any = None) -> Any:
            return completion("éx", logprobs=logprobs)

    first, second = chat(Likely()).choices[0].logprobs.content
    assert (first.token, first.bytes, first.logprob) == ("é", [195, 169], -0.5)
    assert [(one.token, one.logprob) for one in first.top_logprobs] == [("é", -0.5), ("e", -1.0)]
    assert (second.token, second.top_logprobs) == ("x", [])


def test_r8_completion_errors_are_chat_errors() -> None:
    class Refuses(New):
        async def create_completion(self, request: Any, raw_request: Any = None, context: Any = None) -> Any:
            return create_error_response("no", "T")

    assert chat(Refuses()).error.message == "no"


def test_r8_closing_the_stream_closes_the_completion() -> None:
    closed = []

    class Endless(New):
        async def create_completion(self, request: Any, raw_request: Any = None, context: Any = None) -> Any:
            async def words() -> Any:
                try:
                    while True:
                        yield CompletionChunk(model="m", choices=[CompletionChoice(index=0, text="w")])
                finally:
                    closed.append(True)

            return words()

    async def read_one() -> None:
        request = ChatCompletionRequest(model="m", messages=MESSAGES, stream=True)
        events = await Endless().create_chat_completion(request)
        await anext(events)
        await events.aclose()

    asyncio.run(read_one())
    assert closed == [True]


def test_r8_iterators_are_mapped_and_closed() -> None:
    closed: list[str] = []

    async def numbers() -> Any:
        for number in range(4):
            yield number

    async def close() -> None:
        closed.append("closed")

    async def read() -> list[Any]:
        mapped = AsyncMappingIterator(numbers(), lambda one: one if one % 2 else None, close=close)
        return [one async for one in mapped]

    assert asyncio.run(read()) == [1, 3]
    assert closed == ["closed"]


def test_r8_models_are_ready_and_abstract_methods_are_required() -> None:
    assert New().ready
    with pytest.raises(TypeError, match="abstract"):
        OpenAIGenerativeModel("m")  # type: ignore[abstract]
    with pytest.raises(TypeError, match="abstract"):
        OpenAIEncoderModel("m")  # type: ignore[abstract]
    assert issubclass(OpenAIGenerativeModel, OpenAIModel)
    assert OpenAIModel("m").name == "m"


def test_r8_openai_errors_have_a_text() -> None:
    assert str(OpenAIError("text")) == "text"
    assert str(OpenAIError(create_error_response("custom", "T", "p"))) == "custom"
    error = create_error_response("custom")
    assert error.model_dump() == {"error": {"code": "400", "message": "custom", "param": "", "type": "BadRequestError"}}
