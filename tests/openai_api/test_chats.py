"""Chats in full, with the official OpenAI client: tools, reasoning, logprobs, several answers, usage, bad input."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from openai import BadRequestError, InternalServerError
from openai_helpers import ServeModels, post

from penstock import Context, SignatureError, Tensor, model, openai
from penstock.openai import Delta, TokenLogprob, ToolCall, TopLogprob, Usage
from penstock.testing import Client
from waiting import PATIENCE

CHAT = "/v1/chat/completions"
HELLO: Any = [{"role": "user", "content": "What is the weather?"}]
WEATHER: Any = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


@model(name="agent")
def agent(
    messages: list[dict[str, Any]],
    tools: list[dict[str, Any]] | None = None,
    tool_choice: Any = None,
    response_format: dict[str, Any] | None = None,
) -> Iterator[str | Delta]:
    """Calls the first tool, then answers with its result."""
    last = messages[-1]
    if response_format is not None:
        yield json.dumps({"kind": response_format["type"]})
    elif last["role"] == "tool":
        yield "It is "
        yield f"{last['content']}."
    elif tools:
        yield Delta(reasoning="I need ")
        yield Delta(reasoning="a tool.")
        yield Delta(content="Let me look.")
        name = tool_choice["function"]["name"] if isinstance(tool_choice, dict) else tools[0]["function"]["name"]
        yield Delta(tool_calls=[ToolCall(name, '{"city":')])
        yield Delta(tool_calls=[ToolCall(arguments=' "Oslo"}'), ToolCall(name, {"city": "Bergen"}, id="mine")])
        yield Delta(usage=Usage(prompt_tokens=11, completion_tokens=22, reasoning_tokens=5, cached_tokens=3))
    else:
        yield "No tools."


@pytest.mark.parametrize("stream", [False, True])
def test_tools_in_a_loop_of_two_turns(client_of: ServeModels, stream: bool) -> None:
    client = client_of(agent, openai.routes(openai.Chat(agent)))
    messages = [*HELLO]
    if stream:
        with client.chat.completions.stream(model="agent", messages=messages, tools=[WEATHER]) as events:
            response: Any = events.get_final_completion()
    else:
        response = client.chat.completions.create(model="agent", messages=messages, tools=[WEATHER])
    (choice,) = response.choices
    assert (choice.finish_reason, choice.message.content) == ("tool_calls", "Let me look.")
    assert choice.message.reasoning_content == choice.message.reasoning == "I need a tool."
    first, second = choice.message.tool_calls
    assert json.loads(first.function.arguments) == {"city": "Oslo"}
    assert (second.id, json.loads(second.function.arguments)) == ("mine", {"city": "Bergen"})
    assert first.id.startswith("call_")
    assert first.function.name == second.function.name == "weather"

    messages.append(choice.message.model_dump(exclude_none=True, exclude={"parsed", "reasoning", "reasoning_content"}))
    for call in choice.message.tool_calls:
        messages.append({"role": "tool", "tool_call_id": call.id, "content": "sunny"})
    if stream:
        chunks = client.chat.completions.create(model="agent", messages=messages, tools=[WEATHER], stream=True)
        assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "It is sunny."
    else:
        response = client.chat.completions.create(model="agent", messages=messages, tools=[WEATHER])
        assert response.choices[0].message.content == "It is sunny."
        assert response.choices[0].finish_reason == "stop"


def test_tool_choice_is_the_models_business_except_none(client_of: ServeModels) -> None:
    client = client_of(agent, openai.routes(openai.Chat(agent)))
    other: Any = {"type": "function", "function": {"name": "other"}}
    create: Any = client.chat.completions.create
    response = create(model="agent", messages=HELLO, tools=[WEATHER, other], tool_choice=other)
    assert response.choices[0].message.tool_calls[0].function.name == "other"

    @model(name="simple")
    def simple(messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None = None) -> str:
        return f"{len(tools or [])} tools"

    create = client_of(simple, openai.routes(openai.Chat(simple))).chat.completions.create
    assert create(model="simple", messages=HELLO, tools=[WEATHER]).choices[0].message.content == "1 tools"
    none = create(model="simple", messages=HELLO, tools=[WEATHER], tool_choice="none")
    assert none.choices[0].message.content == "0 tools"
    with pytest.raises(BadRequestError, match="'tool_choice' other than"):
        create(model="simple", messages=HELLO, tools=[WEATHER], tool_choice="required")


def test_response_format_reaches_the_model(client_of: ServeModels) -> None:
    client = client_of(agent, openai.routes(openai.Chat(agent)))
    form: Any = {"type": "json_schema", "json_schema": {"name": "kind", "schema": {"type": "object"}}}
    response = client.chat.completions.create(model="agent", messages=HELLO, response_format=form)
    assert json.loads(response.choices[0].message.content or "") == {"kind": "json_schema"}


def test_usage_of_the_model_is_reported(client_of: ServeModels) -> None:
    client = client_of(agent, openai.routes(openai.Chat(agent, tokens=len)))
    response = client.chat.completions.create(model="agent", messages=HELLO, tools=[WEATHER])
    usage: Any = response.usage
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (11, 22, 33)
    assert usage.prompt_tokens_details.cached_tokens == 3
    assert usage.completion_tokens_details.reasoning_tokens == 5
    options: Any = {"include_usage": True, "continuous_usage_stats": True}
    chunks = [
        *client.chat.completions.create(
            model="agent", messages=HELLO, tools=[WEATHER], stream=True, stream_options=options
        )
    ]
    assert [chunk.usage is None for chunk in chunks] == [True] * (len(chunks) - 2) + [False] * 2
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.total_tokens == 33
    counted = client.chat.completions.create(model="agent", messages=HELLO)
    assert counted.usage is not None
    assert counted.usage.completion_tokens == len("No tools.")


@pytest.mark.parametrize("stream", [False, True])
def test_logprobs_follow_their_text(client_of: ServeModels, stream: bool) -> None:
    @model(name="likely")
    def likely(messages: list[dict[str, Any]], ctx: Context) -> Iterator[Delta]:
        top = [TopLogprob("a", -0.1), TopLogprob("b", -2.5)][: int(ctx.parameters["top_logprobs"])]
        for token in ("a", "b"):
            yield Delta(content=token, logprobs=[TokenLogprob(token, -0.5, top_logprobs=top)])

    chat = openai.Chat(likely, accepts={"logprobs", "top_logprobs"})
    client = client_of(likely, openai.routes(chat))
    given: Any = client.chat.completions.create(
        model="likely", messages=HELLO, logprobs=True, top_logprobs=1, stream=stream
    )
    choices = [chunk.choices[0] for chunk in given] if stream else given.choices
    found = [one for choice in choices if choice.logprobs for one in choice.logprobs.content]
    assert [(one.token, one.logprob, len(one.top_logprobs)) for one in found] == [("a", -0.5, 1), ("b", -0.5, 1)]
    with pytest.raises(BadRequestError, match="'top_logprobs' needs 'logprobs': true"):
        client.chat.completions.create(model="likely", messages=HELLO, top_logprobs=1)


def test_completions_have_logprobs_in_their_form(client_of: ServeModels) -> None:
    @model(name="likely")
    def likely(prompt: str, logprobs: int = 0) -> Iterator[Delta]:
        for token in ("é", "b"):
            top = [TopLogprob(token, -0.5)] * logprobs
            yield Delta(content=token, logprobs=[TokenLogprob(token, -0.5, top_logprobs=top)])

    client = client_of(likely, openai.routes(openai.Completions(likely)))
    (choice,) = client.completions.create(model="likely", prompt="abc", logprobs=1, echo=True).choices
    assert choice.text == "abcéb"
    logprobs: Any = choice.logprobs
    assert (logprobs.tokens, logprobs.text_offset) == (["é", "b"], [3, 4])
    assert logprobs.top_logprobs == [{"é": -0.5}, {"b": -0.5}]


@pytest.mark.parametrize("stream", [False, True])
def test_each_of_several_answers_has_a_seed(client_of: ServeModels, stream: bool) -> None:
    @model(name="dice")
    def dice(prompt: str, seed: int = 0) -> Iterator[str]:
        yield from (f"{prompt}{seed}", "!")

    chat = openai.Chat(dice, lambda messages: str(messages[-1]["content"]), tokens=len)
    client = client_of(dice, openai.routes(chat, openai.Completions(dice)))
    hello: Any = [{"role": "user", "content": "x"}]
    given: Any = client.chat.completions.create(model="dice", messages=hello, n=3, seed=7, stream=stream)
    texts = ["", "", ""]
    if stream:
        for chunk in given:
            texts[chunk.choices[0].index] += chunk.choices[0].delta.content or ""
    else:
        texts = [choice.message.content for choice in given.choices]
        assert (given.usage.prompt_tokens, given.usage.completion_tokens) == (1, 9)
    assert texts == ["x7!", "x8!", "x9!"]
    both = client.completions.create(model="dice", prompt=["a", "b"], n=2, seed=1).choices
    assert [(choice.index, choice.text) for choice in both] == [(0, "a1!"), (1, "a2!"), (2, "b3!"), (3, "b4!")]


def test_template_takes_members_by_keyword(client_of: ServeModels) -> None:
    @model(name="echo")
    def echo(prompt: str) -> str:
        return prompt

    def template(messages: list[dict[str, Any]], tools: Any = None, *, reasoning_effort: str = "none") -> str:
        return f"{messages[-1]['content']} {[tool['function']['name'] for tool in tools or []]} {reasoning_effort}"

    create = client_of(echo, openai.routes(openai.Chat(echo, template))).chat.completions.create
    response = create(model="echo", messages=HELLO, tools=[WEATHER], reasoning_effort="low")
    assert response.choices[0].message.content == "What is the weather? ['weather'] low"


def test_completion_takes_prompts_of_tokens(client_of: ServeModels) -> None:
    @model(name="tokens")
    def tokens(prompt: str = "", prompt_token_ids: list[int] | None = None) -> str:
        return f"{prompt}{prompt_token_ids}"

    create = client_of(tokens, openai.routes(openai.Completions(tokens))).completions.create
    assert [one.text for one in create(model="tokens", prompt=[1, 2]).choices] == ["[1, 2]"]
    assert [one.text for one in create(model="tokens", prompt=[[1], [2, 3]]).choices] == ["[1]", "[2, 3]"]
    assert [one.text for one in create(model="tokens", prompt="text").choices] == ["textNone"]
    with pytest.raises(BadRequestError, match=r"'prompt\[1\]' must be a string or a list of token ids"):
        create(model="tokens", prompt=[[1], [-2]])
    with pytest.raises(BadRequestError, match="'echo' needs prompts of text"):
        create(model="tokens", prompt=[1], echo=True)


def test_batched_model_takes_members_as_rows(client_of: ServeModels) -> None:
    from penstock import Batching

    @model(
        name="rows",
        inputs=[Tensor("prompt", str, [1]), Tensor("temperature", np.float32, [1], optional=True)],
        outputs=[Tensor("text", str, [1])],
        batching=Batching(max_size=4),
    )
    def rows(prompt, temperature=None):
        return np.array(
            [[f"{text} {heat}"] for text, heat in zip(prompt[:, 0], temperature[:, 0], strict=True)], object
        )

    create = client_of(rows, openai.routes(openai.Completions(rows))).completions.create
    assert create(model="rows", prompt="a", temperature=0.5).choices[0].text == "a 0.5"


def tool(**function: Any) -> list[dict[str, Any]]:
    return [{"type": "function", "function": {"name": "f", **function}}]


@pytest.mark.parametrize(
    ("members", "param", "message"),
    [
        ({"tools": {}}, "tools", "'tools' must be a list"),
        ({"tools": [{"type": "retrieval"}]}, "tools[0].type", "'tools[0].type' is 'retrieval', expected 'function'"),
        ({"tools": [{"type": "function"}]}, "tools[0].function", "'tools[0].function' must be an object"),
        ({"tools": tool(name="a b")}, "tools[0].function.name",
         "'tools[0].function.name' must be a name of 1 to 128 letters, digits, '_', '-' and '.'"),
        ({"tools": tool(parameters=[])}, "tools[0].function.parameters",
         "'tools[0].function.parameters' must be an object"),
        ({"tools": tool() * 1025}, "tools", "'tools' has 1025 tools, expected 1024 at most"),
        ({"tool_choice": "required"}, "tool_choice", "'tool_choice' needs 'tools'"),
        ({"tools": tool(), "tool_choice": "some"}, "tool_choice",
         "'tool_choice' must be 'none', 'auto', 'required', or an object of the type 'function' with its name"),
        ({"tools": tool(), "tool_choice": {"type": "function", "function": {"name": "g"}}}, "tool_choice.function.name",
         "'tool_choice.function.name' is 'g', expected one of the tools: f"),
        ({"response_format": "json"}, "response_format", "'response_format' must be an object"),
        ({"response_format": {"type": "xml"}}, "response_format.type",
         "'response_format.type' is 'xml', expected one of 'text', 'json_object', 'json_schema'"),
        ({"response_format": {"type": "json_schema", "json_schema": {"name": "n"}}},
         "response_format.json_schema.schema", "'response_format.json_schema.schema' must be an object"),
        ({"logit_bias": {"5": 1}}, "logit_bias", "'logit_bias' is not supported here"),
        ({"stream_options": {"include_usage": True}}, "stream_options", "'stream_options' needs 'stream': true"),
        ({"stream": True, "stream_options": {"include_usage": 1}}, "stream_options.include_usage",
         "'stream_options.include_usage' must be a boolean"),
        ({"messages": [{"role": "assistant", "tool_calls": [{"id": "a"}]}]}, "messages[0].tool_calls[0].function",
         "'messages[0].tool_calls[0].function' must be an object with a 'name'"),
    ],
)  # fmt: skip
def test_bad_member_is_named_by_its_path(members: dict[str, Any], param: str, message: str) -> None:
    with Client(agent, openai.routes(openai.Chat(agent))) as client:
        response = post(client, CHAT, {"model": "agent", "messages": HELLO, **members})
    error = {"message": message, "type": "invalid_request_error", "param": param, "code": None}
    assert (response.status, response.json()) == (400, {"error": error})


def test_logit_bias_is_checked_where_it_is_accepted() -> None:
    @model(name="biased")
    def biased(messages: list[dict[str, Any]], logit_bias: dict[str, float] | None = None) -> str:
        return json.dumps(logit_bias)

    with Client(biased, openai.routes(openai.Chat(biased))) as client:
        good = post(client, CHAT, {"model": "biased", "messages": HELLO, "logit_bias": {"5": -100}}).json()
        assert good["choices"][0]["message"]["content"] == '{"5": -100.0}'
        for bias in ({"five": 1}, {"5": 101}, {"5": "1"}):
            refused = post(client, CHAT, {"model": "biased", "messages": HELLO, "logit_bias": bias}).json()
            assert refused["error"]["param"] == f"logit_bias.{next(iter(bias))}"


def test_unknown_declarations_are_rejected() -> None:
    with pytest.raises(SignatureError, match=r"Chat\('agent'\): accepts has 'hands', expected some of: .*image_url"):
        openai.Chat(agent, accepts={"hands"})


def test_endless_tool_call_is_bounded(client_of: ServeModels) -> None:
    @model(name="endless")
    def endless(messages: list[dict[str, Any]], tools: list[Any] | None = None) -> Iterator[Delta]:
        yield Delta(tool_calls=[ToolCall("f")])
        while True:
            yield Delta(tool_calls=[ToolCall(arguments="x" * 65536)])

    client = client_of(endless, openai.routes(openai.Chat(endless)))
    with pytest.raises(InternalServerError, match="call of 'f' has more than 1048576 bytes of arguments"):
        client.chat.completions.create(model="endless", messages=HELLO, tools=[WEATHER])


def test_malformed_delta_is_the_models_error(client_of: ServeModels) -> None:
    @model(name="wrong")
    def wrong(messages: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        yield {"contents": "x"}

    client = client_of(wrong, openai.routes(openai.Chat(wrong)))
    with pytest.raises(InternalServerError, match="the model gave no delta: unknown field `contents`"):
        client.chat.completions.create(model="wrong", messages=HELLO)


def test_prompt_beyond_the_limit_is_refused_before_it_is_read(client_of: ServeModels) -> None:
    client = client_of(agent, openai.routes(openai.Chat(agent)))
    connection = http.client.HTTPConnection(str(client.base_url.host), client.base_url.port, timeout=PATIENCE)
    connection.putrequest("POST", CHAT)
    connection.putheader("content-length", str((64 << 20) + 1))
    connection.endheaders()
    response = connection.getresponse()
    assert response.status == 413
    assert b"at most 67108864 are accepted" in response.read()
    connection.close()
