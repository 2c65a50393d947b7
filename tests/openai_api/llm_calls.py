"""Calls of clients of language models, in their own environment: `python llm_calls.py URL`. Prints what they got.

Each client runs a loop of two turns with a tool: the model calls `weather`, then repeats its result. Streamed and not.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import anthropic
import litellm
import openai
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

QUESTION = "What is the weather?"
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
FUNCTION = {"name": "weather", "description": "The weather of a city.", "parameters": SCHEMA}
RESULT = "sunny"


def of_anthropic(url: str) -> Any:
    client = anthropic.Anthropic(base_url=url, api_key="-", max_retries=0)
    tools: Any = [{"name": "weather", "description": "The weather of a city.", "input_schema": SCHEMA}]
    messages: Any = [{"role": "user", "content": QUESTION}]

    def ask(stream: bool) -> Any:
        asked: Any = {"model": "agent", "max_tokens": 100, "messages": messages, "tools": tools, "system": "Be brief."}
        if not stream:
            return client.messages.create(**asked)
        with client.messages.stream(**asked) as events:
            return events.get_final_message()

    found = []
    for stream in (False, True):
        del messages[1:]
        called = ask(stream)
        uses = [block for block in called.content if block.type == "tool_use"]
        messages.append({"role": "assistant", "content": [block.model_dump() for block in called.content]})
        results = [{"type": "tool_result", "tool_use_id": use.id, "content": RESULT} for use in uses]
        messages.append({"role": "user", "content": results})
        answered = ask(stream)
        found.append(
            [
                [block.type for block in called.content],
                called.stop_reason,
                [use.input for use in uses],
                answered.content[0].text,
                answered.stop_reason,
                [called.usage.input_tokens, called.usage.output_tokens],
            ]
        )
    found.append(client.messages.count_tokens(model="agent", messages=messages[:1]).input_tokens)
    try:
        client.messages.create(model="agent", max_tokens=0, messages=messages[:1])
    except anthropic.BadRequestError as error:
        found.append(error.body)
    try:
        client.messages.create(model="none", max_tokens=1, messages=messages[:1])
    except anthropic.NotFoundError as error:
        found.append(error.body)
    return found


def of_responses(url: str) -> Any:
    client = openai.OpenAI(base_url=f"{url}/v1", api_key="-", max_retries=0)
    tools: Any = [{"type": "function", "strict": False, **FUNCTION}]
    found = []
    for stream in (False, True):
        items: Any = [{"role": "user", "content": QUESTION}]
        kinds: list[str] = []

        def ask(items: Any, stream: bool, kinds: list[str]) -> Any:
            asked: Any = {"model": "agent", "input": items, "tools": tools, "instructions": "Be brief."}
            if not stream:
                return client.responses.create(**asked)
            with client.responses.stream(**asked) as events:
                kinds.extend(event.type for event in events)
                return events.get_final_response()

        called = ask(items, stream, kinds)
        calls = [item for item in called.output if item.type == "function_call"]
        items += [item.model_dump(exclude_none=True, exclude={"parsed_arguments"}) for item in called.output]
        items += [{"type": "function_call_output", "call_id": call.call_id, "output": RESULT} for call in calls]
        answered = ask(items, stream, kinds)
        found.append(
            [
                [item.type for item in called.output],
                [json.loads(call.arguments) for call in calls],
                answered.output_text,
                [called.status, called.usage.input_tokens, called.usage.output_tokens],
                sorted(set(kinds)),
            ]
        )
    return found


def of_litellm(url: str) -> Any:
    found = []
    for model, base in (("openai/agent", f"{url}/v1"), ("anthropic/agent", url)):
        for stream in (False, True):
            messages: Any = [{"role": "user", "content": QUESTION}]
            tools: Any = [{"type": "function", "function": FUNCTION}]

            def ask(model: str, base: str, messages: Any, tools: Any, stream: bool) -> Any:
                asked: Any = {"model": model, "api_base": base, "api_key": "-", "messages": messages, "tools": tools}
                given = litellm.completion(**asked, stream=stream, max_tokens=100, num_retries=0)
                return litellm.stream_chunk_builder([*given], messages=messages) if stream else given

            (choice,) = ask(model, base, messages, tools, stream).choices
            messages.append(choice.message.model_dump(exclude_none=True))
            for call in choice.message.tool_calls:
                messages.append({"role": "tool", "tool_call_id": call.id, "content": RESULT})
            arguments = [json.loads(call.function.arguments) for call in choice.message.tool_calls]
            (answer,) = ask(model, base, messages, tools, stream).choices
            found.append([choice.finish_reason, arguments, answer.message.content, answer.finish_reason])
    return found


@tool
def weather(city: str) -> str:
    """The weather of a city."""
    return RESULT


def of_langchain(url: str) -> Any:
    models: list[Any] = [
        ChatOpenAI(model="agent", base_url=f"{url}/v1", api_key="-", max_retries=0),
        ChatOpenAI(model="agent", base_url=f"{url}/v1", api_key="-", max_retries=0, use_responses_api=True),
        ChatAnthropic(model="agent", base_url=url, api_key="-", max_retries=0, max_tokens=100),
    ]
    found = []
    for model in models:
        bound = model.bind_tools([weather])
        for stream in (False, True):
            messages: list[Any] = [HumanMessage(QUESTION)]

            def ask(bound: Any, messages: list[Any], stream: bool) -> Any:
                if not stream:
                    return bound.invoke(messages)
                whole = None
                for chunk in bound.stream(messages):
                    whole = chunk if whole is None else whole + chunk
                return whole

            called = ask(bound, messages, stream)
            messages.append(called)
            messages += [
                ToolMessage(weather.invoke(call["args"]), tool_call_id=call["id"]) for call in called.tool_calls
            ]
            found.append([[call["args"] for call in called.tool_calls], ask(bound, messages, stream).text])
    return found


def main(url: str) -> None:
    """Calls with all clients."""
    litellm.suppress_debug_info = True
    clients = {
        "anthropic": of_anthropic,
        "responses": of_responses,
        "litellm": of_litellm,
        "langchain": of_langchain,
    }
    print(json.dumps({name: call(url) for name, call in clients.items()}))


if __name__ == "__main__":
    main(*sys.argv[1:])
